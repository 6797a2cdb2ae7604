"""The same trace timed again for another chip, core grouping, dtype or set of assumptions.

The launches stay what they were: another dtype changes the tensors of every kernel, not the program. It does
not know whether the program would still be right (a smaller dtype) or would be sharded otherwise.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from neuron_lab.analysis.modelled import ModelledTimeline, chip_of, model_timeline
from neuron_lab.analysis.operators import operators
from neuron_lab.errors import UsageError, unknown_choice
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.hardware.chips import chip
from neuron_lab.hardware.instances import check_lnc, instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import GraphSpec, Signature, TensorSpec
from neuron_lab.trace.table import Trace

FLOATS = ("float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class WhatIf:
    """Both timings on the modelled clock."""

    change: str
    before: ModelledTimeline
    after: ModelledTimeline
    by_op: tuple[tuple[str, Interval, Interval], ...]  # kernel time before and after, largest before first

    @property
    def before_ns(self) -> Interval | None:
        return self.before.span_ns

    @property
    def after_ns(self) -> Interval | None:
        return self.after.span_ns

    @property
    def speedup(self) -> Interval | None:
        """Before over after, end by end: both ends share their assumptions."""
        if self.before_ns is None or self.after_ns is None:
            return None
        ends = (self.before_ns.low / self.after_ns.low, self.before_ns.high / self.after_ns.high)
        return Interval(min(ends), max(ends))

    def __str__(self) -> str:
        if self.before_ns is None or self.after_ns is None:
            return f"what if {self.change}: not modelled ({self.before.why_not or self.after.why_not})"
        before, after = self.before_ns.scale(1e-6), self.after_ns.scale(1e-6)
        return f"what if {self.change}: modelled span {before} ms → {after} ms, {self.speedup} times as fast"


def what_if(
    trace: Trace,
    *,
    chip: str | None = None,
    instance: str | None = None,
    lnc: int | None = None,
    dtype: str | None = None,
    assumptions: Assumptions | None = None,
) -> WhatIf:
    """Raises UsageError when nothing is changed, or for an unknown chip, instance, grouping or dtype."""
    changed = retimed(trace, chip_name=chip, instance_name=instance, lnc=lnc, dtype=dtype)
    parts = {"chip": chip, "instance": instance, "lnc": lnc, "dtype": dtype}
    words = [f"{name} {value}" for name, value in parts.items() if value is not None]
    if assumptions is not None:
        words.append("other assumptions")
    if not words:
        raise UsageError("what_if() without a change; give chip=, instance=, lnc=, dtype= or assumptions=")
    before, after = model_timeline(trace), model_timeline(changed, assumptions)
    later = {each.name: each.modelled_ns for each in operators(changed, after)}
    pairs = [
        (each.name, each.modelled_ns, later.get(each.name) or Interval(0, 0))
        for each in operators(trace, before)
        if each.modelled_ns is not None
    ]
    pairs.sort(key=lambda pair: -pair[1].high)
    return WhatIf(", ".join(words), before, after, tuple(pairs))


def retimed(
    trace: Trace,
    *,
    chip_name: str | None = None,
    instance_name: str | None = None,
    lnc: int | None = None,
    dtype: str | None = None,
) -> Trace:
    """The same events with another header and other dtypes. Events are shared, not copied."""
    header = trace.header
    if instance_name is not None:
        machine = instance(instance_name)
        header = dataclasses.replace(
            header, instance=machine.name, chip=machine.chip.name, lnc=machine.lnc(lnc)
        )
    if chip_name is not None:
        other = chip(chip_name)
        header = dataclasses.replace(header, chip=other.name, instance="", lnc=lnc or other.default_lnc)
    if lnc is not None:
        known, why_not = chip_of(header)
        if known is None:
            raise UsageError(f"lnc={lnc}: {why_not}, so its groupings are unknown; give chip= or instance= too")
        header = dataclasses.replace(header, lnc=check_lnc(lnc, known))
    if dtype is None:
        return dataclasses.replace(trace, header=header)
    if dtype not in FLOATS:
        raise unknown_choice("dtype", dtype, FLOATS)
    signatures = tuple(_with_dtype(each, dtype) for each in trace.signatures)
    graphs = tuple(GraphSpec(g.name, tuple(_with_dtype(node, dtype) for node in g.nodes)) for g in trace.graphs)
    return dataclasses.replace(trace, header=header, signatures=signatures, graphs=graphs)


def _with_dtype(signature: Signature, dtype: str) -> Signature:
    """Every floating tensor in the new dtype; integers, masks and indices stay."""
    return dataclasses.replace(
        signature, inputs=_cast(signature.inputs, dtype), outputs=_cast(signature.outputs, dtype)
    )


def _cast(tensors: tuple[TensorSpec, ...], dtype: str) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(dtype, each.shape) if each.dtype in FLOATS else each for each in tensors)
