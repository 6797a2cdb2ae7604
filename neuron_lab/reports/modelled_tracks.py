"""The modelled timeline as tracks: host launches, and kernels on their cores, joined by arrows.

Drawn is the schedule of the low ends (documented rooflines, least assumed launch time): no picture can stand at
both ends of an interval at once. Each kernel carries its interval and the bound that limits it as details.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from neuron_lab.analysis.modelled import ModelledTimeline, model_timeline
from neuron_lab.hardware.cost import BOUNDS
from neuron_lab.reports.drawing import Argument, EventSet, Ints, Sketch, Words
from neuron_lab.trace.events import Clock, Kind
from neuron_lab.trace.table import Trace

Mask = npt.NDArray[np.bool_]

LAUNCHES = "host launches, low end"


def draw_modelled(
    sketch: Sketch,
    trace: Trace,
    group: Callable[[int, str], int],
    core_track: Callable[[int, int], int],
    operator_rows: int,
) -> None:
    """Model the trace and draw the kernels of its first `operator_rows` operators.

    `group` gives the group of a rank and clock, `core_track` the modelled track of a rank and core.
    """
    timeline = model_timeline(trace)
    chosen = timeline.rows < operator_rows
    if not chosen.any():
        return
    names = _names(trace, timeline, chosen)
    flow = np.arange(1, len(names) + 1, dtype=np.uint64)
    start_ns = timeline.launch_start_ns[chosen].astype(np.int64)
    launch_ns = round(timeline.launch_ns.low)
    launch_tracks = {
        rank: sketch.track(group(rank, Clock.MODELLED), LAUNCHES, order=0)
        for rank in _levels(timeline.rank[chosen])
    }
    sketch.add_events(
        EventSet(
            category="modelled launch",
            track=_mapped(timeline.rank[chosen], launch_tracks),
            name=names,
            start_ns=start_ns,
            end_ns=start_ns + launch_ns,
            flow_out=flow,
        )
    )
    kernel_start_ns = timeline.start_ns[chosen].astype(np.int64)
    sketch.add_events(
        EventSet(
            category="modelled kernel",
            track=_core_tracks(timeline, chosen, core_track),
            name=names,
            start_ns=kernel_start_ns,
            end_ns=kernel_start_ns + timeline.low_ns[chosen].astype(np.int64),
            arguments=_details(trace, timeline, chosen),
            flow_in=flow,
        )
    )


def _names(trace: Trace, timeline: ModelledTimeline, chosen: Mask) -> Words:
    table = trace.table(Kind.OPERATOR)
    return Words(table.codes("name")[timeline.rows[chosen]], table.vocabulary)


def _core_tracks(timeline: ModelledTimeline, chosen: Mask, core_track: Callable[[int, int], int]) -> Ints:
    rank, core = timeline.rank[chosen].astype(np.int64), timeline.core[chosen].astype(np.int64)
    combined = rank * 65536 + core
    return _mapped(combined, {code: core_track(code // 65536, code % 65536) for code in _levels(combined)})


def _details(trace: Trace, timeline: ModelledTimeline, chosen: Mask) -> tuple[Argument, ...]:
    always = np.ones(int(np.count_nonzero(chosen)), dtype=bool)
    return (
        Argument("modelled_low_ns", timeline.low_ns[chosen].astype(np.int64), always),
        Argument("modelled_high_ns", timeline.high_ns[chosen].astype(np.int64), always),
        Argument("bound", Words(timeline.bound[chosen].astype(np.int64), list(BOUNDS)), always),
    )


def _levels(values: Ints) -> Sequence[int]:
    return [int(value) for value in np.unique(values)]


def _mapped(values: Ints, numbers: dict[int, int]) -> Ints:
    levels = np.array(sorted(numbers), dtype=np.int64)
    mapped = np.array([numbers[level] for level in levels.tolist()], dtype=np.int64)
    return mapped[np.searchsorted(levels, values)]
