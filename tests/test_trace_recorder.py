"""The recorder: intervals of nested recordings, sources on and off, bounded memory, many threads."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
from builders import make_signature, rows

from neuron_lab.trace.columns import Text
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TraceHeader
from neuron_lab.trace.recorder import RECORDER, Recorder, Sink, now_ns

HEADER = TraceHeader(name="demo")


class FakeSource:
    """Holds operators given to `record` until it is drained."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.lost: dict[str, int] = {}
        self.pending: list[tuple[str, int]] = []
        self.signatures: list[Signature] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def record(self, *names: str) -> None:
        self.pending += [(name, now_ns()) for name in names]

    def drain(self, sink: Sink) -> dict[str, int]:
        self.calls.append("drain")
        ids = [sink.signature(make_signature(name)) for name, _ in self.pending]
        sink.extend(
            Kind.OPERATOR,
            {
                "name": Text(np.arange(len(self.pending)), [name for name, _ in self.pending]),
                "start_ns": np.array([start for _, start in self.pending], dtype=np.int64),
                "signature": np.array(ids, dtype=np.int32),
                "core": 0,
            },
        )
        self.pending = []
        lost, self.lost = self.lost, {}
        return lost


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def source(recorder: Recorder) -> FakeSource:
    source = FakeSource()
    recorder.add_source(source)
    return source


def names(trace: Any) -> list[str]:
    return trace.table(Kind.OPERATOR).strings("name")


def test_a_source_runs_only_while_a_recording_is_open(recorder: Recorder, source: FakeSource) -> None:
    recorder.pump()
    assert source.calls == []
    outer = recorder.open()
    inner = recorder.open()
    inner.close(HEADER)
    assert "stop" not in source.calls
    outer.close(HEADER)
    assert source.calls.count("start") == 1
    assert source.calls[-2:] == ["stop", "drain"]


def test_nested_recordings_each_see_their_own_interval(recorder: Recorder, source: FakeSource) -> None:
    outer = recorder.open()
    source.record("before")
    inner = recorder.open()
    source.record("inside")
    inside = inner.close(HEADER)
    source.record("after")
    whole = outer.close(HEADER)
    assert names(inside) == ["inside"]
    assert names(whole) == ["before", "inside", "after"]


def test_recordings_may_overlap_without_nesting(recorder: Recorder, source: FakeSource) -> None:
    first = recorder.open()
    source.record("a")
    second = recorder.open()
    source.record("b")
    ends_first = first.close(HEADER)
    source.record("c")
    assert names(ends_first) == ["a", "b"]
    assert names(second.close(HEADER)) == ["b", "c"]


def test_a_second_recording_does_not_see_the_first_ones_events(recorder: Recorder, source: FakeSource) -> None:
    first = recorder.open()
    source.record("a")
    assert names(first.close(HEADER)) == ["a"]
    second = recorder.open()
    source.record("b")
    trace = second.close(HEADER)
    assert names(trace) == ["b"]
    assert trace.signatures == (make_signature("b"),)
    assert trace.table(Kind.OPERATOR).column("signature").tolist() == [0]


def test_times_are_relative_to_the_recordings_start(recorder: Recorder) -> None:
    recording = recorder.open()
    recorder.emit(Kind.MARK, name="late", start_ns=recording.start_ns + 7)
    while now_ns() < recording.start_ns + 7:
        pass
    trace = recording.close(HEADER)
    assert rows(trace, Kind.MARK, "name", "start_ns") == [("late", 7)]
    assert trace.header.duration_ns >= 7


def test_an_event_that_began_before_the_recording_is_left_out(recorder: Recorder) -> None:
    recording = recorder.open()
    recorder.emit(Kind.STEP, name="step", start_ns=recording.start_ns - 1)
    recorder.emit(Kind.STEP, name="step", start_ns=recording.start_ns, index=4)
    assert rows(recording.close(HEADER), Kind.STEP, "index", "start_ns") == [(4, 0)]


def test_emit_without_a_recording_keeps_nothing(recorder: Recorder) -> None:
    recorder.emit(Kind.MARK, name="nobody listens")
    assert not recorder.active
    recording = recorder.open()
    assert recorder.active
    assert len(recording.close(HEADER)) == 0


def test_emit_numbers_signatures_graphs_and_stacks_given_as_objects(recorder: Recorder) -> None:
    graph, stack = GraphSpec("graph_0"), (Frame("a.py", 3, "f"),)
    recording = recorder.open()
    recorder.emit(Kind.COMPILE, name="f", graph=graph)
    recorder.emit(Kind.FALLBACK, name="aten::sort", signature=make_signature("aten::sort"), stack=stack)
    recorder.emit(Kind.FALLBACK, name="aten::sort", stack=())
    trace = recording.close(HEADER)
    assert (trace.graphs, trace.stacks) == ((graph,), (stack,))
    assert rows(trace, Kind.FALLBACK, "signature", "stack") == [(0, 0), (-1, -1)]


def test_a_signatures_own_graph_and_stack_follow_it_into_the_trace(recorder: Recorder) -> None:
    recording = recorder.open()
    recorder.emit(Kind.COMPILE, name="unused later", graph=GraphSpec("other"))
    recording.close(HEADER)
    recording = recorder.open()
    graph, stack = GraphSpec("graph_1"), (Frame("b.py", 9, "g"),)
    signature = Signature(
        "neuron::graph", graph=recorder._registry.graph(graph), stack=recorder._registry.stack(stack)
    )
    recorder.emit(Kind.OPERATOR, name="graph_1", signature=signature)
    trace = recording.close(HEADER)
    assert trace.graphs == (graph,)
    assert trace.stacks == (stack,)
    assert trace.signatures == (Signature("neuron::graph", graph=0, stack=0),)


def test_events_beyond_the_limit_are_counted_and_the_newest_are_the_ones_missing(
    recorder: Recorder, source: FakeSource
) -> None:
    recording = recorder.open(max_events=3)
    source.record("a", "b")
    recorder.pump()
    source.record("c", "d", "e")
    trace = recording.close(HEADER)
    assert names(trace) == ["a", "b", "c"]
    assert trace.header.dropped == {"more than 3 events": 2}


def test_a_flood_of_operators_leaves_room_for_emitted_events(recorder: Recorder, source: FakeSource) -> None:
    recording = recorder.open(max_events=2)
    source.record("a", "b", "c")
    recorder.pump()
    recorder.emit(Kind.GRAPH_BREAK, name="break", reason="print")
    assert rows(recording.close(HEADER), Kind.GRAPH_BREAK, "reason") == [("print",)]


def test_losses_of_a_source_are_added_up_per_reason(recorder: Recorder, source: FakeSource) -> None:
    recording = recorder.open()
    source.lost = {"ring full": 5}
    recorder.pump()
    source.lost = {"ring full": 2, "no such": 0}
    trace = recording.close(TraceHeader(dropped={"ring full": 1}))
    assert trace.header.dropped == {"ring full": 8}


def test_nothing_lost_leaves_dropped_empty(recorder: Recorder, source: FakeSource) -> None:
    source.lost = {}
    assert recorder.open().close(HEADER).header.dropped == {}


def test_a_source_added_during_a_recording_starts_at_once(recorder: Recorder) -> None:
    source = FakeSource()
    recording = recorder.open()
    recorder.add_source(source)
    recorder.add_source(source)
    source.record("a")
    assert names(recording.close(HEADER)) == ["a"]
    assert source.calls.count("start") == 1


def test_a_removed_source_is_drained_and_stopped(recorder: Recorder, source: FakeSource) -> None:
    recording = recorder.open()
    source.record("a")
    recorder.remove_source(source)
    assert source.calls == ["start", "stop", "drain"]
    assert names(recording.close(HEADER)) == ["a"]


class Failing(FakeSource):
    def __init__(self, method: str) -> None:
        super().__init__()
        setattr(self, method, self._fail)

    def _fail(self, *args: object) -> dict[str, int]:
        raise OSError("no such ring")


def test_a_source_that_cannot_start_leaves_the_others_stopped(recorder: Recorder, source: FakeSource) -> None:
    recorder.add_source(Failing("start"))
    with pytest.raises(OSError, match="no such ring"):
        recorder.open()
    assert source.calls == ["start", "stop"]
    assert not recorder.active


@pytest.mark.parametrize("method", ["stop", "drain"])
def test_a_source_that_fails_at_the_end_leaves_nothing_on(
    recorder: Recorder, source: FakeSource, method: str
) -> None:
    recorder.add_source(Failing(method))
    recording = recorder.open()
    with pytest.raises(OSError, match="no such ring"):
        recording.close(HEADER)
    assert "stop" in source.calls
    assert not recorder.active


def test_a_closed_recording_cannot_be_closed_again(recorder: Recorder) -> None:
    recording = recorder.open()
    recording.close(HEADER)
    with pytest.raises(RuntimeError, match="closed already"):
        recording.close(HEADER)


def test_counts_of_a_recording_in_progress(recorder: Recorder, source: FakeSource) -> None:
    recording = recorder.open()
    recorder.emit(Kind.GRAPH_BREAK, name="break")
    source.record("a", "b")
    recorder.pump()
    assert (len(recording), recording.count(Kind.GRAPH_BREAK), recording.count(Kind.COPY)) == (3, 1, 0)
    recording.close(HEADER)


def test_threads_that_emit_and_pump_lose_nothing(recorder: Recorder, source: FakeSource) -> None:
    recording = recorder.open()

    def work() -> None:
        for index in range(300):
            recorder.emit(Kind.STEP, name="step", index=index)
            recorder.pump()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = recording.close(HEADER)
    assert np.bincount(trace.table(Kind.STEP).column("index")).tolist() == [8] * 300


def test_a_forked_child_records_nothing_and_does_not_hang() -> None:
    recording = RECORDER.open()
    try:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            RECORDER.emit(Kind.MARK, name="child")
            os.write(write, b"active" if RECORDER.active else b"idle")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        os.close(write)
        assert os.read(read, 10) == b"idle"
        os.close(read)
    finally:
        assert len(recording.close(HEADER)) == 0


def test_the_origin_is_unix_time(recorder: Recorder) -> None:
    import time

    before = time.time_ns()
    trace = recorder.open().close(HEADER)
    assert before <= trace.header.origin_unix_ns <= time.time_ns()
