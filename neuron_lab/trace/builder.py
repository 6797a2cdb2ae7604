"""Collects events and freezes them into a `Trace`.

`add` takes one rare event, `extend` takes columns of many. Strings, signatures, graphs and stacks are numbered
by a `Registry`; several builders may share one (the recorder's do), so that a producer maps its own ids once.

    builder = TraceBuilder()
    mm = builder.signature(Signature("aten::mm", ...))
    builder.extend(Kind.OPERATOR, {"name": Text(op_ids, op_names), "start_ns": starts, "duration_ns": durations,
                                   "signature": mm, "core": 0, "track": thread_ids})
    trace = builder.freeze(TraceHeader(name="demo"), start_ns=profile_start)

A column left out gets its default: no text, -1 for integers nobody read, NaN for floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from neuron_lab.trace.columns import (
    Array,
    StringPool,
    Text,
    compact,
    is_constant,
    join,
    normalise,
    take,
)
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TraceHeader
from neuron_lab.trace.table import Table, Trace

__all__ = ["Chunk", "Registry", "Text", "TraceBuilder"]

Item = TypeVar("Item")
Referring = TypeVar("Referring", Signature, GraphSpec)
_NO_IDS: Array = np.empty(0, np.int64)
_FOLD_AT = 4096  # single rows are joined at this many


class Registry:
    """Numbers strings, signatures, graphs and stacks in the order they are first seen. Ids never change."""

    def __init__(self) -> None:
        self.pool = StringPool()
        self.signatures: list[Signature] = []
        self.graphs: list[GraphSpec] = []
        self.stacks: list[tuple[Frame, ...]] = []
        self._ids: dict[object, int] = {}

    def signature(self, signature: Signature) -> int:
        return self._id(signature, self.signatures)

    def graph(self, graph: GraphSpec) -> int:
        return self._id(graph, self.graphs)

    def stack(self, frames: Iterable[Frame]) -> int:
        return self._id(tuple(frames), self.stacks)

    def chunk(self, kind: Kind | str, columns: dict[str, Any]) -> Chunk:
        arrays, text = normalise(str(kind), columns, self.pool)
        return Chunk(str(kind), arrays, text)

    def _id(self, item: Item, items: list[Item]) -> int:
        known = self._ids.get(item)
        if known is None:
            known = self._ids[item] = len(items)
            items.append(item)
        return known


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some events of one kind, ready to be joined with others of the same registry."""

    kind: str
    arrays: dict[str, Array]
    text: frozenset[str]

    def __len__(self) -> int:
        return len(self.arrays["start_ns"])

    def where(self, rows: Array) -> Chunk:
        return Chunk(self.kind, {name: take(array, rows) for name, array in self.arrays.items()}, self.text)

    def replacing(self, changed: dict[str, Array]) -> Chunk:
        return Chunk(self.kind, {**self.arrays, **changed}, self.text)


class TraceBuilder:
    """Collects events; see the module's text for an example."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        self._chunks: dict[str, list[Chunk]] = {}
        self._ids: dict[str, list[Array]] = {}  # beside each chunk: provisional ids of its rows
        self._count = 0
        self._count_of: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count

    def count(self, kind: Kind | str) -> int:
        """Events of one kind so far."""
        return self._count_of.get(kind, 0)

    def rows_after(self, kind: Kind | str, count: int) -> list[Chunk]:
        """The events of one kind in the order they came, without the first `count`."""
        wanted = self.count(kind) - count
        rows: list[Chunk] = []
        for chunk in reversed(self._chunks.get(kind, ())):
            if wanted <= 0:
                break
            skip = max(len(chunk) - wanted, 0)
            rows.append(chunk.where(np.arange(skip, len(chunk))) if skip else chunk)
            wanted -= len(chunk)
        return rows[::-1]

    def signature(self, signature: Signature) -> int:
        """The id to put into a `signature` column. The same signature always has the same id."""
        return self.registry.signature(signature)

    def graph(self, graph: GraphSpec) -> int:
        """The id to put into a `graph` column or into `Signature.graph`."""
        return self.registry.graph(graph)

    def stack(self, frames: Iterable[Frame]) -> int:
        """The id to put into a `stack` column or into `Signature.stack`; innermost frame first."""
        return self.registry.stack(frames)

    def add(self, kind: Kind | str, *, name: str, start_ns: int, duration_ns: int = 0, **columns: Any) -> int:
        """One event. Returns an id that other events of this builder may name as their `parent`."""
        return self.append(
            self.registry.chunk(
                kind, {"name": name, "start_ns": start_ns, "duration_ns": duration_ns, **columns}
            )
        )

    def extend(self, kind: Kind | str, columns: dict[str, Any]) -> int:
        """Many events: each column an array, a list, a `Text`, or one value for all rows.

        Returns the first event's id; the others follow. Arrays are kept, not copied: leave them unchanged.
        """
        return self.append(self.registry.chunk(kind, columns))

    def append(self, chunk: Chunk) -> int:
        """A chunk made by this builder's registry."""
        first = self._count
        self._count += len(chunk)
        self._count_of[chunk.kind] = self.count(chunk.kind) + len(chunk)
        chunks = self._chunks.setdefault(chunk.kind, [])
        ids = self._ids.setdefault(chunk.kind, [])
        chunks.append(chunk)
        ids.append(np.arange(first, self._count))
        if len(chunk) == 1 and len(chunks) % _FOLD_AT == 0:
            self._fold(chunk.kind)
        return first

    def freeze(
        self,
        header: TraceHeader,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        only_used: bool = False,
    ) -> Trace:
        """The trace of the events that start in [start_ns, end_ns], with times relative to `start_ns`.

        `only_used` leaves out the signatures, graphs and stacks no event of the trace refers to and numbers the
        others anew; the recorder wants that because its registry outlives the profile. The builder stays
        usable.
        """
        chosen = [self._chosen(kind, start_ns, end_ns) for kind in self._chunks]
        chosen = [(chunk, ids) for chunk, ids in chosen if len(chunk)]
        tables = _numbered(chosen)
        signatures, graphs, stacks = self.registry.signatures, self.registry.graphs, self.registry.stacks
        if only_used:
            tables, signatures, graphs, stacks = _only_used(tables, self.registry)
        vocabulary, tables = _own_vocabulary(tables, self.registry.pool.strings)
        return Trace(
            header,
            {chunk.kind: Table(chunk.kind, chunk.arrays, chunk.text, vocabulary) for chunk in tables},
            tuple(signatures),
            tuple(graphs),
            tuple(stacks),
        )

    def _fold(self, kind: str) -> None:
        """Single rows cost a dozen arrays each; join them now and then."""
        joined = _joined(self._chunks[kind])
        arrays = {name: compact(array) for name, array in joined.arrays.items()}
        self._chunks[kind] = [joined.replacing(arrays)]
        self._ids[kind] = [np.concatenate(self._ids[kind])]

    def _chosen(self, kind: str, start_ns: int | None, end_ns: int | None) -> tuple[Chunk, Array]:
        self._fold(kind)
        chunk, ids = self._chunks[kind][0], self._ids[kind][0]
        starts = chunk.arrays["start_ns"]
        inside = np.ones(len(chunk), dtype=bool)
        if start_ns is not None:
            inside &= starts >= start_ns
        if end_ns is not None:
            inside &= starts <= end_ns
        if not inside.all():
            chunk, ids = chunk.where(inside), ids[inside]
        starts = chunk.arrays["start_ns"]
        if len(starts) > 1 and bool((np.diff(starts) < 0).any()):
            order = np.argsort(starts, kind="stable")
            chunk, ids = chunk.where(order), ids[order]
        if start_ns:
            chunk = chunk.replacing({"start_ns": chunk.arrays["start_ns"] - start_ns})
        return chunk, ids


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    kind, names, text = chunks[0].kind, tuple(chunks[0].arrays), chunks[0].text
    for chunk in chunks:
        if set(chunk.arrays) != set(names) or chunk.text != text:
            raise ValueError(
                f"{kind} events were added with different columns: {names}, then {tuple(chunk.arrays)}"
            )
    return Chunk(kind, {name: join([chunk.arrays[name] for chunk in chunks]) for name in names}, text)


def _numbered(chosen: Sequence[tuple[Chunk, Array]]) -> list[Chunk]:
    """Final ids, in table order, and `parent` mapped to them; a parent outside the trace becomes -1."""
    first = 0
    numbered = []
    given = np.concatenate([ids for _, ids in chosen]) if chosen else np.empty(0, np.int64)
    final_of: Array | None = None
    for chunk, _ in chosen:
        arrays = {"id": np.arange(first, first + len(chunk)), **chunk.arrays}
        parents = arrays["parent"]
        if bool((parents >= 0).any()):
            if final_of is None:
                final_of = lookup(given, int(given.max()) + 1)
            arrays["parent"] = _mapped(parents, final_of)
        numbered.append(Chunk(chunk.kind, arrays, chunk.text))
        first += len(chunk)
    return numbered


def lookup(kept: Array, size: int) -> Array:
    """Array from old id to new id: `kept[i]` becomes i, everything else -1."""
    new_of = np.full(size, -1, dtype=np.int64)
    new_of[kept] = np.arange(len(kept))
    return new_of


def _mapped(old: Array, new_of: Array) -> Array:
    """`new_of[old]` in old's dtype; what is out of range stays -1."""
    if is_constant(old):
        return np.broadcast_to(_mapped(np.array(old[:1]), new_of), old.shape)
    inside = (old >= 0) & (old < len(new_of))
    return (
        np.where(inside, new_of[np.where(inside, old, 0)], -1).astype(old.dtype) if len(new_of) else old * 0 - 1
    )


def _used(chunks: Sequence[Chunk], column: str, size: int) -> Array:
    used = np.zeros(size, dtype=bool)
    for chunk in chunks:
        if column in chunk.arrays and column not in chunk.text:
            ids = chunk.arrays[column]
            ids = ids[:1] if is_constant(ids) else ids
            used[ids[(ids >= 0) & (ids < size)]] = True
    return used


def _only_used(
    chunks: list[Chunk], registry: Registry
) -> tuple[list[Chunk], list[Signature], list[GraphSpec], list[tuple[Frame, ...]]]:
    """The chunks and what they refer to, numbered anew: events → signatures → graphs, and the stacks of all."""
    signatures = np.flatnonzero(_used(chunks, "signature", len(registry.signatures)))
    used_signatures = [registry.signatures[i] for i in signatures]
    graph_used = _used(chunks, "graph", len(registry.graphs))
    graph_used[[signature.graph for signature in used_signatures if signature.graph >= 0]] = True
    graphs = np.flatnonzero(graph_used)
    used_graphs = [registry.graphs[i] for i in graphs]
    stack_used = _used(chunks, "stack", len(registry.stacks))
    nodes = (node for graph in used_graphs for node in graph.nodes)
    stack_used[[each.stack for each in (*used_signatures, *nodes) if each.stack >= 0]] = True
    stacks = np.flatnonzero(stack_used)
    new_of = {
        "signature": lookup(signatures, len(registry.signatures)),
        "graph": lookup(graphs, len(registry.graphs)),
        "stack": lookup(stacks, len(registry.stacks)),
    }
    return (
        [renumbered(chunk, new_of) for chunk in chunks],
        [with_references(signature, new_of["stack"], new_of["graph"]) for signature in used_signatures],
        [with_references(graph, new_of["stack"]) for graph in used_graphs],
        [registry.stacks[i] for i in stacks],
    )


def with_references(item: Referring, stack_of: Array, graph_of: Array = _NO_IDS) -> Referring:
    """A signature or graph with the stacks and graphs it refers to mapped to new ids."""
    if isinstance(item, GraphSpec):
        return replace(item, nodes=tuple(with_references(node, stack_of, graph_of) for node in item.nodes))
    return replace(
        item,
        stack=int(stack_of[item.stack]) if item.stack >= 0 else -1,
        graph=int(graph_of[item.graph]) if item.graph >= 0 else -1,
    )


def renumbered(chunk: Chunk, new_of: dict[str, Array]) -> Chunk:
    """The chunk with the reference columns named in `new_of` mapped to new ids."""
    present = [name for name in new_of if name in chunk.arrays and name not in chunk.text]
    return chunk.replacing({name: _mapped(chunk.arrays[name], new_of[name]) for name in present})


def _own_vocabulary(chunks: list[Chunk], strings: Sequence[str]) -> tuple[tuple[str, ...], list[Chunk]]:
    """Only the strings these chunks use, with their codes mapped."""
    used = np.zeros(len(strings), dtype=bool)
    for chunk in chunks:
        for name in chunk.text:
            codes = chunk.arrays[name]
            codes = codes[:1] if is_constant(codes) else codes
            used[codes[codes >= 0]] = True
    kept = np.flatnonzero(used)
    new_of = lookup(kept, len(strings))
    mapped = [
        chunk.replacing({name: _mapped(chunk.arrays[name], new_of) for name in chunk.text}) for chunk in chunks
    ]
    return tuple(strings[i] for i in kept.tolist()), mapped
