"""Roofline points: how many multiply-adds per byte of HBM traffic, what was reached, what the chip allows
there.

Reached is modelled: flops over kernel time. `ceiling` is the lower of the tensor engine's peak for the dtype
and what HBM feeds at this intensity. A step's point takes the kernels that were launched in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.engine_times import EngineTable
from neuron_lab.analysis.modelled import ModelledTimeline
from neuron_lab.analysis.step_counts import step_rows
from neuron_lab.analysis.two_ends import Array
from neuron_lab.hardware.chips import CHIPS, Chip
from neuron_lab.hardware.cost import stack_best_rate
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """`scope` is "op" or the step's name; rates in TFLOP/s of one logical core."""

    scope: str
    name: str
    kernels: int
    flops: int
    size_bytes: int
    time_ns: Interval
    ceiling: float

    @property
    def intensity(self) -> float | None:
        """Flops per byte; None when nothing moved."""
        return self.flops / self.size_bytes if self.size_bytes else None

    @property
    def reached(self) -> Interval | None:
        if not self.time_ns.low:
            return None
        return Interval(self.flops / self.time_ns.high / 1e3, self.flops / self.time_ns.low / 1e3)


def roofline(trace: Trace, timeline: ModelledTimeline, engines: EngineTable) -> tuple[RooflinePoint, ...]:
    """Operators by flops, most first; then steps in order."""
    if not len(timeline):
        return ()
    table = trace.table(Kind.OPERATOR)
    names, codes = np.unique(table.codes("name")[timeline.rows], return_inverse=True)
    words = [*table.vocabulary, ""]
    points = [
        _point("op", words[code], np.flatnonzero(codes == index), timeline, engines)
        for index, code in enumerate(names.tolist())
    ]
    points.sort(key=lambda point: -point.flops)
    return (*points, *_steps(trace, timeline, engines))


def _steps(trace: Trace, timeline: ModelledTimeline, engines: EngineTable) -> Iterator[RooflinePoint]:
    started = trace.table(Kind.OPERATOR).column("start_ns")[timeline.rows]
    order = np.argsort(started, kind="stable")
    in_order = started[order]
    for steps in step_rows(trace.table(Kind.STEP)):
        begins = np.searchsorted(in_order, steps.start_ns)
        ends = np.searchsorted(in_order, steps.end_ns)
        for index, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            yield _point(steps.name, str(index), order[begin:end], timeline, engines)


def _point(
    scope: str, name: str, kernels: Array, timeline: ModelledTimeline, engines: EngineTable
) -> RooflinePoint:
    signature = timeline.signature[kernels]
    flops = engines.flops[signature]
    size_bytes = int(engines.size_bytes[signature].sum())
    time_ns = Interval(int(timeline.low_ns[kernels].sum()), int(timeline.high_ns[kernels].sum()))
    dtype = engines.dtype[int(signature[np.argmax(flops)])] if len(kernels) else ""
    total = int(flops.sum())
    ceiling = ceiling_tflops(total, size_bytes, dtype, CHIPS[timeline.chip], timeline.lnc)
    return RooflinePoint(scope, name, len(kernels), total, size_bytes, time_ns, ceiling)


def ceiling_tflops(flops: int, size_bytes: int, dtype: str, chip: Chip, lnc: int) -> float:
    peak = chip.tensor_rate.get(dtype, chip.tensor_rate["float32"]).value * lnc
    return min(peak, flops / size_bytes * stack_best_rate(chip) / 1e3) if size_bytes else peak
