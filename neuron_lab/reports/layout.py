"""Which event of a trace goes on which track: a `Trace` becomes a `Drawing`.

Each (rank, clock) pair is a group of its own. Times of different clocks stand side by side, both from the
profile's start, and are never joined: an arrow leads from a launch to its kernel where both are on one clock.
Nothing here knows a file format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.reports import details
from neuron_lab.reports.arrows import Arrows
from neuron_lab.reports.drawing import Argument, CounterSet, Drawing, EventSet, Ints, Sketch, Words
from neuron_lab.reports.modelled_tracks import draw_modelled
from neuron_lab.reports.wording import NO_READING, place_texts, signature_texts
from neuron_lab.trace.events import NO_CORE, NO_TRACK, Clock, Kind
from neuron_lab.trace.table import Table, Trace

CLOCK_ORDER = [clock.value for clock in (Clock.WALL, Clock.MODELLED, Clock.MEASURED)]
CLOCK_LABELS = {
    Clock.WALL.value: "host, wall, measured",
    Clock.MODELLED.value: "device, modelled",
    Clock.MEASURED.value: "device, measured",
}
# Position of a track in its group, top first.
STEPS, COMPILATION, BREAKS, THREADS, FIRST_USES, FALLBACKS, COUNTERS, CORES, OTHERS = range(0, 90, 10)


@dataclass(frozen=True)
class Shelf:
    """Where a kind's rows go: the columns that tell its tracks apart, their label, and how rows are drawn."""

    order: int
    label: Callable[..., str]
    keys: tuple[str, ...] = ()
    instants: bool = False


def _thread(track: int) -> str:
    return "host" if track == NO_TRACK else f"thread {track}"


def core_label(core: int) -> str:
    return "no core" if core == NO_CORE else f"core {core}"


def _kernels(core: int, stream: int) -> str:
    return core_label(core) + (f", stream {stream}" if stream > 0 else "")


SHELVES: dict[Kind | str, Shelf] = {
    Kind.STEP: Shelf(STEPS, lambda: "steps"),
    Kind.COMPILE: Shelf(COMPILATION, lambda: "compilation"),
    Kind.GRAPH_BREAK: Shelf(BREAKS, lambda: "graph breaks and recompiles", instants=True),
    Kind.RECOMPILE: Shelf(BREAKS, lambda: "graph breaks and recompiles", instants=True),
    Kind.OPERATOR: Shelf(THREADS, _thread, ("track",)),
    Kind.COPY: Shelf(THREADS, _thread, ("track",)),
    Kind.MARK: Shelf(THREADS, _thread, ("track",)),
    Kind.EAGER_KERNEL: Shelf(FIRST_USES, lambda: "first uses of eager kernels", instants=True),
    Kind.FALLBACK: Shelf(FALLBACKS, lambda: "host fallbacks"),
    Kind.KERNEL: Shelf(CORES, _kernels, ("core", "stream")),
    Kind.ENGINE_SLICE: Shelf(
        CORES, lambda core, engine: f"{core_label(core)}, {engine} engine", ("core", "engine")
    ),
    Kind.DMA: Shelf(CORES, lambda core, queue: f"{core_label(core)}, DMA {queue}", ("core", "queue")),
    Kind.COLLECTIVE: Shelf(CORES, lambda core: f"{core_label(core)}, collectives", ("core",)),
}
CALLS = {Kind.OPERATOR, Kind.COPY, Kind.KERNEL}  # one after another on their track; a mark holds others
COUNTER_KINDS = {Kind.ALLOC, Kind.FREE, Kind.COUNTER}


def draw(traces: Sequence[Trace], *, max_rows: int) -> Drawing:
    """One drawing of one or more profiles. Of each kind at most `max_rows` rows, the earliest, are drawn."""
    sketch = Sketch()
    for index, trace in enumerate(traces):
        title = "" if len(traces) == 1 else f"{trace.header.name or f'profile {index + 1}'}: "
        _Page(sketch, trace, title, max_rows).draw()
    return sketch.finish()


class _Page:
    """One trace's part of the drawing."""

    def __init__(self, sketch: Sketch, trace: Trace, title: str, max_rows: int) -> None:
        self.sketch = sketch
        self.trace = trace
        self.title = title
        self.max_rows = max_rows
        self.tables = {kind: self._cut(trace.table(kind)) for kind in trace.kinds()}
        self.signatures = signature_texts(trace)
        self.places = place_texts(trace)
        self.arrows = Arrows(self.tables)
        self._horizons: dict[str, int] = {}

    def draw(self) -> None:
        self._facts()
        self._groups_in_order()
        for kind, table in self.tables.items():
            if kind not in COUNTER_KINDS:
                self._events(kind, table)
        self._memory()
        self._counters()
        if Kind.OPERATOR in self.tables and Kind.KERNEL not in self.tables:
            operators = len(self.tables[Kind.OPERATOR])
            draw_modelled(self.sketch, self.trace, self.group, self._modelled_core, operators)

    def group(self, rank: int, clock: str) -> int:
        """The group of this rank and clock. Groups appear in the order they are first asked for."""
        return self.sketch.group(f"{self.title}rank {rank}: {CLOCK_LABELS.get(clock, clock + ' time')}")

    def _modelled_core(self, rank: int, core: int) -> int:
        return self.sketch.track(self.group(rank, Clock.MODELLED), f"{core_label(core)}, low end", order=CORES)

    def _cut(self, table: Table) -> Table:
        too_many = len(table) - self.max_rows
        if too_many <= 0:
            return table
        name = f"{self.title}{table.kind}"
        self.sketch.cut[name] = self.sketch.cut.get(name, 0) + too_many
        return table.where(np.arange(self.max_rows))

    def _facts(self) -> None:
        header = self.trace.header
        device = "emulated on CPU" if header.device == "emulated" else header.device
        facts: dict[str, str | int] = {
            "profile": header.name,
            "device": device,
            "instance": header.instance,
            "origin_unix_ns": header.origin_unix_ns,
            "duration_ns": header.duration_ns,
            "written_by": "neuron_lab",
        }
        facts |= {f"dropped.{reason}": count for reason, count in header.dropped.items()}
        if header.error:
            facts["error"] = header.error
        self.sketch.attributes |= {f"{self.title}{key}": value for key, value in facts.items()}

    def _groups_in_order(self) -> None:
        pairs: set[tuple[int, str]] = set()
        for table in self.tables.values():
            pairs |= {(int(rank), str(clock)) for rank, clock in _distinct(table, ("rank", "clock"))[1]}
        for rank, clock in sorted(pairs, key=lambda pair: (pair[0], _clock_position(pair[1]))):
            self.group(rank, clock)

    def _events(self, kind: Kind | str, table: Table) -> None:
        shelf = SHELVES.get(kind) or Shelf(OTHERS, lambda: str(kind))
        instants = shelf.instants and not bool((table.column("duration_ns") > 0).any())
        start_ns = table.column("start_ns").astype(np.int64)
        track = self._numbered(table, shelf)
        end_ns, incomplete = self._ends(table, track)
        events = EventSet(
            category=str(kind).replace("_", " "),
            track=track,
            name=Words(table.codes("name"), table.vocabulary),
            start_ns=start_ns,
            end_ns=None if instants else end_ns,
            arguments=(*self._arguments(table), *details.incomplete(incomplete)),
        )
        self.sketch.add_events(replace(events, **self.arrows.of(kind)))

    def _numbered(self, table: Table, shelf: Shelf, unit: str | None = None) -> Ints:
        """The track number of every row."""
        row_of, found = _distinct(table, ("rank", "clock", *shelf.keys))
        numbers = [
            self.sketch.track(
                self.group(int(rank), str(clock)), shelf.label(*keys), order=shelf.order, unit=unit
            )
            for rank, clock, *keys in found
        ]
        return np.array(numbers, dtype=np.int64)[row_of]

    def _ends(self, table: Table, track: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """End times, and which of them nobody recorded.

        What never ended lasts until recording stopped, or until its clock's last known end; a call that raised
        only until the next one on its track, which shows that the thread went on.
        """
        start_ns = table.column("start_ns").astype(np.int64)
        end_ns = start_ns + table.column("duration_ns")
        incomplete = table.column("duration_ns") < 0
        if incomplete.any():
            last_ns = np.array([self._horizon(clock) for clock in table.strings("clock")])
            if table.kind in CALLS:
                last_ns = np.minimum(last_ns, _next_start(track, start_ns, last_ns))
            end_ns = np.where(incomplete, np.maximum(last_ns, start_ns), end_ns)
        return end_ns, incomplete

    def _horizon(self, clock: str) -> int:
        if clock == Clock.WALL and self.trace.header.duration_ns:
            return self.trace.header.duration_ns
        if clock not in self._horizons:
            self._horizons[clock] = max(
                (_last_time(table, clock) for table in self.tables.values()),
                default=0,
            )
        return self._horizons[clock]

    def _arguments(self, table: Table) -> list[Argument]:
        return details.arguments(table, self.signatures, self.places)

    def _memory(self) -> None:
        tables = [self.tables[kind] for kind in (Kind.ALLOC, Kind.FREE) if kind in self.tables]
        for table in tables:
            shelf = Shelf(COUNTERS, lambda core: f"HBM allocated, {core_label(core)}", ("core",))
            known = table.column("allocated_bytes") >= 0
            self._counter_rows(table.where(known), shelf, "allocated_bytes", "bytes")

    def _counters(self) -> None:
        table = self.tables.get(Kind.COUNTER)
        if table is None:
            return
        units, unit_names = table.codes("unit"), [*table.vocabulary, ""]
        for unit in np.unique(units).tolist():
            shelf = Shelf(COUNTERS, _counter_label, ("name", "core"))
            self._counter_rows(table.where(units == unit), shelf, "value", unit_names[unit])

    def _counter_rows(self, table: Table, shelf: Shelf, column: str, unit: str) -> None:
        if not len(table):
            return
        track = self._numbered(table, shelf, unit)
        self.sketch.add_counters(
            CounterSet(track, table.column("start_ns").astype(np.int64), table.column(column))
        )
        self._gaps(table.where(np.isnan(table.column(column))), shelf)

    def _gaps(self, table: Table, shelf: Shelf) -> None:
        """A counter keeps its last value in the picture; where there is no reading an instant says so."""
        if not len(table):
            return
        beside = replace(shelf, label=lambda *keys: f"{shelf.label(*keys)}: {NO_READING}")
        name = Words(np.zeros(len(table), dtype=np.int64), [NO_READING])
        start_ns = table.column("start_ns").astype(np.int64)
        self.sketch.add_events(EventSet("counter", self._numbered(table, beside), name, start_ns, None))


def _counter_label(name: str, core: int) -> str:
    return name if core == NO_CORE else f"{name}, {core_label(core)}"


def _clock_position(clock: str) -> int:
    return CLOCK_ORDER.index(clock) if clock in CLOCK_ORDER else len(CLOCK_ORDER)


def _last_time(table: Table, clock: str) -> int:
    here = table.matches("clock", clock)
    ends = table.column("start_ns")[here] + np.maximum(table.column("duration_ns")[here], 0)
    return int(ends.max()) if len(ends) else 0


def _next_start(track: Ints, start_ns: Ints, last_ns: Ints) -> Ints:
    """When the next event of the same track starts; `last_ns` where none follows."""
    following = last_ns.copy()
    order = np.lexsort((start_ns, track))
    same = track[order][1:] == track[order][:-1]
    following[order[:-1][same]] = start_ns[order][1:][same]
    return following


def _distinct(table: Table, names: Sequence[str]) -> tuple[Ints, list[tuple[Any, ...]]]:
    """(for each row the number of its combination, the combinations as text and numbers)."""
    combined = np.zeros(len(table), dtype=np.int64)
    levels: list[npt.NDArray[np.generic]] = []
    for name in names:
        values = table.codes(name) if table.is_text(name) else table.column(name)
        level, position = np.unique(values, return_inverse=True)
        combined = combined * len(level) + position
        levels.append(level)
    _, first, row_of = np.unique(combined, return_index=True, return_inverse=True)
    words = [*table.vocabulary, ""]
    found: list[tuple[Any, ...]] = []
    for row in first.tolist():
        picked: list[Any] = []
        for name in names:
            picked.append(
                words[table.codes(name)[row]] if table.is_text(name) else int(table.column(name)[row])
            )
        found.append(tuple(picked))
    return row_of.astype(np.int64), found
