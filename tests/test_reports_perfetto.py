"""The Perfetto writer's bytes, parsed by protobuf's own reader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

from neuron_lab.reports.drawing import CounterSet, EventSet, Sketch, Words
from neuron_lab.reports.lanes import assign_lanes
from neuron_lab.reports.perfetto import PACKETS_PER_CHUNK, perfetto_chunks
from neuron_lab.reports.perfetto_wire import (
    Fixed64,
    Message,
    Template,
    Varint,
    block,
    number,
    utf8,
    varint,
    varint_width,
)

BEGIN, END, INSTANT = 1, 2, 3


def parsed(sketch: Sketch) -> list[Any]:
    return list(schema.Trace.FromString(b"".join(perfetto_chunks(sketch.finish()))).packet)


def add(sketch: Sketch, track: int, spans: list[tuple[int, int]], **more: Any) -> None:
    times = np.array(spans, dtype=np.int64).reshape(-1, 2)
    names = Words(np.arange(len(spans)), [f"n{i}" for i in range(len(spans))])
    sketch.add_events(
        EventSet("c", np.full(len(spans), track, dtype=np.int64), names, times[:, 0], times[:, 1], **more)
    )


def stack_of(packets: list[Any]) -> list[tuple[int, int, int]]:
    """(track, begin, end) of every slice: an END closes the innermost open BEGIN of its track."""
    found, open_on = [], {}
    for packet in packets:
        event = packet.track_event
        if event.type == BEGIN:
            open_on.setdefault(event.track_uuid, []).append(packet.timestamp)
        elif event.type == END:
            found.append((event.track_uuid, open_on[event.track_uuid].pop(), packet.timestamp))
    assert not any(open_on.values())
    return found


@given(st.integers(0, 2**64 - 1), st.integers(0, 4))
def test_padded_and_plain_varints_mean_the_same_number(value: int, padding: int) -> None:
    width = min(10, varint_width(value) + padding)
    template = Template(Message(1, (Varint(10, "value", width),)))
    row = template.encode({"value": np.array([value], dtype=np.uint64)}, 1).tobytes()
    packet = schema.Trace.FromString(block(1, number(10, value & 0xFFFFFFFF))).packet[0]
    assert len(varint(value)) == varint_width(value)
    assert (
        schema.Trace.FromString(row).packet[0].trusted_packet_sequence_id == packet.trusted_packet_sequence_id
    )


def test_a_template_writes_one_row_per_value() -> None:
    template = Template(Message(1, (Varint(8, "time", 3), Message(11, (Fixed64(44, "value"), number(9, 4))))))
    rows = template.encode({"time": np.array([1, 300_000]), "value": np.array([0.5, -2.25])}, 2)
    packets = schema.Trace.FromString(rows.tobytes()).packet
    assert [(packet.timestamp, packet.track_event.double_counter_value) for packet in packets] == [
        (1, 0.5),
        (300_000, -2.25),
    ]


@pytest.mark.parametrize(("name", "expected"), [("a\0b", "a␀b"), ("\ud800", r"\ud800"), ("é😀", "é😀")])
def test_any_text_becomes_valid_utf8(name: str, expected: str) -> None:
    assert utf8(name).decode() == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=40))
def test_every_slice_comes_back_from_the_stack(spans: list[tuple[int, int]]) -> None:
    sketch = Sketch()
    track = sketch.track(sketch.group("g"), "t")
    wanted = [(start, start + length) for start, length in spans]
    add(sketch, track, wanted)
    assert sorted((begin, end) for _, begin, end in stack_of(parsed(sketch))) == sorted(wanted)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=40))
def test_no_two_slices_of_a_lane_cross(rows: list[tuple[int, int, int]]) -> None:
    track, start, length = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    end = start + length
    lanes = assign_lanes(track, start, end)
    for i in range(len(rows)):
        for j in range(len(rows)):
            if (track[i], lanes[i]) == (track[j], lanes[j]):
                assert not start[i] < start[j] < end[i] < end[j]


def test_work_that_nests_stays_on_one_lane() -> None:
    start, end = np.array([0, 0, 2, 5, 10]), np.array([10, 5, 4, 10, 12])
    assert assign_lanes(np.zeros(5, np.int64), start, end).tolist() == [0, 0, 0, 0, 0]


def test_packets_are_in_order_of_time_across_chunks() -> None:
    count = PACKETS_PER_CHUNK + 5
    sketch = Sketch()
    group = sketch.group("g")
    for name in ("a", "b"):
        add(sketch, sketch.track(group, name), [(at * 10, at * 10 + 7) for at in range(count)])
    times = [packet.timestamp for packet in parsed(sketch) if packet.HasField("track_event")]
    assert len(times) == 4 * count
    assert times == sorted(times)


def test_only_names_in_use_enter_the_dictionary() -> None:
    sketch = Sketch()
    track = sketch.track(sketch.group("g"), "t")
    words = Words(np.array([2, 2, -1]), ["unused", "also unused", "used"])
    times = np.array([0, 1, 2])
    sketch.add_events(EventSet("c", np.full(3, track), words, times, None))
    (dictionary,) = [p.interned_data for p in parsed(sketch) if p.HasField("interned_data")]
    assert sorted(entry.name for entry in dictionary.event_names) == ["", "used"]


def test_a_slice_with_one_arrow_takes_at_most_60_bytes() -> None:
    count = 100_000
    sketch = Sketch()
    group = sketch.group("g")
    spans = [(at * 20_000, at * 20_000 + 9_000) for at in range(count)]  # two seconds
    flow = np.arange(1, count + 1, dtype=np.uint64)
    add(sketch, sketch.track(group, "launches"), spans, flow_out=flow)
    add(sketch, sketch.track(group, "core"), spans, flow_in=flow)
    dictionary_bytes = 100_000 * 12  # this test names every slice differently
    size_bytes = sum(map(len, perfetto_chunks(sketch.finish())))
    assert (size_bytes - dictionary_bytes) / (2 * count) <= 60


def test_a_counter_keeps_its_unit_and_its_fractions() -> None:
    sketch = Sketch()
    group = sketch.group("g")
    memory = sketch.track(group, "memory", unit="bytes")
    load = sketch.track(group, "load", unit="%")
    sketch.add_counters(CounterSet(np.array([memory]), np.array([5]), np.array([2**40], dtype=np.int64)))
    sketch.add_counters(CounterSet(np.array([load]), np.array([6]), np.array([12.5])))
    packets = parsed(sketch)
    units = {p.track_descriptor.name: p.track_descriptor.counter for p in packets if p.track_descriptor.name}
    assert (units["memory"].unit, units["load"].unit_name) == (3, "%")
    events = [p.track_event for p in packets if p.HasField("track_event")]
    assert [(e.counter_value, e.double_counter_value) for e in events] == [(2**40, 0.0), (0, 12.5)]
