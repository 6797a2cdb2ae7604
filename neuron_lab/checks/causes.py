"""What costs most when the run comes to a device: causes with place, cure and what they cost to compile.

Costs are modelled seconds of compilation without a cache, one after another, and only order the list; a cause
without one (a fallback, a reached limit) is ordered by its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.findings.finding import place_of
from neuron_lab.analysis.totals import Totals
from neuron_lab.hardware.cost import compile_seconds
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace

MANY_KERNELS = 8
"""New kernels of one operator from one line that are worth naming: fewer are what any code needs once."""


@dataclass(frozen=True)
class Cause:
    """One cause at one place. `weight` orders: 2 never settles, 1 costs in every run, 0 costs compilations."""

    kind: str  # "graph break", "recompile", "recompile limit", "eager kernels", "fallback", "memory"
    what: str  # what happened and what to change, in words
    place: str
    source: str
    count: int
    weight: int = 0
    compile_s: Interval | None = None  # modelled

    def __str__(self) -> str:
        cost = (
            ""
            if self.compile_s is None
            else f", compiling: {self.compile_s.low:g} to {self.compile_s.high:g} s"
        )
        where = f" at {self.place}" if self.place else ""
        source = f"  {self.source}" if self.source else ""
        return f"{self.kind} × {self.count:,}{cost}{where}{source}\n{self.what}"


def causes(trace: Trace, found: Totals) -> tuple[Cause, ...]:
    """Costliest first."""
    every = [*_memory(found), *_breaks(found), *_recompiles(found), *_kernels(trace, found), *_fallbacks(found)]
    return tuple(sorted(every, key=_order))


def _order(cause: Cause) -> tuple[float, float, int]:
    return -cause.weight, -(cause.compile_s.high if cause.compile_s else 0.0), -cause.count


def _breaks(found: Totals) -> Iterator[Cause]:
    for each in found.compile.breaks:
        yield Cause(
            "graph break",
            each.reason,
            each.cell or each.place,
            each.source,
            each.count,
            1,
            compile_seconds(0, [0] * each.count),  # each leaves one graph more to compile
        )


def _recompiles(found: Totals) -> Iterator[Cause]:
    for each in found.compile.recompiles:
        yield Cause(
            "recompile",
            each.reason,
            each.cell or each.place,
            each.source,
            each.count,
            1,
            compile_seconds(0, [0] * each.count),
        )
    for each in found.compile.uncompiled:
        yield Cause("recompile limit", each.reason, each.cell or each.place, each.source, each.count, 2)


def _kernels(trace: Trace, found: Totals) -> Iterator[Cause]:
    growing = any(steps.keeps_compiling for steps in found.kernels.steps)
    for (op, place), count in kernels_by_place(trace).items():
        if count < MANY_KERNELS:
            continue
        what = "one kernel per combination of shapes and arguments"
        cure = "keep shapes fixed: a static cache, or padding to a few lengths"
        cost = compile_seconds(count, [])
        yield Cause("eager kernels", f"{op}: {what}; {cure}", place, "", count, 2 if growing else 0, cost)


def kernels_by_place(trace: Trace) -> Counter[tuple[str, str]]:
    """Distinct eager kernels the run used, by operator and the line that first needed each."""
    used = np.unique(trace.table(Kind.OPERATOR).column("signature"))
    signatures = [trace.signatures[index] for index in used.tolist() if 0 <= index < len(trace.signatures)]
    return Counter((each.op, place_of(trace, each)) for each in signatures if each.compiles and each.graph < 0)


def _fallbacks(found: Totals) -> Iterator[Cause]:
    for each in found.fallbacks:
        size = "" if each.size_bytes is None else f", {each.size_bytes:,} bytes moved"
        what = f"{each.op} {each.reason}{size}; replace it, or move it out of the loop"
        yield Cause("fallback", what, each.place, "", each.count, 1)


def _memory(found: Totals) -> Iterator[Cause]:
    for core in found.memory:
        if core.peak_bytes is not None and core.limit_bytes and core.peak_bytes > NEAR * core.limit_bytes:
            what = f"core {core.core} peaks at {core.peak_bytes:,} of {core.limit_bytes:,} bytes"
            yield Cause("memory", f"{what}; use bfloat16, a smaller batch, or more cores", "", "", 1, 2)


NEAR = 0.9
"""Share of a core's memory from which the peak is called a cause."""
