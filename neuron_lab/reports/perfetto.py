"""A `Drawing` as a native Perfetto trace (`.pftrace`), readable by ui.perfetto.dev and trace_processor.

One packet sequence: its first packets carry the dictionary of names and the track descriptors, then come
slices, instants and counters in order of time, filled in from numpy templates many thousand at a time. Field
numbers are those of Perfetto's public `perfetto_trace.proto`. Nothing here knows what an operator is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neuron_lab.reports.drawing import Argument, CounterSet, Drawing, EventSet, Words
from neuron_lab.reports.perfetto_wire import (
    Fixed64,
    Message,
    Part,
    Template,
    Varint,
    block,
    number,
    text,
    varint_width,
)

# TracePacket
TIMESTAMP, SEQUENCE_ID, TRACK_EVENT, INTERNED_DATA, SEQUENCE_FLAGS = 8, 10, 11, 12, 13
TRACK_DESCRIPTOR, TRACE_ATTRIBUTES = 60, 126
FIRST_OF_SEQUENCE, USES_DICTIONARY = 3, 2
# TrackDescriptor
UUID, NAME, PROCESS, PARENT_UUID, COUNTER, CHILD_ORDERING, ORDER_RANK, MERGE_BEHAVIOUR = (
    1,
    2,
    3,
    5,
    8,
    11,
    12,
    15,
)
EXPLICIT_ORDER, NEVER_MERGE = 3, 2
COUNTER_UNIT, COUNTER_UNIT_NAME = 3, 6
UNITS = {"ns": 1, "count": 2, "bytes": 3}
# TrackEvent
CATEGORY_IID, ANNOTATION, TYPE, NAME_IID, TRACK_UUID = 3, 4, 9, 10, 11
COUNTER_VALUE, DOUBLE_COUNTER_VALUE, FLOW, TERMINATING_FLOW = 30, 44, 47, 48
BEGIN, END, INSTANT, COUNTER_EVENT = 1, 2, 3, 4
# DebugAnnotation
ANNOTATION_NAME_IID, INT_VALUE, DOUBLE_VALUE, STRING_IID = 1, 4, 5, 17
# InternedData
CATEGORIES, EVENT_NAMES, ANNOTATION_NAMES, ANNOTATION_STRINGS = 1, 2, 3, 29

SEQUENCE = 1
PACKETS_PER_CHUNK = 1 << 17

Ints = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[np.generic]]


def perfetto_chunks(drawing: Drawing) -> Iterator[bytes]:
    """The file's bytes, piece by piece."""
    encoder = _Encoder(drawing)
    yield from encoder.head()
    yield from encoder.body()


@dataclass
class _Dictionary:
    """Interned strings of one kind; iids start at 1."""

    field_number: int
    iids: dict[str, int] = field(default_factory=dict)

    def iid(self, word: str) -> int:
        return self.iids.setdefault(word, len(self.iids) + 1)

    def column(self, words: Words, rows: Ints) -> Ints:
        """iids of the chosen rows; only words that occur enter the dictionary."""
        codes = words.codes[rows] + 1  # from 0, which stands for no text
        if not len(codes):
            return np.empty(0, np.int64)
        table = np.zeros(int(codes.max()) + 1, dtype=np.int64)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            table[code] = self.iid(words.words[code - 1] if code else "")
        return table[codes]

    def message(self) -> bytes:
        return b"".join(
            block(self.field_number, number(1, iid), text(2, word)) for word, iid in self.iids.items()
        )


@dataclass(frozen=True)
class _Packets:
    """Packets of one layout, and when each comes: `position` orders packets of the same time."""

    template: Template
    columns: Columns
    time_ns: Ints

    def __len__(self) -> int:
        return len(self.time_ns)


class _Encoder:
    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.categories = _Dictionary(CATEGORIES)
        self.names = _Dictionary(EVENT_NAMES)
        self.annotation_names = _Dictionary(ANNOTATION_NAMES)
        self.strings = _Dictionary(ANNOTATION_STRINGS)
        self.first_track_uuid = len(drawing.groups) + 1
        # A timestamp is unsigned: when something lies before the profile's start, everything moves right.
        self.shift_ns = max(0, -_earliest(drawing))
        self.begins = [packets for events in drawing.events for packets in self._begins(events)]
        self.points = [packets for counters in drawing.counters for packets in self._counters(counters)]

    # -- the rare packets

    def head(self) -> Iterator[bytes]:
        dictionaries = (self.categories, self.names, self.annotation_names, self.strings)
        interned = b"".join(dictionary.message() for dictionary in dictionaries)
        yield _packet(number(SEQUENCE_FLAGS, FIRST_OF_SEQUENCE), block(INTERNED_DATA, interned))
        yield _packet(
            block(TRACE_ATTRIBUTES, *(_attribute(key, value) for key, value in self._facts().items()))
        )
        for index, group in enumerate(self.drawing.groups):
            process = number(1, index + 1) + text(6, group.label)
            yield _packet(
                block(
                    TRACK_DESCRIPTOR,
                    number(UUID, index + 1),
                    block(PROCESS, process),
                    number(CHILD_ORDERING, EXPLICIT_ORDER),
                    number(ORDER_RANK, index),
                )
            )
        for index, track in enumerate(self.drawing.tracks):
            parts = [
                number(UUID, self.first_track_uuid + index),
                text(NAME, track.label),
                number(PARENT_UUID, track.group + 1),
                number(ORDER_RANK, track.order),
                number(MERGE_BEHAVIOUR, NEVER_MERGE),
            ]
            if track.unit is not None:
                parts.append(block(COUNTER, _unit(track.unit)))
            yield _packet(block(TRACK_DESCRIPTOR, *parts))

    def _facts(self) -> dict[str, str | int]:
        shift = {"shift_ns": self.shift_ns} if self.shift_ns else {}
        cut = {f"cut.{kind}": count for kind, count in self.drawing.cut.items()}
        return {**self.drawing.attributes, **shift, **cut}

    # -- the many packets

    def body(self) -> Iterator[bytes]:
        """All packets, merged by time. At one time: ends, then begins (outer first), empty slices, points."""
        if not self.begins and not self.points:
            return
        streams, stream_of, row_of = self._in_order()
        widths = np.array([packets.template.width for packets in streams])
        for at in range(0, len(stream_of), PACKETS_PER_CHUNK):
            chunk = slice(at, at + PACKETS_PER_CHUNK)
            yield _encode(streams, widths, stream_of[chunk], row_of[chunk])

    def _in_order(self) -> tuple[list[_Packets], npt.NDArray[np.int16], Ints]:
        slices = [(begin, end) for begin, end in self.begins if end is not None]
        points = [begin for begin, end in self.begins if end is None] + self.points
        streams = [begin for begin, _ in slices] + [end for _, end in slices] + points
        stream, row = _stream_and_row([begin for begin, _ in slices])
        point_stream, point_row = _stream_and_row(points)
        start_ns, end_ns = _times([begin for begin, _ in slices]), _times([end for _, end in slices])
        outer_first = np.lexsort((-end_ns, start_ns))
        stream, row, start_ns, end_ns = (column[outer_first] for column in (stream, row, start_ns, end_ns))
        empty = end_ns == start_ns
        # begin, end, begin, end, … so that a stable sort keeps the two ends of an empty slice together
        time_ns = np.concatenate([_interleave(start_ns, end_ns), _times(points)])
        phase = np.concatenate(
            [_interleave(np.where(empty, 2, 1), np.where(empty, 2, 0)), np.full(len(point_row), 3, np.int64)]
        )
        stream_of = np.concatenate(
            [_interleave(stream, stream + len(slices)), point_stream + 2 * len(slices)]
        ).astype(np.int16)
        row_of = np.concatenate([_interleave(row, row), point_row])
        order = np.argsort(time_ns * 4 + phase, kind="stable")
        return streams, stream_of[order], row_of[order]

    def _begins(self, events: EventSet) -> Iterator[tuple[_Packets, _Packets | None]]:
        """Packets for events with the same details present, so that what is absent is not written."""
        details = [*events.arguments]
        masks = [argument.present for argument in details]
        for flow in (events.flow_out, events.flow_in):
            masks.append(np.zeros(len(events), dtype=bool) if flow is None else flow != 0)
        for pattern, rows in _by_pattern(masks, len(events)):
            present = [argument for argument, used in zip(details, pattern, strict=False) if used]
            yield self._same_layout(events, rows, present, flows=pattern[-2:])

    def _same_layout(
        self, events: EventSet, rows: Ints, arguments: Sequence[Argument], flows: Sequence[bool]
    ) -> tuple[_Packets, _Packets | None]:
        start_ns = events.start_ns[rows] + self.shift_ns
        columns: Columns = {
            "time": start_ns,
            "track": events.track[rows] + self.first_track_uuid,
            "name": self.names.column(events.name, rows),
        }
        parts: list[Part] = [
            number(TYPE, INSTANT if events.end_ns is None else BEGIN),
            _varint(TRACK_UUID, "track", columns),
            _varint(NAME_IID, "name", columns),
            number(CATEGORY_IID, self.categories.iid(events.category)),
        ]
        parts += [self._annotation(argument, rows, columns) for argument in arguments]
        for used, column, field_number, values in (
            (flows[0], "out", FLOW, events.flow_out),
            (flows[1], "in", TERMINATING_FLOW, events.flow_in),
        ):
            if used and values is not None:
                columns[column] = values[rows]
                parts.append(Fixed64(field_number, column))
        begin = _Packets(
            _event_packet(columns, parts, number(SEQUENCE_FLAGS, USES_DICTIONARY)), columns, start_ns
        )
        if events.end_ns is None:
            return begin, None
        end_ns = events.end_ns[rows] + self.shift_ns
        ends: Columns = {"time": end_ns, "track": columns["track"]}
        return begin, _Packets(
            _event_packet(ends, [number(TYPE, END), _varint(TRACK_UUID, "track", ends)]), ends, end_ns
        )

    def _annotation(self, argument: Argument, rows: Ints, columns: Columns) -> Part:
        name = number(ANNOTATION_NAME_IID, self.annotation_names.iid(argument.name))
        column = f"argument {argument.name}"
        if isinstance(argument.values, Words):
            columns[column] = self.strings.column(argument.values, rows)
            return Message(ANNOTATION, (name, _varint(STRING_IID, column, columns)))
        columns[column] = argument.values[rows]
        if argument.values.dtype.kind == "f":
            return Message(ANNOTATION, (name, Fixed64(DOUBLE_VALUE, column)))
        return Message(ANNOTATION, (name, _varint(INT_VALUE, column, columns)))

    def _counters(self, counters: CounterSet) -> Iterator[_Packets]:
        read = np.flatnonzero(np.isfinite(counters.value))  # a gap where there is no reading
        if not len(read):
            return
        columns: Columns = {
            "time": counters.time_ns[read] + self.shift_ns,
            "track": counters.track[read] + self.first_track_uuid,
            "value": counters.value[read],
        }
        is_float = counters.value.dtype.kind == "f"
        value = Fixed64(DOUBLE_COUNTER_VALUE, "value") if is_float else _varint(COUNTER_VALUE, "value", columns)
        parts: list[Part] = [number(TYPE, COUNTER_EVENT), _varint(TRACK_UUID, "track", columns), value]
        yield _Packets(_event_packet(columns, parts), columns, counters.time_ns[read] + self.shift_ns)


def _packet(*content: bytes) -> bytes:
    return block(1, number(SEQUENCE_ID, SEQUENCE), *content)


def _event_packet(columns: Columns, parts: Sequence[Part], *more: Part) -> Template:
    packet = (_varint(TIMESTAMP, "time", columns), number(SEQUENCE_ID, SEQUENCE), *more)
    return Template(Message(1, (*packet, Message(TRACK_EVENT, tuple(parts)))))


def _varint(field_number: int, column: str, columns: Columns) -> Varint:
    values = columns[column]
    largest = int(values.max()) if len(values) else 0
    negative = values.dtype.kind == "i" and len(values) > 0 and int(values.min()) < 0
    return Varint(field_number, column, 10 if negative else varint_width(largest))


def _attribute(key: str, value: str | int) -> bytes:
    content = number(2, value) if isinstance(value, int) else text(3, value)
    return block(1, text(1, key), content)


def _unit(unit: str) -> bytes:
    return number(COUNTER_UNIT, UNITS[unit]) if unit in UNITS else text(COUNTER_UNIT_NAME, unit)


def _earliest(drawing: Drawing) -> int:
    starts = [events.start_ns for events in drawing.events] + [
        counters.time_ns for counters in drawing.counters
    ]
    return min((int(start.min()) for start in starts if len(start)), default=0)


def _by_pattern(masks: Sequence[npt.NDArray[np.bool_]], count: int) -> Iterator[tuple[list[bool], Ints]]:
    """Row numbers grouped by which masks hold."""
    code = np.zeros(count, dtype=np.int64)
    for bit, mask in enumerate(masks):
        code |= mask.astype(np.int64) << bit
    for value in np.unique(code).tolist():
        yield [bool(value >> bit & 1) for bit in range(len(masks))], np.flatnonzero(code == value)


def _times(streams: Sequence[_Packets]) -> Ints:
    return np.concatenate([packets.time_ns for packets in streams]) if streams else np.empty(0, np.int64)


def _stream_and_row(streams: Sequence[_Packets]) -> tuple[Ints, Ints]:
    lengths = [len(packets) for packets in streams]
    stream = np.repeat(np.arange(len(streams), dtype=np.int64), lengths)
    rows = [np.arange(length, dtype=np.int64) for length in lengths]
    return stream, np.concatenate(rows) if rows else np.empty(0, np.int64)


def _interleave(first: Ints, second: Ints) -> Ints:
    return np.stack([first, second], axis=1).reshape(-1)


def _encode(streams: Sequence[_Packets], widths: Ints, stream_of: npt.NDArray[np.int16], row_of: Ints) -> bytes:
    """Packets of several layouts in the given order: padded rows, then the padding masked away."""
    used = np.unique(stream_of)
    rows = np.empty((len(stream_of), int(widths[used].max())), dtype=np.uint8)
    for stream in used.tolist():
        packets = streams[stream]
        here = np.flatnonzero(stream_of == stream)
        columns = {name: values[row_of[here]] for name, values in packets.columns.items()}
        rows[here, : packets.template.width] = packets.template.encode(columns, len(here))
    filled = np.arange(rows.shape[1]) < widths[stream_of][:, None]
    return rows[filled].tobytes()
