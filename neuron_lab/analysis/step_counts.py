"""What falls into which step. A step (a generated token, an optimizer step) is an interval of wall time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.two_ends import Array
from neuron_lab.trace.events import UNFINISHED, Kind
from neuron_lab.trace.table import Table, Trace


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of several counts or times."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class StepRows:
    """The finished steps of one name, in order of start: half-open intervals [start, end)."""

    name: str
    start_ns: Array
    end_ns: Array


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Wall time of the steps of one name, measured on this machine."""

    name: str
    count: int
    wall_ns: Spread


def step_rows(table: Table) -> list[StepRows]:
    """Per name, in order of first appearance."""
    finished = table.where(table.column("duration_ns") != UNFINISHED)
    found = []
    for name in dict.fromkeys(finished.strings("name")):
        steps = finished.where(finished.matches("name", name))
        start_ns = steps.column("start_ns")
        found.append(StepRows(name, start_ns, start_ns + steps.column("duration_ns")))
    return found


def step_times(trace: Trace) -> tuple[StepTimes, ...]:
    return tuple(
        StepTimes(steps.name, len(steps.start_ns), Spread.of((steps.end_ns - steps.start_ns).tolist()))
        for steps in step_rows(trace.table(Kind.STEP))
    )


def per_step(steps: StepRows, start_ns: Array) -> Array:
    """How many events start in each step. Steps may overlap (two threads); an event then counts in each."""
    if len(start_ns) > 1 and (start_ns[1:] < start_ns[:-1]).any():
        start_ns = np.sort(start_ns)
    before = np.searchsorted(start_ns, steps.start_ns, side="left")
    return np.searchsorted(start_ns, steps.end_ns, side="left") - before


def distinct_per_step(steps: StepRows, start_ns: Array, values: Array) -> Array:
    """How many different values the events of each step have. `start_ns` must be sorted; values are small
    ids."""
    begins = np.searchsorted(start_ns, steps.start_ns, side="left")
    ends = np.searchsorted(start_ns, steps.end_ns, side="left")
    seen = np.zeros(int(values.max(initial=-1)) + 1, bool)
    counts = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        mine = values[begin:end]
        seen[mine] = True
        counts.append(int(np.count_nonzero(seen)))
        seen[mine] = False
    return np.array(counts, np.int64)


def first_uses(values: Array) -> Array:
    """Position of the first appearance of each value, in order of value. Values are small and not negative."""
    first = np.full(int(values.max(initial=-1)) + 1, -1, np.int64)
    first[values[::-1]] = np.arange(len(values) - 1, -1, -1)
    return first[first >= 0]
