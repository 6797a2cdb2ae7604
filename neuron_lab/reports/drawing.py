"""What a trace viewer draws: groups, tracks, slices, instants, arrows and counters, as columns.

Both trace formats write the same `Drawing`; it knows neither of them, nor what an operator or a kernel is.
Slices that would cross on a track are moved to further lanes of it, each of which nests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neuron_lab.reports.lanes import assign_lanes

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Words:
    """A text column: `words[codes[i]]` is row i's text; a negative code is no text."""

    codes: Ints
    words: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Argument:
    """One named detail of the events of a set. Rows where `present` is False have no reading and show none."""

    name: str
    values: Numbers | Words
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Group:
    """A heading with tracks below it: one rank on one clock."""

    label: str


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the drawing. `unit` is set on counter tracks only ("bytes", "count", …)."""

    group: int
    label: str
    order: int = 0
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class EventSet:
    """Events drawn alike. `end_ns` None makes them instants; an arrow joins equal non-zero flow numbers."""

    category: str
    track: Ints
    name: Words
    start_ns: Ints
    end_ns: Ints | None
    arguments: tuple[Argument, ...] = ()
    flow_out: npt.NDArray[np.uint64] | None = None  # an arrow starts here
    flow_in: npt.NDArray[np.uint64] | None = None  # an arrow ends here

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Readings of counter tracks. A NaN is "no reading"."""

    track: Ints
    time_ns: Ints
    value: Numbers

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Drawing:
    """Everything to draw. Times are nanoseconds from the profile's start, on the clock the group names."""

    groups: tuple[Group, ...]
    tracks: tuple[Track, ...]
    events: tuple[EventSet, ...]
    counters: tuple[CounterSet, ...]
    attributes: dict[str, str | int]  # facts about the whole file
    cut: dict[str, int]  # what was left out to keep the file usable, by kind; empty = nothing

    @property
    def slice_count(self) -> int:
        return sum(len(events) for events in self.events if events.end_ns is not None)

    @property
    def instant_count(self) -> int:
        return sum(len(events) for events in self.events if events.end_ns is None)


@dataclass
class Sketch:
    """A drawing being made."""

    attributes: dict[str, str | int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    _groups: dict[Group, int] = field(default_factory=dict)
    _tracks: dict[Track, int] = field(default_factory=dict)
    _events: list[EventSet] = field(default_factory=list)
    _counters: list[CounterSet] = field(default_factory=list)

    def group(self, label: str) -> int:
        return self._groups.setdefault(Group(label), len(self._groups))

    def track(self, group: int, label: str, *, order: int = 0, unit: str | None = None) -> int:
        """The number of this track; the same arguments always give the same track."""
        return self._tracks.setdefault(Track(group, label, order, unit), len(self._tracks))

    def add_events(self, events: EventSet) -> None:
        if len(events):
            self._events.append(events)

    def add_counters(self, counters: CounterSet) -> None:
        if len(counters):
            self._counters.append(counters)

    def finish(self) -> Drawing:
        events = self._spread_over_lanes()
        return Drawing(
            groups=tuple(self._groups),
            tracks=tuple(self._tracks),
            events=tuple(events),
            counters=tuple(self._counters),
            attributes=dict(self.attributes),
            cut=dict(self.cut),
        )

    def _spread_over_lanes(self) -> list[EventSet]:
        slices = [events for events in self._events if events.end_ns is not None]
        if not slices:
            return self._events
        track = np.concatenate([events.track for events in slices])
        lanes = assign_lanes(
            track,
            np.concatenate([events.start_ns for events in slices]),
            np.concatenate([events.end_ns for events in slices if events.end_ns is not None]),
        )
        for base, lane in sorted(set(zip(track[lanes > 0].tolist(), lanes[lanes > 0].tolist(), strict=True))):
            rows = (lanes == lane) & (track == base)
            track[rows] = self._lane_of(base, lane)
            lanes[rows] = 0
        ends = np.cumsum([len(events) for events in slices])
        new_tracks = iter(np.split(track, ends[:-1]))
        return [
            _on_tracks(events, next(new_tracks)) if events.end_ns is not None else events
            for events in self._events
        ]

    def _lane_of(self, track: int, lane: int) -> int:
        base = list(self._tracks)[track]
        return self.track(base.group, f"{base.label} (lane {lane + 1})", order=base.order, unit=base.unit)


def _on_tracks(events: EventSet, track: Ints) -> EventSet:
    return EventSet(
        events.category,
        track,
        events.name,
        events.start_ns,
        events.end_ns,
        events.arguments,
        events.flow_out,
        events.flow_in,
    )
