"""Device memory per core, from allocations and releases during the profile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.two_ends import Array
from neuron_lab.trace.events import NO_CORE, Kind
from neuron_lab.trace.table import Table, Trace


@dataclass(frozen=True, slots=True)
class CoreMemory:
    """Bytes of one core's HBM. None = no reading."""

    rank: int
    core: int
    peak_bytes: int | None
    start_bytes: int | None  # before the first event of the profile
    end_bytes: int | None
    limit_bytes: int | None
    allocations: int
    frees: int


def memory(trace: Trace) -> tuple[CoreMemory, ...]:
    """One entry per core that allocated or released something; empty when the trace has no such event."""
    allocs, frees = trace.table(Kind.ALLOC), trace.table(Kind.FREE)
    cores = sorted(_cores(allocs) | _cores(frees))
    limit = trace.header.hbm_limit_bytes or None
    return tuple(_core_memory(allocs, frees, rank, core, limit) for rank, core in cores)


def _cores(table: Table) -> set[tuple[int, int]]:
    pairs = set(zip(table.column("rank").tolist(), table.column("core").tolist(), strict=True))
    return {(rank, core) for rank, core in pairs if core != NO_CORE}


def _of_core(table: Table, rank: int, core: int) -> Table:
    return table.where((table.column("rank") == rank) & (table.column("core") == core))


def _core_memory(allocs: Table, frees: Table, rank: int, core: int, limit: int | None) -> CoreMemory:
    taken, given = _of_core(allocs, rank, core), _of_core(frees, rank, core)
    start_ns, change, after = (
        np.concatenate(pair)
        for pair in (
            (taken.column("start_ns"), given.column("start_ns")),
            (taken.column("size_bytes"), -given.column("size_bytes")),
            (taken.column("allocated_bytes"), given.column("allocated_bytes")),
        )
    )
    order = np.lexsort((np.arange(len(start_ns)), start_ns))
    change, after = change[order], after[order]
    start, peak, end = _levels(change[after >= 0], after[after >= 0])
    return CoreMemory(rank, core, peak, start, end, limit, len(taken), len(given))


def _levels(change: Array, after: Array) -> tuple[int | None, int | None, int | None]:
    """Bytes at the start, at the peak and at the end of readings that follow one another."""
    if not len(after):
        return None, None, None
    start = int(after[0] - change[0])
    return start, max(start, int(after.max())), int(after[-1])
