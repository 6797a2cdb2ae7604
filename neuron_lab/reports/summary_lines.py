"""What a summary says, as labelled lines: totals in, words out. How they are drawn is `summary`'s business.

A count is only a count when somebody counted: what the trace has no readings of says "no reading", never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from neuron_lab.analysis.compile_health import GraphBreak, Recompile
from neuron_lab.analysis.kernels import StepKernels
from neuron_lab.analysis.modelled import ModelledTimeline
from neuron_lab.analysis.step_counts import Spread
from neuron_lab.analysis.totals import Totals
from neuron_lab.hardware.interval import Interval
from neuron_lab.reports.wording import (
    NO_READING,
    bytes_text,
    count_text,
    plural,
    share_text,
    time_interval_text,
    time_text,
)
from neuron_lab.trace.events import TraceHeader

Item = TypeVar("Item")
MEASURED, MODELLED, COUNTED = "measured", "modelled", "counted"
MOST_ROWS = 8  # of one list; the rest is counted in a last line


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: what it is, its value, and how we know it. `detail` lines belong to the figure above them."""

    label: str
    value: str
    how: str = ""
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One row of the operator table, in words."""

    name: str
    calls: str
    wall: str
    modelled: str


@dataclass(frozen=True, slots=True)
class Content:
    """A whole summary."""

    title: str
    device: str
    alerts: tuple[str, ...]
    sections: tuple[Section, ...]
    operators: tuple[OperatorRow, ...]
    operators_left_out: int
    notes: tuple[str, ...]


def content_of(found: Totals) -> Content:
    """Everything the summary of these totals says."""
    rows = [
        OperatorRow(
            each.name,
            count_text(each.count),
            time_text(each.wall_ns) if each.count > each.unfinished else NO_READING,
            time_interval_text(each.modelled_ns) if each.modelled_ns else "—",
        )
        for each in found.operators[:MOST_ROWS]
    ]
    return Content(
        title=found.header.name,
        device=device_line(found.header),
        alerts=tuple(_alerts(found)),
        sections=(
            Section("Time", tuple(_time(found))),
            Section("Compilation", tuple(_compilation(found))),
            Section("Eager kernels", tuple(_kernels(found))),
            Section("Host", tuple(_host(found))),
            Section("Device memory", tuple(_memory(found))),
        ),
        operators=tuple(rows),
        operators_left_out=len(found.operators) - len(rows),
        notes=tuple(_notes(found)),
    )


def device_line(header: TraceHeader) -> str:
    """Which device this was, beginning with whether it was one at all."""
    kinds = {"emulated": "emulated on CPU", "hardware": "on hardware"}
    parts = [kinds.get(header.device, "no neuron device")]
    if header.instance:
        parts.append(f"{header.instance} ({header.chip})" if header.chip else header.instance)
    if header.lnc:
        parts.append(f"LNC {header.lnc}")
    if header.cores:
        parts.append(plural(header.cores, "core"))
    if len(header.ranks) > 1:
        parts.append(plural(len(header.ranks), "rank"))
    return ", ".join(parts)


def counts_operators(found: Totals) -> bool:
    """Whether somebody counted operators: the emulated device does, and whoever left operator rows did."""
    return found.header.device == "emulated" or found.operator_count > 0


def _alerts(found: Totals) -> Iterator[str]:
    if found.header.error:
        yield f"the profiled block raised {found.header.error}; this is what was recorded until then"
    if found.dropped_count:
        reasons = ", ".join(
            f"{reason} {count_text(count)}" for reason, count in found.header.dropped.items() if count
        )
        yield f"{plural(found.dropped_count, 'record')} dropped ({reasons}): counts and sums below are too low"


# -- time


def _time(found: Totals) -> Iterator[Line]:
    yield Line("wall time", time_text(found.wall_ns), MEASURED if found.wall_ns is not None else "")
    model = found.modelled
    if model.span_ns is None:
        why_not = model.why_not if counts_operators(found) else "no operators were recorded"
        yield Line("modelled span", f"not modelled: {why_not}")
    else:
        yield Line(
            "modelled span", time_interval_text(model.span_ns), f"{MODELLED}, limited by {limit_text(model)}"
        )
        busy = model.busy_share()
        if busy is not None:
            cores = plural(len(model.busy_ns), "core")
            yield Line("cores busy", f"{share_text(busy)} of the modelled span ({cores} used)", MODELLED)
    for steps in found.steps:
        yield Line(
            f"wall time per {steps.name}", f"{_times(steps.wall_ns)} over {count_text(steps.count)}", MEASURED
        )


def limit_text(model: ModelledTimeline) -> str:
    """What the modelled span consists of most, at its low and at its high end."""
    low, high = _limit(model, low=True), _limit(model, low=False)
    return low if low == high else f"{low} (low end), {high} (high end)"


def _limit(model: ModelledTimeline, *, low: bool) -> str:
    """Launches follow one another on a host, kernels on a core: the longer of the two chains limits."""

    def end(interval: Interval) -> float:
        return interval.low if low else interval.high

    most_launches = max(int((model.rank == rank).sum()) for rank in set(model.rank.tolist()))
    busiest = max(end(busy) for busy in model.busy_ns.values())
    if most_launches * end(model.launch_ns) >= busiest:
        return "host launches"
    return max(model.bound_ns().items(), key=lambda item: end(item[1]))[0]


# -- compilation


def _compilation(found: Totals) -> Iterator[Line]:
    health = found.compile
    if found.header.device not in ("emulated", "hardware") and not health.compile_count:
        yield Line("graph breaks", NO_READING)
        return
    if health.compile_count:
        took = f"{count_text(health.compile_count)} in {time_text(health.compile_wall_ns)} of wall time"
        yield Line("compilations", took, MEASURED)
    places = f" at {plural(health.break_places, 'place')}" if health.breaks else ""
    yield Line("graph breaks", f"{count_text(health.break_count)}{places}", COUNTED)
    yield from _first(health.breaks, _break_line)
    yield Line("recompiles", count_text(health.recompile_count), COUNTED)
    yield from _first(health.recompiles, _recompile_line)
    if health.limit_reached:
        calls = plural(health.uncompiled_call_count, "call")
        yield Line("recompile limit", f"reached: {calls} ran uncompiled", COUNTED)
        yield from _first(health.uncompiled, _recompile_line)


def _break_line(each: GraphBreak) -> Line:
    source = f"  {each.source.strip()}" if each.source else ""
    return Line(
        f"{each.cell or each.place or 'unknown place'}{source}",
        f"{count_text(each.count)} × {each.reason}",
        detail=True,
    )


def _recompile_line(each: Recompile) -> Line:
    changes = [f"{old} → {new}" for old, new in each.changes[:3] if old or new]
    more = ", …" if len(each.changes) > 3 else ""
    what = f"{each.variable}: {', '.join(changes)}{more}" if each.variable and changes else each.reason
    place = each.cell or each.place or each.name or "unknown place"
    return Line(place, f"{count_text(each.count)} × {what}", detail=True)


# -- eager kernels


def _kernels(found: Totals) -> Iterator[Line]:
    if not counts_operators(found):
        yield Line("eager kernels", NO_READING)
        return
    kernels = found.kernels
    yield Line("runs", f"{count_text(kernels.runs)} of {plural(kernels.distinct, 'distinct kernel')}", COUNTED)
    yield Line("new in this process", count_text(kernels.new), COUNTED)
    for steps in kernels.steps:
        if steps:
            yield from _per_step(steps)
    if kernels.graph_runs:
        graphs = plural(kernels.distinct_graphs, "graph")
        yield Line("compiled graphs", f"{count_text(kernels.graph_runs)} runs of {graphs}", COUNTED)
    if kernels.new or kernels.graphs_compiled:
        yield Line(
            "compiling them", time_interval_text(kernels.compile_s.scale(1e9)), f"{MODELLED}, without a cache"
        )
    yield from _first(
        kernels.new_by_op,
        lambda each: Line(each.op, f"{count_text(each.count)} new{_at(each.place)}", detail=True),
        most=5,
    )


def _per_step(steps: StepKernels) -> Iterator[Line]:
    yield Line(
        f"kernels per {steps.name}",
        f"{_counts(steps.distinct_spread)} distinct, {_counts(steps.new_spread)} new in this process",
        COUNTED,
    )
    if steps.keeps_compiling:
        yield Line(
            f"every {steps.name} needs other kernels",
            f"{_counts(steps.unseen_spread)} that no earlier {steps.name} used: a shape keeps growing, "
            f"and a fresh process compiles them {steps.name} by {steps.name}",
            detail=True,
        )


# -- host and memory


def _host(found: Totals) -> Iterator[Line]:
    if not counts_operators(found):
        yield Line("CPU fallbacks", NO_READING)
        return
    moved = f", {bytes_text(found.fallback_bytes)} moved" if found.fallbacks else ""
    yield Line("CPU fallbacks", f"{count_text(found.fallback_count)}{moved}", COUNTED)
    yield from _first(
        found.fallbacks,
        lambda each: Line(
            each.op,
            f"{count_text(each.count)} × {each.reason}, {bytes_text(each.size_bytes)}{_at(each.place)}",
            detail=True,
        ),
    )
    for each in found.copies:
        value = f"{count_text(each.count)}, {bytes_text(each.size_bytes)}, {time_text(each.wall_ns)}"
        yield Line(f"copies {DIRECTIONS.get(each.direction, each.direction)}", value, MEASURED)


DIRECTIONS = {"h2d": "to the device", "d2h": "to the host", "d2d": "on the device"}


def _memory(found: Totals) -> Iterator[Line]:
    limit = found.header.hbm_limit_bytes
    of_limit = f" of {bytes_text(limit)}" if limit else ""
    if not found.memory:
        why_not = ": nothing was allocated or released" if counts_operators(found) else ""
        yield Line("peak", f"{NO_READING}{why_not}")
    for core in found.memory:
        rank = f"rank {core.rank}, " if len(found.header.ranks) > 1 else ""
        how = f"{MEASURED}; limit documented" if limit else MEASURED
        yield Line(f"{rank}core {core.core} peak", f"{bytes_text(core.peak_bytes)}{of_limit}", how)


# -- notes


def _notes(found: Totals) -> Iterator[str]:
    model = found.modelled
    if model.span_ns is not None:
        yield (
            f"modelled = computed for {model.chip} at LNC {model.lnc}, never measured: low end documented "
            f"rooflines, high end with assumed overheads; weakest figure: {model.confidence}"
        )
    if model.unknown_ops:
        kernels = sum(model.unknown_ops.values())
        first = ", ".join(list(model.unknown_ops)[:3])
        more = ", …" if len(model.unknown_ops) > 3 else ""
        guessed = f"{plural(kernels, 'kernel')} of operators without a cost rule"
        yield f"costed by a guess: {guessed} ({first}{more})"
    if found.kernels.runs:
        yield "eager kernels are an upper bound: the real device may fuse neighbouring operators into one"
    if found.compile.break_count:
        yield "graph breaks are counted as the framework counts them: again on every attempt to compile"


def _first(items: Sequence[Item], line_of: Callable[[Item], Line], most: int = MOST_ROWS) -> Iterator[Line]:
    """A line for each of the first, and one that counts the rest."""
    for item in items[:most]:
        yield line_of(item)
    if len(items) > most:
        yield Line(f"and {count_text(len(items) - most)} more", "", detail=True)


def _at(place: str) -> str:
    return f", first at {place}" if place else ""


def _counts(spread: Spread) -> str:
    return _spread(spread, count_text)


def _times(spread: Spread) -> str:
    return _spread(spread, time_text)


def _spread(spread: Spread, text: Callable[[float], str]) -> str:
    """`median 3 (0 to 9)`, or the one value when all are equal."""
    if spread.least == spread.most:
        return text(spread.median)
    return f"median {text(spread.median)} ({text(spread.least)} to {text(spread.most)})"
