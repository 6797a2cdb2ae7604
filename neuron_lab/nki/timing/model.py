"""A recorded run on the modelled clock: both ends of its time, and what the picture at the low end shows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from neuron_lab.errors import UsageError
from neuron_lab.hardware.chips import CHIPS, Chip
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.kernel_assumptions import DEFAULT, KernelAssumptions
from neuron_lab.nki.launching import CoreRun, Run
from neuron_lab.nki.run import Recorded
from neuron_lab.nki.timing.clock import NO_CAUSE, CoreClock, Timeline, run_cores
from neuron_lab.nki.timing.dependencies import Edges, edges_of
from neuron_lab.nki.timing.operands import Ints, accesses_of
from neuron_lab.nki.timing.resources import DMA, ENGINES, RESOURCES, UNORDERED, Costs, Floats, both_ends

_SAME_MOMENT_NS = 1e-6
_PAIR_MEETINGS = frozenset({"core_barrier", "sendrecv"})


@dataclass(frozen=True, eq=False)
class CoreTiming:
    """One core. The low schedule is what is drawn and explained; `high` is the other end."""

    rank: int
    program: int
    log: tuple[Recorded, ...]
    edges: Edges
    low_costs: Costs
    high_costs: Costs
    low: Timeline
    high: Timeline
    dma_engines: float

    @property
    def span_ns(self) -> Interval:
        return Interval(self.low.span_ns, max(self.low.span_ns, self.high.span_ns))

    def dma_end_before(self, number: int, at_ns: float) -> int:
        """The transfer that ended when this one's bytes began to move, having begun earlier; -1: none."""
        rows, ends = self._dma_ends
        first = int(np.searchsorted(ends, at_ns - _SAME_MOMENT_NS))
        while first < len(ends) and ends[first] <= at_ns + _SAME_MOMENT_NS:
            if self.low.busy_from_ns[rows[first]] < at_ns - _SAME_MOMENT_NS:
                return int(rows[first])
            first += 1
        return NO_CAUSE

    @functools.cached_property
    def _dma_ends(self) -> tuple[Ints, Floats]:
        rows = np.flatnonzero(self.low_costs.resource == DMA)
        order = np.argsort(self.low.end_ns[rows], kind="stable")
        return rows[order], self.low.end_ns[rows][order]

    def busy_ns(self, engine: str) -> Interval:
        """How long an engine works; of DMA the mean over its engines."""
        low, high = (_busy(costs, engine, self.dma_engines) for costs in (self.low_costs, self.high_costs))
        return Interval(low, max(low, high))


@dataclass(frozen=True, eq=False)
class KernelTiming:
    kernel: str
    chip: Chip
    cores: tuple[CoreTiming, ...]
    assumptions: KernelAssumptions

    @property
    def total_ns(self) -> Interval:
        """Of the slowest core, with starting and ending the kernel."""
        spans = [core.span_ns for core in self.cores] or [Interval(0, 0)]
        longest = Interval(max(each.low for each in spans), max(each.high for each in spans))
        return longest + self.assumptions.launch_ns.interval

    @property
    def instructions(self) -> int:
        return sum(len(core.log) for core in self.cores)

    @property
    def slowest(self) -> CoreTiming:
        return max(self.cores, key=lambda core: core.low.span_ns)


def time_run(run: Run, assumptions: KernelAssumptions = DEFAULT, chip: str | None = None) -> KernelTiming:
    """`run` must have been recorded (`Kernel.record`)."""
    recorded = [core for core in run.cores if core.log is not None]
    if len(recorded) != len(run.cores) or not recorded:
        raise UsageError(
            f"{run.kernel} was run without recording; use kernel.record(...) or nki.profile(kernel)"
        )
    chosen = CHIPS[chip or run.target]
    lnc = 1 + max(core.program for core in recorded)
    prepared = [_prepared(core, run, chosen, assumptions, lnc) for core in recorded]
    meetings = [_meetings(core, run) for core in recorded]
    low = run_cores([_clock(one, chosen, assumptions, False) for one in prepared], meetings)
    high = run_cores([_clock(one, chosen, assumptions, True) for one in prepared], meetings)
    cores = tuple(
        CoreTiming(
            core.rank,
            core.program,
            core.log or (),
            one[0],
            one[1],
            one[2],
            fast,
            slow,
            chosen.dma_engines.value,
        )
        for core, one, fast, slow in zip(recorded, prepared, low, high, strict=True)
    )
    return KernelTiming(run.kernel, chosen, cores, assumptions)


def without(timing: KernelTiming, engine: str) -> KernelTiming:
    """The low schedule again as if one engine took no time at all."""
    code = RESOURCES.index(engine)

    def free(costs: Costs) -> Costs:
        on_it = costs.resource == code
        return replace(
            costs, busy_ns=np.where(on_it, 0, costs.busy_ns), latency_ns=np.where(on_it, 0, costs.latency_ns)
        )

    cores = []
    for core in timing.cores:
        clock = CoreClock(
            free(core.low_costs),
            core.edges,
            timing.assumptions.semaphore_ns.low,
            int(timing.chip.dma_engines.value),
        )
        low = run_cores([clock], [[]])[0]
        cores.append(replace(core, low=low, high=low, low_costs=clock.costs, high_costs=clock.costs))
    return replace(timing, cores=tuple(cores))


def _prepared(
    core: CoreRun, run: Run, chip: Chip, assumptions: KernelAssumptions, lnc: int
) -> tuple[Edges, Costs, Costs]:
    log = core.log or ()
    accesses = accesses_of(log)
    low, high = both_ends(log, accesses, chip, assumptions, lnc)
    return edges_of(core, accesses, low.resource, UNORDERED, run.schedule), low, high


def _clock(
    prepared: tuple[Edges, Costs, Costs], chip: Chip, assumptions: KernelAssumptions, high: bool
) -> CoreClock:
    edges, low_costs, high_costs = prepared
    semaphore = assumptions.semaphore_ns.high if high else assumptions.semaphore_ns.low
    exclusive = high and chip.generation == "NeuronCore-v2"
    return CoreClock(
        high_costs if high else low_costs, edges, semaphore, int(chip.dma_engines.value), exclusive
    )


def _meetings(core: CoreRun, run: Run) -> list[tuple[int, object]]:
    if len(run.cores) == 1:
        return []
    found: list[tuple[int, object]] = []
    for number, one in enumerate(core.log or ()):
        if one.opcode in _PAIR_MEETINGS:
            found.append((number, ("pair", core.rank)))
        elif one.engine == "cc":
            found.append((number, ("ranks", core.program)))
    return found


def _busy(costs: Costs, engine: str, dma_engines: float) -> float:
    on_it = costs.resource == RESOURCES.index(engine)
    if engine == RESOURCES[DMA]:
        return float((costs.busy_ns * costs.dma_engines)[on_it].sum()) / dma_engines
    return float(costs.busy_ns[on_it].sum())


def engines_used(core: CoreTiming) -> Sequence[str]:
    codes = set(np.unique(core.low_costs.resource).tolist())
    return [engine for engine in ENGINES if RESOURCES.index(engine) in codes]
