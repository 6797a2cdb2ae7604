"""What device memory holds, replayed allocation by allocation: by category and by the user's line.

Needs more than sizes: the block of every allocation and release, and the category of allocations. A device that
does not record them gives no reading, and the answer is None. An allocation whose category nobody set counts as
"other" beside those that have one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.two_ends import Array
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Table, Trace

CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "cache", "other")
UNKNOWN_PLACE = "unknown place"


@dataclass(frozen=True)
class MemoryUse:
    """Bytes alive at the moment of one core's peak, by category and by place; and the peak of each category."""

    rank: int
    core: int
    peak_bytes: int  # of what this profile allocated
    at_ns: int
    by_category: dict[str, int]
    by_place: dict[str, int] | None  # largest first; None: allocations carry no stacks
    category_peak_bytes: dict[str, int]


def memory_use(trace: Trace) -> tuple[MemoryUse, ...] | None:
    """One per core that allocated; None when the trace does not say what belongs together."""
    allocs, frees = trace.table(Kind.ALLOC), trace.table(Kind.FREE)
    if not len(allocs) or (allocs.column("block") < 0).any() or not any(allocs.strings("category")):
        return None
    keys = zip(allocs.column("rank").tolist(), allocs.column("core").tolist(), strict=True)
    return tuple(
        _of_core(trace, _of(allocs, rank, core), _of(frees, rank, core), rank, core)
        for rank, core in sorted(set(keys))
    )


def _of(table: Table, rank: int, core: int) -> Table:
    return table.where((table.column("rank") == rank) & (table.column("core") == core))


def _of_core(trace: Trace, allocs: Table, frees: Table, rank: int, core: int) -> MemoryUse:
    names = [name or "other" for name in allocs.strings("category")]
    known = {name: code for code, name in enumerate(dict.fromkeys([*CATEGORIES, *names]))}
    categories = np.array([known[name] for name in names], np.int64)
    sizes = allocs.column("size_bytes")
    begins, ends = allocs.column("start_ns"), _ends(allocs, frees)
    moments, change, which = _changes(begins, ends, sizes)
    level = np.cumsum(change)
    top = int(np.argmax(level))
    alive = np.zeros(len(allocs), bool)
    alive[which[: top + 1]] = change[: top + 1] > 0  # a later release of the same allocation switches it off
    by_category = np.bincount(categories[alive], sizes[alive], len(known)).astype(np.int64)
    peaks = {
        name: int(np.cumsum(np.where(categories[which] == code, change, 0)).max(initial=0))
        for name, code in known.items()
    }
    return MemoryUse(
        rank,
        core,
        int(level[top]),
        int(moments[top]),
        {name: int(by_category[code]) for name, code in known.items() if by_category[code]},
        _by_place(trace, allocs, sizes, alive),
        {name: peak for name, peak in peaks.items() if peak},
    )


def _ends(allocs: Table, frees: Table) -> Array:
    """When each allocation is given back; the largest integer when it is not. Blocks may be used again."""
    never = np.iinfo(np.int64).max
    ends = np.full(len(allocs), never)
    waiting: dict[int, list[int]] = {}
    events = sorted(
        [(start, row, 0, block) for row, (start, block) in enumerate(_pairs(allocs))]
        + [(start, row, 1, block) for row, (start, block) in enumerate(_pairs(frees))],
        key=lambda event: (
            event[0],
            event[2] == 0,
            event[1],
        ),  # a release before an allocation of the same moment
    )
    for start, row, is_free, block in events:
        if not is_free:
            waiting.setdefault(block, []).append(row)
        elif waiting.get(block):
            ends[waiting[block].pop()] = start
    return ends


def _pairs(table: Table) -> list[tuple[int, int]]:
    return list(zip(table.column("start_ns").tolist(), table.column("block").tolist(), strict=True))


def _changes(begins: Array, ends: Array, sizes: Array) -> tuple[Array, Array, Array]:
    """Every change of the level in order of time: when, by how much, and of which allocation."""
    given = np.flatnonzero(ends != np.iinfo(np.int64).max)
    moments = np.concatenate([begins, ends[given]])
    change = np.concatenate([sizes, -sizes[given]])
    which = np.concatenate([np.arange(len(begins)), given])
    order = np.lexsort((change > 0, moments))
    return moments[order], change[order], which[order]


def _by_place(trace: Trace, allocs: Table, sizes: Array, alive: Array) -> dict[str, int] | None:
    if not (allocs.column("stack") >= 0).any():
        return None
    found: dict[str, int] = {}
    for stack, size in zip(allocs.column("stack")[alive].tolist(), sizes[alive].tolist(), strict=True):
        frames = trace.stacks[stack] if 0 <= stack < len(trace.stacks) else ()
        place = f"{frames[0].file}:{frames[0].line}" if frames else UNKNOWN_PLACE
        found[place] = found.get(place, 0) + size
    return dict(sorted(found.items(), key=lambda item: -item[1]))
