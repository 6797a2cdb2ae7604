"""The modelled timeline: when each kernel of the trace would run on the chip, as two schedules.

The low schedule takes documented rooflines and the low end of the assumed launch time, the high schedule the
high ends. Both are on the modelled clock, which begins with the first launch; neither may be compared with wall
times. Host copies, CPU fallbacks and Python between operators take no modelled time, because nothing documents
them; a copy to the host and a fallback make the host wait for the cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from neuron_lab.analysis.compile_waits import compile_waits
from neuron_lab.analysis.modelled_collectives import (
    Collectives,
    Rank,
    collective_costs,
    meet,
)
from neuron_lab.analysis.signature_costs import SignatureCosts
from neuron_lab.analysis.two_ends import Array, CoreKey, TwoEnds, busy_share, waits
from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.chips import CHIPS, Chip
from neuron_lab.hardware.cost import BOUNDS
from neuron_lab.hardware.facts import Confidence
from neuron_lab.hardware.instances import INSTANCES
from neuron_lab.hardware.interval import Interval, total
from neuron_lab.trace.events import NO_CORE, Kind, TraceHeader
from neuron_lab.trace.table import Table, Trace

READ_BACK = "d2h"


def _none(dtype: type) -> Array:
    return np.empty(0, dtype)


@dataclass(frozen=True, eq=False)
class ModelledTimeline:
    """One entry per kernel in launch order (rank by rank). Times in nanoseconds after the first launch."""

    rows: Array = field(default_factory=lambda: _none(np.int64))  # row of the operator table
    signature: Array = field(default_factory=lambda: _none(np.int32))
    rank: Array = field(default_factory=lambda: _none(np.int16))
    core: Array = field(default_factory=lambda: _none(np.int16))
    launch_start_ns: Array = field(default_factory=lambda: _none(np.int64))  # low schedule
    start_ns: Array = field(default_factory=lambda: _none(np.int64))  # low schedule
    high_launch_start_ns: Array = field(default_factory=lambda: _none(np.int64))
    high_start_ns: Array = field(default_factory=lambda: _none(np.int64))
    low_ns: Array = field(default_factory=lambda: _none(np.int64))  # duration
    high_ns: Array = field(default_factory=lambda: _none(np.int64))
    bound: Array = field(default_factory=lambda: _none(np.uint8))  # index into cost.BOUNDS
    compile_low_ns: Array | None = None  # host time before each launch; None: a warm cache
    compile_high_ns: Array | None = None
    collectives: Collectives = field(default_factory=Collectives)
    launch_ns: Interval = DEFAULT.launch_ns.interval
    span_ns: Interval | None = None  # None: nothing was modelled, and `why_not` says why
    busy_ns: dict[CoreKey, Interval] = field(default_factory=dict)
    chip: str = ""
    lnc: int = 0
    assumptions: Assumptions = DEFAULT
    confidence: Confidence = "assumed"  # of the weakest part
    unknown_ops: dict[str, int] = field(default_factory=dict)  # operators costed by a guess: kernels of each
    why_not: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def core_share(self) -> dict[CoreKey, Interval]:
        """Busy part of the modelled span, per core that ran something."""
        if self.span_ns is None:
            return {}
        return {key: busy_share(busy, self.span_ns) for key, busy in self.busy_ns.items()}

    def busy_share(self) -> Interval | None:
        """Of all cores that ran something; None when none did."""
        if self.span_ns is None:
            return None
        return busy_share(total(self.busy_ns.values()), self.span_ns, len(self.busy_ns))

    def waiting_ns(self) -> dict[CoreKey, Interval]:
        """Per core the rest of the span, so that busy and waiting add up to it at each end."""
        if self.span_ns is None:
            return {}
        waiting = {}
        for key, busy in self.busy_ns.items():
            ends = (self.span_ns.low - busy.low, self.span_ns.high - busy.high)
            waiting[key] = Interval(min(ends), max(ends))
        return waiting

    def bound_ns(self) -> dict[str, Interval]:
        """Kernel time by what limits it, largest first."""
        lows = np.bincount(self.bound, self.low_ns, len(BOUNDS))
        highs = np.bincount(self.bound, self.high_ns, len(BOUNDS))
        counts = np.bincount(self.bound, minlength=len(BOUNDS))
        found = {BOUNDS[code]: Interval(lows[code], highs[code]) for code in np.flatnonzero(counts)}
        return dict(sorted(found.items(), key=lambda item: -item[1].low))


def model_timeline(
    trace: Trace, assumptions: Assumptions | None = None, *, cold: bool = False
) -> ModelledTimeline:
    """Model every kernel of the trace on the chip and core grouping its header names."""
    assumed = assumptions or DEFAULT
    chip, why_not = chip_of(trace.header)
    if chip is None:
        return ModelledTimeline(assumptions=assumed, why_not=why_not)
    costs = SignatureCosts(chip, trace.header.lnc or chip.default_lnc, assumed)
    costs.update(trace.signatures, trace.graphs)
    table = trace.table(Kind.OPERATOR)
    rows = kernel_rows(table.column("signature"), table.column("core"), costs)
    if not len(rows):
        why_not = "no kernel ran on the device"
        return ModelledTimeline(assumptions=assumed, chip=chip.name, lnc=costs.lnc, why_not=why_not)
    return _schedule(trace, table, rows, costs, cold)


def chip_of(header: TraceHeader) -> tuple[Chip | None, str]:
    """The chip a trace names, or None and the reason."""
    known = INSTANCES.get(header.instance)
    name = header.chip or (known.chip.name if known else "")
    if not name:
        return None, "the trace names no chip"
    if name not in CHIPS:
        return None, f"no figures for chip {name!r}; known: {', '.join(CHIPS)}"
    return CHIPS[name], ""


def kernel_rows(signature: Array, core: Array, costs: SignatureCosts) -> Array:
    """Indices of the rows that run something on a core."""
    valid = (signature >= 0) & (signature < len(costs.costs)) & (core != NO_CORE)
    runs = costs.high_ns > 0
    picked = np.flatnonzero(valid)
    return picked[runs[signature[picked]]]


def _schedule(trace: Trace, table: Table, rows: Array, costs: SignatureCosts, cold: bool) -> ModelledTimeline:
    ranks = table.column("rank")[rows]
    present = np.unique(ranks).tolist()
    if len(present) > 1:
        order = np.argsort(ranks, kind="stable")
        rows, ranks = rows[order], ranks[order]
    core, signature = table.column("core")[rows], table.column("signature")[rows]
    started = table.column("start_ns")[rows]
    low_ns, high_ns = costs.low_ns[signature], costs.high_ns[signature]
    compiling = compile_waits(trace, signature, ranks, costs.assumptions) if cold else None

    hosts = []
    for number in present:
        mine = slice(*np.searchsorted(ranks, [number, number + 1]).tolist())
        waiting, _ = waits(started[mine], read_backs(trace, number))
        before = None if compiling is None else (compiling[0][mine], compiling[1][mine])
        ends = TwoEnds.begin(costs.assumptions.launch_ns)
        hosts.append(
            Rank(number, ends, core[mine], started[mine], low_ns[mine], high_ns[mine], waiting, before)
        )
    collectives = meet(hosts, collective_costs(trace, costs))
    spans = [host.ends.span_ns for host in hosts if host.ends.span_ns is not None]
    return ModelledTimeline(
        rows=rows,
        signature=signature,
        rank=ranks,
        core=core,
        launch_start_ns=_joined(hosts, "low_launch"),
        start_ns=_joined(hosts, "low_start"),
        high_launch_start_ns=_joined(hosts, "high_launch"),
        high_start_ns=_joined(hosts, "high_start"),
        low_ns=low_ns,
        high_ns=high_ns,
        bound=costs.bound[signature],
        compile_low_ns=None if compiling is None else compiling[0],
        compile_high_ns=None if compiling is None else compiling[1],
        collectives=collectives,
        launch_ns=costs.assumptions.launch_ns.interval,
        span_ns=Interval(max(span.low for span in spans), max(span.high for span in spans)),
        busy_ns={
            CoreKey(host.number, each): busy for host in hosts for each, busy in host.ends.busy_ns.items()
        },
        chip=costs.chip.name,
        lnc=costs.lnc,
        assumptions=costs.assumptions,
        confidence=costs.assumptions.confidence,
        unknown_ops=_unknown_ops(trace, signature, costs),
    )


def _joined(hosts: Sequence[Rank], name: str) -> Array:
    return np.concatenate([np.concatenate(getattr(host, name)) for host in hosts])


def read_backs(trace: Trace, rank: int) -> Array:
    """When the host asked for something the device computes: copies to the host, and CPU fallbacks."""
    copies, fallbacks = trace.table(Kind.COPY), trace.table(Kind.FALLBACK)
    copied = copies.matches("direction", READ_BACK) & (copies.column("rank") == rank)
    fell_back = fallbacks.column("rank") == rank
    return np.concatenate([copies.column("start_ns")[copied], fallbacks.column("start_ns")[fell_back]])


def _unknown_ops(trace: Trace, signature: Array, costs: SignatureCosts) -> dict[str, int]:
    counts = np.bincount(signature, minlength=len(costs.costs))
    guessed: dict[str, int] = {}
    for index, cost in enumerate(costs.costs):
        if counts[index] and cost.low_confidence == "assumed":
            op = trace.signatures[index].op
            guessed[op] = guessed.get(op, 0) + int(counts[index])
    return dict(sorted(guessed.items(), key=lambda item: (-item[1], item[0])))
