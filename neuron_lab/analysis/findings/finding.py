"""One finding, and what every rule may look at."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from neuron_lab.analysis.compile_health import CompileHealth, compile_health
from neuron_lab.analysis.engine_times import EngineTable, engine_table
from neuron_lab.analysis.kernels import EagerKernels, eager_kernels
from neuron_lab.analysis.memory import CoreMemory, memory
from neuron_lab.analysis.modelled import ModelledTimeline, model_timeline
from neuron_lab.analysis.step_counts import StepRows, step_rows
from neuron_lab.analysis.two_ends import Array
from neuron_lab.analysis.utilisation import Utilisation, utilisation_of
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import Work, work_of
from neuron_lab.trace.events import Kind, Signature
from neuron_lab.trace.table import Table, Trace

Severity = Literal["high", "medium", "low"]
MOST_EVIDENCE = 20  # rows named as evidence; `count` has them all


@dataclass(frozen=True)
class Finding:
    """`gain_ns` is modelled time that the cure could save at most, as an interval; None: not modelled."""

    rule: str
    severity: Severity
    title: str  # one line with its figure
    cure: str
    kind: str = ""  # of the evidence rows
    rows: tuple[int, ...] = ()  # row numbers in the table of that kind, the first few
    count: int = 0
    place: str = ""
    gain_ns: Interval | None = None

    def __str__(self) -> str:
        where = f" (at {self.place})" if self.place else ""
        gain = f" Could save {_time_text(self.gain_ns)}, modelled." if self.gain_ns else ""
        return f"[{self.severity}] {self.title}{where}. {self.cure}.{gain}"


def _time_text(interval_ns: Interval) -> str:
    unit, length = next((each for each in _UNITS if interval_ns.high >= each[1]), ("ns", 1.0))
    return f"{interval_ns.low / length:.3g} to {interval_ns.high / length:.3g} {unit}"


_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))


class Subject:
    """A trace with the analyses that rules share, each made when first asked for."""

    def __init__(self, trace: Trace, assumptions: Assumptions | None = None) -> None:
        self.trace = trace
        self.assumptions = assumptions

    @functools.cached_property
    def timeline(self) -> ModelledTimeline:
        return model_timeline(self.trace, self.assumptions)

    @functools.cached_property
    def engines(self) -> EngineTable:
        return engine_table(self.trace, self.timeline)

    @functools.cached_property
    def use(self) -> Utilisation:
        return utilisation_of(self.timeline, self.engines)

    @functools.cached_property
    def kernels(self) -> EagerKernels:
        return eager_kernels(self.trace)

    @functools.cached_property
    def health(self) -> CompileHealth:
        return compile_health(self.trace)

    @functools.cached_property
    def memory(self) -> tuple[CoreMemory, ...]:
        return memory(self.trace)

    @functools.cached_property
    def steps(self) -> list[StepRows]:
        return step_rows(self.table(Kind.STEP))

    @functools.cached_property
    def works(self) -> list[Work]:
        """Of every signature; graphs have none of their own."""
        return [
            work_of(each.op, each.inputs, each.outputs, each.static)
            if each.compiles and each.graph < 0
            else Work()
            for each in self.trace.signatures
        ]

    def table(self, kind: Kind) -> Table:
        return self.trace.table(kind)

    def kernels_of(self, chosen: list[bool] | Array) -> Array:
        """Timeline entries whose signature is chosen."""
        mask = np.asarray(chosen, bool)
        if not len(self.timeline) or not mask.any():
            return np.empty(0, np.int64)
        return np.flatnonzero(mask[self.timeline.signature])

    def time_of(self, kernels: Array) -> Interval:
        timeline = self.timeline
        return Interval(int(timeline.low_ns[kernels].sum()), int(timeline.high_ns[kernels].sum()))

    def share_of(self, kernels: Array) -> float:
        """Of the modelled kernel time, at the end where it is less."""
        total = self.time_of(np.arange(len(self.timeline)))
        part = self.time_of(kernels)
        if not total.low or not total.high:
            return 0.0
        return min(part.low / total.low, part.high / total.high)

    def rows_of(self, kernels: Array) -> tuple[int, ...]:
        """Rows of the operator table, the first few."""
        return tuple(self.timeline.rows[kernels[:MOST_EVIDENCE]].tolist())

    def place_of(self, kernels: Array) -> str:
        """Where the kernel that takes longest was first needed."""
        if not len(kernels):
            return ""
        longest = kernels[np.argmax(self.timeline.high_ns[kernels])]
        return place_of(self.trace, self.trace.signatures[int(self.timeline.signature[longest])])


def place_of(trace: Trace, signature: Signature) -> str:
    stack = trace.stacks[signature.stack] if 0 <= signature.stack < len(trace.stacks) else ()
    return f"{stack[0].file}:{stack[0].line}" if stack else ""


def first_rows(mask: Array) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask)[:MOST_EVIDENCE].tolist())


def per_step_spans(steps: StepRows, start_ns: Array) -> list[int]:
    """How many of the events fall into each step."""
    ordered = np.sort(start_ns)
    counts = np.searchsorted(ordered, steps.end_ns) - np.searchsorted(ordered, steps.start_ns)
    return [int(count) for count in counts]
