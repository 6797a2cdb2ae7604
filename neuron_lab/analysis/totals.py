"""Everything a summary prints, in one frozen result."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_lab.analysis.compile_health import CompileHealth, compile_health
from neuron_lab.analysis.copies import Copies, copies
from neuron_lab.analysis.fallbacks import Fallback, fallbacks
from neuron_lab.analysis.kernels import EagerKernels, eager_kernels
from neuron_lab.analysis.memory import CoreMemory, memory
from neuron_lab.analysis.modelled import ModelledTimeline, model_timeline
from neuron_lab.analysis.operators import Operator, operators
from neuron_lab.analysis.step_counts import StepTimes, step_times
from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.table import Trace


@dataclass(frozen=True)
class Totals:
    """Wall figures were measured on this machine; `modelled` and `kernels.compile_s` are modelled."""

    header: TraceHeader
    operator_count: int
    operators: tuple[Operator, ...]
    compile: CompileHealth
    kernels: EagerKernels
    fallbacks: tuple[Fallback, ...]
    copies: tuple[Copies, ...]
    memory: tuple[CoreMemory, ...]
    steps: tuple[StepTimes, ...]
    modelled: ModelledTimeline

    @property
    def wall_ns(self) -> int | None:
        """Length of the profiled interval; None when the trace does not say."""
        return self.header.duration_ns or None

    @property
    def fallback_count(self) -> int:
        return sum(fallback.count for fallback in self.fallbacks)

    @property
    def fallback_bytes(self) -> int | None:
        """None when no fallback has a reading."""
        read = [each.size_bytes for each in self.fallbacks if each.size_bytes is not None]
        return sum(read) if read or not self.fallbacks else None

    @property
    def peak_bytes(self) -> int | None:
        """Of the fullest core; None when no allocation was recorded."""
        peaks = [core.peak_bytes for core in self.memory if core.peak_bytes is not None]
        return max(peaks, default=None)

    @property
    def dropped_count(self) -> int:
        return sum(self.header.dropped.values())


def totals(trace: Trace, assumptions: Assumptions | None = None) -> Totals:
    """Analyse the whole trace once."""
    timeline = model_timeline(trace, assumptions)
    return Totals(
        header=trace.header,
        operator_count=len(trace.table(Kind.OPERATOR)),
        operators=operators(trace, timeline),
        compile=compile_health(trace),
        kernels=eager_kernels(trace, assumptions or DEFAULT),
        fallbacks=fallbacks(trace),
        copies=copies(trace),
        memory=memory(trace),
        steps=step_times(trace),
        modelled=timeline,
    )
