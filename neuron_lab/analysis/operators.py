"""Operators by name: how often, how long the host took to dispatch them, what they would take on the chip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.modelled import ModelledTimeline
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import UNFINISHED, Kind
from neuron_lab.trace.table import Trace


@dataclass(frozen=True, slots=True)
class Operator:
    """All calls of one operator, or all executions of one compiled graph."""

    name: str
    count: int
    wall_ns: int  # measured on this machine; when emulated that is the CPU's computing time
    modelled_ns: Interval | None  # kernel time on the chip without launches; None: nothing modelled
    unfinished: int = 0  # calls whose end was not recorded; they add no wall time


def operators(trace: Trace, timeline: ModelledTimeline) -> tuple[Operator, ...]:
    """Longest wall time first."""
    table = trace.table(Kind.OPERATOR)
    if not len(table):
        return ()
    codes = table.codes("name")
    size = len(table.vocabulary) + 1  # code -1 (no text) counts in the last bin
    bins = np.where(codes < 0, size - 1, codes)
    durations = table.column("duration_ns")
    finished = durations != UNFINISHED
    counts = np.bincount(bins, minlength=size)
    walls = np.bincount(bins[finished], durations[finished], size)
    unfinished = np.bincount(bins[~finished], minlength=size)
    kernel_bins = bins[timeline.rows]
    kernels = np.bincount(kernel_bins, minlength=size)
    lows = np.bincount(kernel_bins, timeline.low_ns, size)
    highs = np.bincount(kernel_bins, timeline.high_ns, size)
    words = [*table.vocabulary, ""]
    found = [
        Operator(
            words[code],
            int(counts[code]),
            int(walls[code]),
            Interval(int(lows[code]), int(highs[code])) if kernels[code] else None,
            int(unfinished[code]),
        )
        for code in np.flatnonzero(counts).tolist()
    ]
    return tuple(sorted(found, key=lambda operator: (-operator.wall_ns, operator.name)))
