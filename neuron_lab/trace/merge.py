"""One trace from several: the ranks of a job, or recordings made one after the other.

Wall-clock times are moved to the earliest trace's origin; modelled and measured times stay as they are,
because each trace has device clocks of its own. Process and thread ids may repeat (containers reuse them):
the rank  tells events apart. Numbers that only mean something within one trace (event ids, correlation
numbers, references to signatures, graphs and stacks) are mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neuron_lab.errors import TraceError, UsageError
from neuron_lab.trace.builder import Chunk, Registry, TraceBuilder, lookup, renumbered, with_references
from neuron_lab.trace.columns import CODES, NO_TEXT, Array, constant, is_constant, schema_of
from neuron_lab.trace.events import Clock, TraceHeader
from neuron_lab.trace.table import Table, Trace


def merge(traces: Sequence[Trace]) -> Trace:
    """All events of all traces.

    Ranks stay as they are when no two traces share one; otherwise they are numbered anew, 0 upwards, in the
    order of the traces (and of the ranks within each).
    """
    traces = tuple(traces)
    if not traces:
        raise UsageError("merge was given no traces; give at least one")
    if len(traces) == 1:
        return traces[0]
    rank_maps = _rank_maps([_ranks(trace) for trace in traces])
    shifts_ns, origin_unix_ns = _alignment([trace.header.origin_unix_ns for trace in traces])
    builder = TraceBuilder()
    extra = _extra_columns(traces)
    correlations = 0  # numbered so far
    for trace, rank_of, shift_ns in zip(traces, rank_maps, shifts_ns, strict=True):
        chunks = _chunks(trace, builder.registry, first_id=len(builder))
        known = _correlations(chunks)
        for chunk in chunks:
            chunk = _moved(chunk, rank_of, shift_ns, builder.registry)
            chunk = _recorrelated(chunk, known, first=correlations + 1)
            builder.append(_with_extra(chunk, extra[chunk.kind]))
        correlations += len(known)
    header = _header(traces, rank_maps, origin_unix_ns)
    return builder.freeze(header)


# --- ranks and clocks ---


def _ranks(trace: Trace) -> list[int]:
    found = set(trace.header.ranks)
    for table in trace.tables.values():
        ranks = table.column("rank")
        found.update(np.unique(ranks[:1] if is_constant(ranks) else ranks).tolist())
    return sorted(found)


def _rank_maps(ranks_of: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """Per trace: old rank → new rank."""
    count = sum(map(len, ranks_of))
    if len({rank for ranks in ranks_of for rank in ranks}) == count:
        return [{rank: rank for rank in ranks} for ranks in ranks_of]
    numbers = iter(range(count))
    return [{rank: next(numbers) for rank in ranks} for ranks in ranks_of]


def _alignment(origins_unix_ns: Sequence[int]) -> tuple[list[int], int]:
    """How far to move each trace's wall times, and the merged origin; no moves if an origin is unknown (0)."""
    earliest = min(origins_unix_ns)
    if earliest == 0:
        return [0] * len(origins_unix_ns), 0
    return [origin - earliest for origin in origins_unix_ns], earliest


# --- events ---


def _chunks(trace: Trace, registry: Registry, first_id: int) -> list[Chunk]:
    """The trace's tables with every reference mapped into the registry and ids from `first_id` on."""
    graph_stacks = np.array([registry.stack(stack) for stack in trace.stacks], dtype=np.int64)
    graphs = np.array([registry.graph(with_references(g, graph_stacks)) for g in trace.graphs], dtype=np.int64)
    signatures = np.array(
        [registry.signature(with_references(s, graph_stacks, graphs)) for s in trace.signatures], dtype=np.int64
    )
    new_of = {"signature": signatures, "graph": graphs, "stack": graph_stacks}
    tables = [table for table in trace.tables.values() if len(table)]
    ids = np.concatenate([table.column("id") for table in tables]) if tables else np.empty(0, np.int64)
    if len(ids):
        position_of = lookup(ids, int(ids.max()) + 1)
        new_of["parent"] = np.where(position_of >= 0, position_of + first_id, -1)
    return [renumbered(_chunk(table, registry), new_of) for table in tables]


def _chunk(table: Table, registry: Registry) -> Chunk:
    text = frozenset(name for name in table.columns if table.is_text(name))
    code_of = np.append(registry.pool.codes(table.vocabulary), CODES.type(NO_TEXT))
    arrays = {
        name: _picked(code_of, table.codes(name)) if name in text else table.column(name)
        for name in table.columns
        if name != "id"
    }
    return Chunk(str(table.kind), arrays, text)


def _picked(values: Array, index: Array) -> Array:
    if is_constant(index):
        return constant(values[index[0]], len(index), values.dtype)
    return values[index]


def _moved(chunk: Chunk, rank_of: Mapping[int, int], shift_ns: int, registry: Registry) -> Chunk:
    arrays = chunk.arrays
    changed = {"rank": _new_ranks(arrays["rank"], rank_of)}
    if shift_ns:
        on_wall = arrays["clock"] == registry.pool.code(Clock.WALL.value)
        changed["start_ns"] = arrays["start_ns"] + shift_ns * on_wall
    return chunk.replacing(changed)


def _correlations(chunks: Sequence[Chunk]) -> Array:
    """The correlation numbers a trace uses, rising; 0 (none) is not one."""
    found = [chunk.arrays["correlation"] for chunk in chunks]
    numbers = np.concatenate([np.zeros(1, np.uint64), *found])
    numbers.sort()  # np.unique hashes (numpy 2.4), which takes ten times as long when most numbers differ
    return numbers[1:][numbers[1:] != numbers[:-1]]


def _recorrelated(chunk: Chunk, known: Array, first: int) -> Chunk:
    """Numbered anew from `first` on, so that those of two traces differ."""
    old = chunk.arrays["correlation"]
    new = np.where(old > 0, np.searchsorted(known, old) + first, 0).astype(np.uint64)
    return chunk.replacing({"correlation": new})


def _new_ranks(ranks: Array, rank_of: Mapping[int, int]) -> Array:
    if is_constant(ranks):
        return constant(rank_of[int(ranks[0])], len(ranks), ranks.dtype)
    new = ranks.copy()
    for old, rank in rank_of.items():
        new[ranks == old] = rank
    return new


def _extra_columns(traces: Sequence[Trace]) -> dict[str, dict[str, bool]]:
    """Per kind: columns beyond the schema in any of the traces, and whether they are text."""
    extra: dict[str, dict[str, bool]] = {}
    for table in (table for trace in traces for table in trace.tables.values()):
        columns = extra.setdefault(str(table.kind), {})
        for name in set(table.columns) - {"id", *schema_of(table.kind)}:
            if columns.setdefault(name, table.is_text(name)) != table.is_text(name):
                raise TraceError(
                    f"cannot merge: {table.kind} column {name!r} is text in one trace and numbers in another"
                )
    return extra


def _with_extra(chunk: Chunk, extra: Mapping[str, bool]) -> Chunk:
    """The chunk with the columns only other traces have: no text, or None."""
    missing = {name: is_text for name, is_text in extra.items() if name not in chunk.arrays}
    filled = {
        name: constant(NO_TEXT if is_text else None, len(chunk), CODES if is_text else object)
        for name, is_text in missing.items()
    }
    text = chunk.text | {name for name, is_text in missing.items() if is_text}
    return Chunk(chunk.kind, {**chunk.arrays, **filled}, text)


# --- header ---


def _header(
    traces: Sequence[Trace], rank_maps: Sequence[Mapping[int, int]], origin_unix_ns: int
) -> TraceHeader:
    headers = [trace.header for trace in traces]
    labels = [f"rank {','.join(map(str, rank_of.values()))}" for rank_of in rank_maps]
    ends_ns = [
        max(header.origin_unix_ns - origin_unix_ns, 0) * (origin_unix_ns > 0) + header.duration_ns
        for header in headers
    ]

    def common(read: Callable[[TraceHeader], Any], otherwise: Any) -> Any:
        values = [read(header) for header in headers]
        return values[0] if all(value == values[0] for value in values) else otherwise

    def by_rank(read: Callable[[TraceHeader], Mapping[str, Any]]) -> dict[str, Any]:
        """Entries that are equal everywhere once, others under the rank they belong to."""
        maps = [read(header) for header in headers]
        same = {key: value for key, value in maps[0].items() if all(key in m and m[key] == value for m in maps)}
        apart = {
            f"{label}: {key}": value
            for label, entries in zip(labels, maps, strict=True)
            for key, value in entries.items()
            if key not in same
        }
        return same | apart

    def joined(read: Callable[[TraceHeader], str]) -> str:
        return ", ".join(dict.fromkeys(filter(None, map(read, headers))))

    return TraceHeader(
        name=joined(lambda header: header.name),
        device=common(lambda header: header.device, "mixed"),
        instance=joined(lambda header: header.instance),
        chip=joined(lambda header: header.chip),
        lnc=common(lambda header: header.lnc, 0),
        cores=common(lambda header: header.cores, 0),
        hbm_limit_bytes=common(lambda header: header.hbm_limit_bytes, 0),
        origin_unix_ns=origin_unix_ns,
        duration_ns=max(ends_ns),
        ranks=tuple(sorted(rank for rank_of in rank_maps for rank in rank_of.values())),
        versions=by_rank(lambda header: header.versions),
        host=joined(lambda header: header.host),
        context=by_rank(lambda header: header.context),
        dropped=_summed([header.dropped for header in headers]),
        error="; ".join(f"{label}: {h.error}" for label, h in zip(labels, headers, strict=True) if h.error),
        counters=_apart(labels, headers),
    )


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for reason, count in each.items():
            total[reason] = total.get(reason, 0) + count
    return total


def _apart(labels: Sequence[str], headers: Sequence[TraceHeader]) -> dict[str, float]:
    """Counters are peaks as well as sums, so they are never added: each stays under its rank."""
    return {
        f"{label}: {name}": value
        for label, header in zip(labels, headers, strict=True)
        for name, value in header.counters.items()
    }
