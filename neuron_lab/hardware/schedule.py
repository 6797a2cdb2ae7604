"""Deterministic list scheduling: when each kernel of a launch order starts, given launches and durations.

Every host launches its kernels one after another, each taking `launch_ns`, and runs ahead of the cores without
limit. A core runs its kernels in launch order; kernel i starts when its launch is done and the core is free. At
a synchronisation (a read-back, for instance) the host waits until all its cores are done before it goes on.

A host here is a process. Waiting for *all* its cores is exact when the process uses one core, else late.
Copies, fallbacks and Python's own time between launches are not in here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Nanoseconds after the schedule's beginning, one entry per kernel in launch order."""

    launch_start_ns: Int64
    start_ns: Int64
    end_ns: Int64


@dataclass
class Host:
    """Where one host and its cores stand; scheduling a batch moves it on."""

    launch_ns: int
    now_ns: int = 0
    core_free_ns: dict[int, int] = field(default_factory=dict)
    busy_ns: dict[int, int] = field(default_factory=dict)

    @property
    def span_ns(self) -> int:
        """When the last kernel ended."""
        return max(self.core_free_ns.values(), default=0)

    def synchronise(self) -> None:
        self.now_ns = max(self.now_ns, self.span_ns)

    def run(
        self,
        core: npt.NDArray[Any],
        duration_ns: npt.NDArray[Any],
        wait_before: npt.NDArray[np.bool_],
        before_launch_ns: npt.NDArray[Any] | None = None,
    ) -> Schedule:
        """Schedule a batch after everything scheduled so far.

        `before_launch_ns`: what else the host does before each launch (compiling the kernel, for instance).
        """
        count = len(core)
        if not count:
            empty = np.empty(0, np.int64)
            return Schedule(empty, empty, empty)
        if wait_before[0]:
            self.synchronise()
        duration = duration_ns.astype(np.int64)
        waits = np.flatnonzero(wait_before[1:]) + 1
        hosted = np.full(count, self.launch_ns, np.int64)
        if before_launch_ns is not None:
            hosted += before_launch_ns
        launched = np.cumsum(hosted) + self.now_ns
        if not len(waits):
            start = self._start(core, duration, launched)
        elif int(core.min()) == int(core.max()):
            start, launched = self._start_with_waits(int(core[0]), duration, launched, waits, hosted)
        else:
            start, launched = self._start_part_by_part(core, duration, waits, hosted)
        end = start + duration
        self._move_on(core, duration, launched, end)
        return Schedule(launched - self.launch_ns, start, end)

    def _start(self, core: npt.NDArray[Any], duration: Int64, launched: Int64) -> Int64:
        """No waiting: every core is a queue of its own."""
        if int(core.min()) == int(core.max()):
            return _queue(launched, duration, self.core_free_ns.get(int(core[0]), 0))
        start = np.empty(len(core), np.int64)
        for each in np.unique(core).tolist():
            rows = np.flatnonzero(core == each)
            start[rows] = _queue(launched[rows], duration[rows], self.core_free_ns.get(each, 0))
        return start

    def _start_with_waits(
        self, core: int, duration: Int64, launched: Int64, waits: Int64, hosted: Int64
    ) -> tuple[Int64, Int64]:
        """One core: after a wait host and core stand at the same time, so every part between two waits
        takes what it takes alone; the parts are scheduled from zero in one pass and then strung together."""
        first = int(waits[0])
        head = _queue(launched[:first], duration[:first], self.core_free_ns.get(core, 0))
        reached = max(int(launched[first - 1]), int(head[-1] + duration[first - 1]))

        begins = waits - first
        durations = duration[first:]
        part = np.zeros(len(durations), np.int64)
        part[begins] = 1
        part = np.cumsum(part) - 1
        reached_by_host = np.cumsum(hosted[first:])
        alone_launched = reached_by_host - (reached_by_host - hosted[first:])[begins][part]
        done = np.cumsum(durations)
        before = done - durations
        before -= before[begins][part]
        # a step per part larger than any value keeps the running maximum from crossing into the next part
        step = int(before.max()) + int(alone_launched.max()) + 1
        alone_start = np.maximum.accumulate(alone_launched - before + part * step) - part * step + before

        lasts = np.append(begins[1:], len(durations)) - 1
        lengths = np.maximum(alone_start[lasts] + durations[lasts], alone_launched[lasts])
        offset = (reached + np.cumsum(lengths) - lengths)[part]
        start = np.concatenate([head, alone_start + offset])
        return start, np.concatenate([launched[:first], alone_launched + offset])

    def _start_part_by_part(
        self, core: npt.NDArray[Any], duration: Int64, waits: Int64, hosted: Int64
    ) -> tuple[Int64, Int64]:
        """Several cores and waits: rare, so one pass per part."""
        free = dict(self.core_free_ns)
        now = self.now_ns
        starts, launches = [], []
        parts = (np.split(column, waits) for column in (core, duration, hosted))
        for part_core, part, part_hosted in zip(*parts, strict=True):
            launched = np.cumsum(part_hosted) + now
            start = np.empty(len(part), np.int64)
            for each in np.unique(part_core).tolist():
                rows = np.flatnonzero(part_core == each)
                start[rows] = _queue(launched[rows], part[rows], free.get(each, 0))
                free[each] = int(start[rows[-1]] + part[rows[-1]])
            now = max(int(launched[-1]), *free.values())
            starts.append(start)
            launches.append(launched)
        return np.concatenate(starts), np.concatenate(launches)

    def _move_on(self, core: npt.NDArray[Any], duration: Int64, launched: Int64, end: Int64) -> None:
        self.now_ns = int(launched[-1])
        alone = int(core.min()) == int(core.max())
        for each in [int(core[0])] if alone else np.unique(core).tolist():
            rows = slice(None) if alone else core == each
            self.core_free_ns[each] = int(end[rows].max())
            self.busy_ns[each] = self.busy_ns.get(each, 0) + int(duration[rows].sum())


def _queue(ready: Int64, duration: Int64, free_ns: int) -> Int64:
    """Start times on one in-order queue that is free from `free_ns` on: start = max(ready, end before).

    With C the running sum of the durations before, start - C is the running maximum of ready - C.
    """
    before = np.cumsum(duration) - duration
    ahead = ready - before
    ahead[0] = max(int(ahead[0]), free_ns)
    return np.maximum.accumulate(ahead) + before
