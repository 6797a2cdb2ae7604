"""Where each core's modelled span goes: computing, waiting by cause, idle. The parts sum to the span exactly.

Each end of the model is a schedule of its own, so each end has its own parts; parts of two ends do not mix.

computing   an engine of the running kernel works
dma         a kernel runs and every engine waits for its bytes (at the high end also start latencies)
collective  the core is in a collective, or waits in one for other ranks
launch      no kernel: the host hands kernels to the runtime one after another, here or to another core
compile     no kernel: the host compiles (only in a timeline with a cold cache)
dependency  no kernel: the host waits for another core's result, and so this core for the host
idle        after this core's last kernel
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from neuron_lab.analysis.engine_times import COMPUTE, EngineTable, engine_table
from neuron_lab.analysis.modelled import ModelledTimeline, model_timeline
from neuron_lab.analysis.two_ends import Array, CoreKey
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.hardware.chips import CHIPS
from neuron_lab.hardware.cost import ENGINES
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.table import Trace

End = Literal["low", "high"]
CAUSES = ("dma", "collective", "launch", "compile", "dependency")


@dataclass(frozen=True)
class CoreUse:
    """One core at one end of the model, in nanoseconds. `engines` may overlap, the other parts may not."""

    core: CoreKey
    end: End
    span_ns: int
    computing_ns: int
    waiting_ns: dict[str, int]  # by cause, every one of CAUSES
    idle_ns: int
    engine_ns: dict[str, int]

    @property
    def parts_ns(self) -> int:
        return self.computing_ns + sum(self.waiting_ns.values()) + self.idle_ns


@dataclass(frozen=True)
class Utilisation:
    """`why_not` says why there is no core when nothing was modelled."""

    cores: tuple[CoreUse, ...] = ()
    flops: int = 0
    model_flops_share: Interval | None = None  # MFU: of the 16-bit peak of the cores used; not a utilisation
    why_not: str = ""

    def of(self, end: End) -> tuple[CoreUse, ...]:
        return tuple(use for use in self.cores if use.end == end)


def utilisation(trace: Trace, assumptions: Assumptions | None = None, *, cold: bool = False) -> Utilisation:
    """Of every core that ran something."""
    timeline = model_timeline(trace, assumptions, cold=cold)
    return utilisation_of(timeline, engine_table(trace, timeline))


def utilisation_of(timeline: ModelledTimeline, engines: EngineTable) -> Utilisation:
    if timeline.span_ns is None:
        return Utilisation(why_not=timeline.why_not)
    keys = _keys(timeline)
    ends: tuple[End, ...] = ("low", "high")
    uses = [_core_use(timeline, engines, key, end) for end in ends for key in keys]
    flops = int(engines.flops[timeline.signature].sum())
    peak = CHIPS[timeline.chip].tensor_rate["bfloat16"].value * 1e3 * timeline.lnc * len(keys)
    share = Interval(flops / (peak * timeline.span_ns.high), flops / (peak * timeline.span_ns.low))
    return Utilisation(tuple(uses), flops, share)


def _keys(timeline: ModelledTimeline) -> list[CoreKey]:
    placed = {CoreKey(each.rank, each.core) for each in timeline.collectives.placed}
    return sorted(placed | set(timeline.busy_ns))


@dataclass(frozen=True)
class _Side:
    """One end's columns of the timeline."""

    start_ns: Array
    kernel_ns: Array
    launch_start_ns: Array
    launch_ns: int
    compile_ns: Array
    span_ns: int


def _side(timeline: ModelledTimeline, end: End) -> _Side:
    assert timeline.span_ns is not None
    none = np.zeros(len(timeline), np.int64)
    if end == "low":
        waits = none if timeline.compile_low_ns is None else timeline.compile_low_ns
        starts, kernels = timeline.start_ns, timeline.low_ns
        launches, span = timeline.launch_start_ns, timeline.span_ns.low
        return _Side(starts, kernels, launches, round(timeline.launch_ns.low), waits, int(span))
    waits = none if timeline.compile_high_ns is None else timeline.compile_high_ns
    starts, kernels = timeline.high_start_ns, timeline.high_ns
    launches, span = timeline.high_launch_start_ns, timeline.span_ns.high
    return _Side(starts, kernels, launches, round(timeline.launch_ns.high), waits, int(span))


def _core_use(timeline: ModelledTimeline, engines: EngineTable, key: CoreKey, end: End) -> CoreUse:
    side = _side(timeline, end)
    of_rank = timeline.rank == key.rank
    mine = np.flatnonzero(of_rank & (timeline.core == key.core))
    kernels, signature = side.kernel_ns[mine], timeline.signature[mine]
    table = engines.best_ns if end == "low" else engines.worst_ns
    computing = np.minimum(kernels, _computing_ns(table, end)[signature])
    begins, ends, collective = _occupied(timeline, key, side, mine, end)

    gap_begins = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]]) if len(ends) else np.zeros(0, np.int64)
    gaps = np.maximum(begins - gap_begins, 0)
    busy_gaps = gaps > 0
    first, last = gap_begins[busy_gaps], begins[busy_gaps]
    launching = _overlap(*_launches(timeline, side, of_rank, key, end), first, last)
    compiling = _overlap(
        side.launch_start_ns[of_rank] - side.compile_ns[of_rank], side.compile_ns[of_rank], first, last
    )
    total_gap = int(gaps.sum())
    return CoreUse(
        core=key,
        end=end,
        span_ns=side.span_ns,
        computing_ns=int(computing.sum()),
        waiting_ns={
            "dma": int((kernels - computing).sum()),
            "collective": collective,
            "launch": launching,
            "compile": compiling,
            "dependency": total_gap - launching - compiling,
        },
        idle_ns=side.span_ns - (int(ends.max()) if len(ends) else 0),
        engine_ns=_engine_ns(table, signature, kernels),
    )


def _computing_ns(table: Array, end: End) -> Array:
    """At best the computing engines overlap, at worst they follow one another."""
    computing = table[:, :COMPUTE]
    whole = computing.max(axis=1, initial=0) if end == "low" else computing.sum(axis=1)
    return np.ceil(whole - 1e-6).astype(np.int64)


def _engine_ns(table: Array, signature: Array, kernels: Array) -> dict[str, int]:
    """An engine cannot be busy for longer than its kernel runs."""
    busy = np.minimum(np.ceil(table[signature] - 1e-6).astype(np.int64), kernels[:, None])
    return dict(zip(ENGINES, busy.sum(axis=0).tolist(), strict=True))


def _occupied(
    timeline: ModelledTimeline, key: CoreKey, side: _Side, mine: Array, end: End
) -> tuple[Array, Array, int]:
    """What this core runs, in order: begins, ends, and how much of it is collectives with their waits."""
    which = 0 if end == "low" else 1
    placed = [each for each in timeline.collectives.placed if CoreKey(each.rank, each.core) == key]
    arrivals = np.array([(each.start_ns.low, each.start_ns.high)[which] for each in placed], np.int64)
    held = np.array([each.wait_ns[which] + each.cost_ns[which] for each in placed], np.int64)
    begins = np.concatenate([side.start_ns[mine], arrivals])
    ends = np.concatenate([side.start_ns[mine] + side.kernel_ns[mine], arrivals + held])
    order = np.lexsort((ends, begins))
    return begins[order], ends[order], int(held.sum())


def _launches(
    timeline: ModelledTimeline, side: _Side, of_rank: Array, key: CoreKey, end: End
) -> tuple[Array, Array]:
    """When this rank's host launches: kernels and collectives."""
    which = 0 if end == "low" else 1
    extra = [each for each in timeline.collectives.placed if each.rank == key.rank]
    launched = np.array([each.launch_end_ns[which] - side.launch_ns for each in extra], np.int64)
    starts = np.sort(np.concatenate([side.launch_start_ns[of_rank], launched]))
    return starts, np.full(len(starts), side.launch_ns, np.int64)


def _overlap(starts: Array, lengths: Array, first: Array, last: Array) -> int:
    """How much of the disjoint pieces (in order) lies within the disjoint intervals [first, last)."""
    if not len(starts) or not len(first) or not lengths.any():
        return 0
    before = np.concatenate([[0], np.cumsum(lengths)])

    def until(moment: Array) -> Array:
        index = np.searchsorted(starts, moment, side="right") - 1
        inside = np.clip(moment - starts[np.maximum(index, 0)], 0, lengths[np.maximum(index, 0)])
        return np.where(index < 0, 0, before[np.maximum(index, 0)] + inside)

    return int((until(last) - until(first)).sum())
