"""The schedule: instructions in program order on engines, transfers on DMA engines, cores that meet.

An instruction starts when its engine is free and what it waits for has ended, plus a semaphore when that ran
elsewhere. A transfer's engines are busy only once its start latency has passed. NeuronCore-v2 does not let the
vector engine and GpSimd at SBUF together; the high end keeps them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from neuron_lab.nki.timing.dependencies import Edges
from neuron_lab.nki.timing.queues import DmaLanes
from neuron_lab.nki.timing.resources import COLLECTIVE, DMA, RESOURCES, Costs, Floats, Ints

NO_CAUSE = -1
_VECTOR_GPSIMD = _VECTOR, _GPSIMD = RESOURCES.index("vector"), RESOURCES.index("gpsimd")


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each instruction of one core ran. `busy_from_ns`: when a transfer's bytes began to move."""

    start_ns: Floats
    busy_from_ns: Floats
    end_ns: Floats
    cause: Ints  # the instruction that ended last of what this one waited for, its engine's last included

    @property
    def span_ns(self) -> float:
        return float(self.end_ns.max()) if len(self.end_ns) else 0.0


@dataclass(eq=False)
class CoreClock:
    """One core's schedule in the making."""

    costs: Costs
    edges: Edges
    semaphore_ns: float
    dma_engines: int
    exclusive: bool = False  # vector and GpSimd take turns
    _free: list[float] = field(default_factory=lambda: [0.0] * len(RESOURCES))
    _last: list[int] = field(default_factory=lambda: [NO_CAUSE] * len(RESOURCES))

    def __post_init__(self) -> None:
        transfers = self.costs.dma_engines[self.costs.resource == DMA]
        self._lanes = DmaLanes(self.dma_engines, int(transfers.min()) if len(transfers) else self.dma_engines)
        count = len(self.costs.resource)
        self._resource = self.costs.resource.tolist()
        self._busy, self._latency = self.costs.busy_ns.tolist(), self.costs.latency_ns.tolist()
        self._engines = self.costs.dma_engines.tolist()
        self._first, self._sources = self.edges.first.tolist(), self.edges.sources.tolist()
        self._start, self._from = [0.0] * count, [0.0] * count
        self._end, self._cause = [0.0] * count, [NO_CAUSE] * count

    def run(self, first: int, stop: int) -> None:
        """Place instructions [first, stop)."""
        resource, busy, latency = self._resource, self._busy, self._latency
        edges, sources, end, cause = self._first, self._sources, self._end, self._cause
        start, begun, free, last = self._start, self._from, self._free, self._last
        hop, exclusive = self.semaphore_ns, self.exclusive
        place, engines = self._lanes.place, self._engines
        for i in range(first, stop):
            own = resource[i]
            ready, why = 0.0, NO_CAUSE
            for earlier in sources[edges[i] : edges[i + 1]]:
                done = end[earlier] if resource[earlier] == own else end[earlier] + hop
                if done > ready:
                    ready, why = done, earlier
            if own == DMA:
                begin, done = place(ready + latency[i], busy[i], engines[i])
                start[i], begun[i], end[i], cause[i] = ready, begin, done, why
                continue
            until = free[own]
            if exclusive and (own in _VECTOR_GPSIMD):
                other = _GPSIMD if own == _VECTOR else _VECTOR
                if free[other] > until and free[other] > ready:
                    until, last[own] = free[other], last[other]
            if until >= ready:
                ready, why = until, last[own]
            start[i] = begun[i] = ready
            free[own] = ready + busy[i]
            end[i] = ready + busy[i] + latency[i]
            last[own] = i
            cause[i] = why

    def meet(self, instruction: int, at_ns: float) -> None:
        """Everything after a meeting of cores waits until the last one has come."""
        own = self._resource[instruction]
        self._end[instruction] = max(self._end[instruction], at_ns)
        if own not in (DMA, COLLECTIVE):
            self._free[own] = max(self._free[own], at_ns)

    def end_of(self, instruction: int) -> float:
        return self._end[instruction]

    def timeline(self) -> Timeline:
        start, begun, end = (np.array(each, float) for each in (self._start, self._from, self._end))
        return Timeline(start, begun, end, np.array(self._cause, np.int64))


def run_cores(clocks: Sequence[CoreClock], meetings: Sequence[Sequence[tuple[int, object]]]) -> list[Timeline]:
    """`meetings`: per core its (instruction, group) in program order; equal groups meet in their order."""
    position, reached = [0] * len(clocks), [0] * len(clocks)
    while True:
        waiting: dict[object, list[int]] = {}
        for core, clock in enumerate(clocks):
            if reached[core] < len(meetings[core]):
                instruction, group = meetings[core][reached[core]]
                clock.run(position[core], instruction + 1)
                position[core] = instruction + 1
                waiting.setdefault(group, []).append(core)
            else:
                clock.run(position[core], len(clock.costs.resource))
                position[core] = len(clock.costs.resource)
        if not waiting:
            return [clock.timeline() for clock in clocks]
        for cores in _complete(waiting, meetings, reached):
            at = [meetings[core][reached[core]][0] for core in cores]
            latest = max(clocks[core].end_of(one) for core, one in zip(cores, at, strict=True))
            for core, one in zip(cores, at, strict=True):
                clocks[core].meet(one, latest)
                reached[core] += 1


def _complete(
    waiting: dict[object, list[int]], meetings: Sequence[Sequence[tuple[int, object]]], reached: Sequence[int]
) -> list[list[int]]:
    """Groups that no core has yet to reach; all of them when none is, since the run that was recorded ended."""
    left = [
        {group for _, group in each[at + 1 :]} if at < len(each) else set()
        for each, at in zip(meetings, reached, strict=True)
    ]
    ready = [
        cores
        for group, cores in waiting.items()
        if not any(group in groups for core, groups in enumerate(left) if core not in cores)
    ]
    return ready or list(waiting.values())
