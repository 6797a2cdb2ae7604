"""A trace's answers as pandas tables, one per question: `frame(trace, "ops")`.

Columns end in their unit. A missing reading is an empty cell (None or NaN), never 0. Names such as
`modelled_low_ns` say that a figure is modelled; other times were measured on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from neuron_lab.analysis.compile_health import Recompile, compile_health
from neuron_lab.analysis.copies import copies
from neuron_lab.analysis.fallbacks import fallbacks
from neuron_lab.analysis.kernels import eager_kernels
from neuron_lab.analysis.memory import memory
from neuron_lab.analysis.model_frames import (
    collectives_frame,
    engine_slices_frame,
    findings_frame,
    memory_use_frame,
    roofline_frame,
    utilisation_frame,
)
from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.analysis.operators import operators
from neuron_lab.analysis.step_counts import step_rows
from neuron_lab.errors import unknown_choice
from neuron_lab.hardware.cost import BOUNDS
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace

if TYPE_CHECKING:
    import pandas

Row = dict[str, Any]


def frame(trace: Trace, name: str) -> pandas.DataFrame:
    """The table of that name; UsageError naming the valid ones otherwise."""
    if name not in FRAMES:
        raise unknown_choice("table", name, FRAMES)
    return FRAMES[name](trace)


def _from_rows(columns: str, rows: Iterator[Row]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(list(rows), columns=columns.split())


def _ops(trace: Trace) -> pandas.DataFrame:
    """Operators by name: calls, wall time on this machine, modelled kernel time."""
    found = operators(trace, model_timeline(trace))
    rows = (
        {
            "op": each.name,
            "count": each.count,
            "wall_ns": each.wall_ns,
            "modelled_low_ns": each.modelled_ns.low if each.modelled_ns else None,
            "modelled_high_ns": each.modelled_ns.high if each.modelled_ns else None,
        }
        for each in found
    )
    return _from_rows("op count wall_ns modelled_low_ns modelled_high_ns", rows)


def _eager_kernels(trace: Trace) -> pandas.DataFrame:
    """New eager kernels by operator and the line that first needed them."""
    rows = (asdict(each) for each in eager_kernels(trace).new_by_op)
    return _from_rows("op place count", rows).rename(columns={"count": "new_kernels"})


def _steps(trace: Trace) -> pandas.DataFrame:
    """Generated tokens and optimizer steps: wall time and the kernels each needed."""
    counted = eager_kernels(trace).steps
    rows = (
        {
            "step": steps.name,
            "index": index,
            "start_ns": int(steps.start_ns[index]),
            "wall_ns": int(steps.end_ns[index] - steps.start_ns[index]),
            "new_kernels": kernels.new[index],
            "unseen_kernels": kernels.unseen[index],
            "distinct_kernels": kernels.distinct[index],
            "launches": kernels.runs[index],
        }
        for steps, kernels in zip(step_rows(trace.table(Kind.STEP)), counted, strict=True)
        for index in range(len(kernels))
    )
    return _from_rows("step index start_ns wall_ns new_kernels unseen_kernels distinct_kernels launches", rows)


def _breaks(trace: Trace) -> pandas.DataFrame:
    """Graph breaks by place and reason."""
    rows = (asdict(each) for each in compile_health(trace).breaks)
    return _from_rows("place cell source reason detail break_id count", rows)


def _recompiles(trace: Trace) -> pandas.DataFrame:
    """Recompilations by function and variable; `uncompiled` rows are calls that ran eagerly after the limit."""
    health = compile_health(trace)
    rows = (
        {**_recompile_row(each), "uncompiled": uncompiled}
        for group, uncompiled in ((health.recompiles, False), (health.uncompiled, True))
        for each in group
    )
    return _from_rows("name place cell source reason variable changes count uncompiled", rows)


def _recompile_row(each: Recompile) -> Row:
    return {**asdict(each), "changes": ", ".join(f"{old} → {new}" for old, new in each.changes)}


def _compiles(trace: Trace) -> pandas.DataFrame:
    """Compilations in order."""
    wanted = ["name", "place", "cell", "start_ns", "duration_ns", "node_count", "compile_id"]
    return trace.df(Kind.COMPILE)[wanted].rename(columns={"duration_ns": "wall_ns"})


def _fallbacks(trace: Trace) -> pandas.DataFrame:
    """Operators computed on the host, by operator and reason."""
    return _from_rows("op count size_bytes reason place", (asdict(each) for each in fallbacks(trace)))


def _copies(trace: Trace) -> pandas.DataFrame:
    """Copies by direction."""
    return _from_rows("direction count size_bytes wall_ns", (asdict(each) for each in copies(trace)))


def _memory(trace: Trace) -> pandas.DataFrame:
    """Device memory per core."""
    columns = "rank core peak_bytes start_bytes end_bytes limit_bytes allocations frees"
    return _from_rows(columns, (asdict(each) for each in memory(trace)))


def _slices(trace: Trace) -> pandas.DataFrame:
    """Every kernel of the modelled timeline."""
    import pandas

    timeline = model_timeline(trace)
    ops = [signature.op for signature in trace.signatures]
    return pandas.DataFrame(
        {
            "op": [ops[index] for index in timeline.signature.tolist()],
            "rank": timeline.rank,
            "core": timeline.core,
            "modelled_launch_start_ns": timeline.launch_start_ns,
            "modelled_start_ns": timeline.start_ns,
            "modelled_low_ns": timeline.low_ns,
            "modelled_high_ns": timeline.high_ns,
            "bound": [BOUNDS[code] for code in timeline.bound.tolist()],
        }
    )


def _counters(trace: Trace) -> pandas.DataFrame:
    """Totals read at the end of the profile."""
    rows = ({"name": name, "value": value} for name, value in trace.header.counters.items())
    return _from_rows("name value", rows)


FRAMES: Mapping[str, Callable[[Trace], pandas.DataFrame]] = MappingProxyType(
    {
        "ops": _ops,
        "eager_kernels": _eager_kernels,
        "steps": _steps,
        "compiles": _compiles,
        "breaks": _breaks,
        "recompiles": _recompiles,
        "fallbacks": _fallbacks,
        "copies": _copies,
        "memory": _memory,
        "slices": _slices,
        "counters": _counters,
        "utilisation": utilisation_frame,
        "engine_slices": engine_slices_frame,
        "roofline": roofline_frame,
        "findings": findings_frame,
        "memory_use": memory_use_frame,
        "collectives": collectives_frame,
    }
)
"""Name → how to make it."""
