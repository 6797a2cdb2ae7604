"""Packed records become columns. The core is replaced by given records, so every value is exact."""

import os
import warnings

import numpy as np
import pytest

from neuron_lab.device import graphs, source
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TensorSpec, TraceHeader
from neuron_lab.trace.recorder import Recorder, now_ns

USER = ("/home/me/model.py", 7, "forward")
TORCH = ("/env/site-packages/torch/nn/functional.py", 99, "linear")


class FakeCore:
    """What `CoreSource` asks of the core, answered from lists."""

    def __init__(self, clock):
        self.clock = clock
        self.records = []
        self.running = False
        self.dropped = 0
        self.op_names = ["aten::mm", "aten::argmax", "graph_0"]
        self.signature_rows = [
            (0, [("float32", (2, 3)), ("float32", (3, 4))], [("float32", (2, 4))], "", True, 0),
            (1, [("float32", (2, 4))], [("int64", (2,))], "1, False", False, -1),
        ]
        self.stack_rows = [[TORCH, USER]]
        self.fallbacks = []

    def recorder_dtype(self):
        return [
            ("start_ns", "<i8"),
            ("end_ns", "<i8"),
            ("correlation", "<u8"),
            ("value0", "<i8"),
            ("value1", "<i8"),
            ("signature", "<u4"),
            ("thread", "<u4"),
            ("stack", "<u4"),
            ("kind", "u1"),
            ("flags", "u1"),
            ("core", "<i2"),
            ("stream", "<i2"),
        ]

    def recorder_start(self, stacks=False, capacity=0):
        self.running = True

    def recorder_stop(self):
        self.running = False

    def recorder_drain(self):
        records, self.records = self.records, []
        return np.array(records, dtype=self.recorder_dtype()).tobytes()

    def recorder_dropped(self):
        return self.dropped

    def ops(self):
        return self.op_names

    def signatures(self, first):
        return self.signature_rows[first:]

    def stacks(self, first):
        return self.stack_rows[first:]

    def new_fallbacks(self):
        fallbacks, self.fallbacks = self.fallbacks, []
        return fallbacks

    def intern_graph(self, name, node_count):
        self.signature_rows.append((2, [], [], "", True, -1))
        return len(self.signature_rows) - 1

    def record(self, kind, *, signature=0xFFFFFFFF, flags=0, value0=0, value1=0, stack=0xFFFFFFFF, core=0):
        start, number = self.clock(), len(self.records) + 1
        self.records.append(
            (
                start,
                start + 500,
                number,
                value0,
                value1,
                signature,
                41,
                stack,
                kind,
                flags,
                core,
                0,
            )
        )


@pytest.fixture
def core(monkeypatch):
    fake = FakeCore(now_ns)
    monkeypatch.setattr(source, "load_core", lambda: fake)
    monkeypatch.setattr(graphs, "load_core", lambda: fake)
    monkeypatch.setattr(graphs, "_SPECS", {})
    return fake


def profiled(core, body):
    """The trace of what `body` makes the core record."""
    recorder = Recorder()
    recorder.add_source(source.CoreSource())
    recording = recorder.open()
    body(core)
    return recording.close(TraceHeader())


def test_an_operator_becomes_a_row_with_its_signature(core):
    trace = profiled(core, lambda core: core.record(source.OPERATOR, signature=0))
    table = trace.table(Kind.OPERATOR)
    assert table.strings("name") == ["aten::mm"]
    assert table.column("duration_ns").tolist() == [500]
    assert table.column("track").tolist() == [41]
    assert table.column("core").tolist() == [0]
    assert table.column("correlation").tolist() == [1]
    assert trace.signatures[table.column("signature")[0]] == Signature(
        op="aten::mm",
        inputs=(TensorSpec("float32", (2, 3)), TensorSpec("float32", (3, 4))),
        outputs=(TensorSpec("float32", (2, 4)),),
        stack=0,
    )
    assert trace.stacks == ((Frame(*TORCH), Frame(*USER)),)


def test_an_operator_that_raised_is_unfinished(core):
    trace = profiled(core, lambda core: core.record(source.OPERATOR, signature=0, flags=source.RAISED))
    assert trace.table(Kind.OPERATOR).column("duration_ns").tolist() == [-1]


def test_a_new_kernel_is_also_an_eager_kernel_at_the_users_line(core):
    trace = profiled(core, lambda core: core.record(source.OPERATOR, signature=0, flags=source.NEW_KERNEL))
    table = trace.table(Kind.EAGER_KERNEL)
    assert table.strings("name") == ["aten::mm"]
    assert table.strings("place") == ["/home/me/model.py:7"]
    assert len(trace.table(Kind.OPERATOR)) == 1


def test_a_fallback_has_bytes_and_the_dated_reason(core):
    trace = profiled(
        core, lambda core: core.record(source.OPERATOR, signature=1, flags=source.FALLBACK, value0=96)
    )
    table = trace.table(Kind.FALLBACK)
    assert table.strings("name") == ["aten::argmax"]
    assert table.strings("reason") == ["falls back per the April 2026 list"]
    assert table.column("size_bytes").tolist() == [96]


def test_copies_name_their_direction(core):
    def body(core):
        for kind in (source.COPY_H2D, source.COPY_D2H, source.COPY_D2D):
            core.record(kind, value0=kind * 10)

    table = profiled(core, body).table(Kind.COPY)
    assert table.strings("direction") == ["h2d", "d2h", "d2d"]
    assert table.column("size_bytes").tolist() == [10, 20, 30]


def test_memory_rows_carry_the_level_after_them(core):
    def body(core):
        core.record(source.ALLOC, value0=512, value1=512, core=1)
        core.record(source.FREE, value0=512, value1=0, core=1)

    trace = profiled(core, body)
    assert trace.table(Kind.ALLOC).column("allocated_bytes").tolist() == [512]
    assert trace.table(Kind.FREE).column("allocated_bytes").tolist() == [0]
    assert trace.table(Kind.FREE).column("core").tolist() == [1]


def test_a_compiled_graph_is_an_operator_with_its_description(core):
    spec = GraphSpec("model_0_inference_0", (Signature("aten::mm"),))

    def body(core):
        core.record(source.GRAPH, signature=graphs.intern(spec))

    trace = profiled(core, body)
    table = trace.table(Kind.OPERATOR)
    signature = trace.signatures[table.column("signature")[0]]
    assert table.strings("name") == ["model_0_inference_0"]
    assert (signature.op, trace.graphs[signature.graph]) == ("neuron::graph", spec)


def test_signatures_that_appear_between_drains_are_learnt(core):
    recorder = Recorder()
    recorder.add_source(source.CoreSource())
    recording = recorder.open()
    core.record(source.OPERATOR, signature=0)
    recorder.pump()
    core.signature_rows.append((1, [("float32", (8, 4))], [("int64", (8,))], "1, False", False, -1))
    core.record(source.OPERATOR, signature=2)
    trace = recording.close(TraceHeader())
    table = trace.table(Kind.OPERATOR)
    shapes = [trace.signatures[index].inputs[0].shape for index in table.column("signature")]
    assert shapes == [(2, 3), (8, 4)]


def test_lost_records_are_counted_in_the_header(core):
    def body(core):
        core.dropped = 3
        core.record(source.OPERATOR, signature=0)

    assert profiled(core, body).header.dropped == {"the device recorder's buffers were full": 3}


def test_the_core_records_only_while_a_profile_is_open(core):
    states = []
    profiled(core, lambda core: states.append(core.running))
    assert states == [True]
    assert core.running is False


def test_one_warning_for_each_fallback_operator(core):
    def body(core):
        core.fallbacks = ["aten::argmax"]

    with pytest.warns(source.HostFallbackWarning, match="aten::argmax falls back per the April 2026 list"):
        profiled(core, body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiled(core, lambda core: None)


SITE = f"{os.sep}env{os.sep}lib{os.sep}site-packages{os.sep}"
MODEL = (f"{SITE}transformers{os.sep}cache_utils.py", 119, "update")
CELL = ("/tmp/ipykernel_1/7.py", 2, "<module>")


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([], ""),
        ([CELL], "In [6], line 2"),
        ([MODEL, CELL], f"In [6], line 2 (transformers{os.sep}cache_utils.py:119)"),
        ([(f"{SITE}torch{os.sep}nn.py", 1, "f"), CELL], "In [6], line 2"),
        ([MODEL], f"{MODEL[0]}:119"),
        (
            [(source.__file__, 5, "wrapper"), MODEL, CELL],
            f"In [6], line 2 (transformers{os.sep}cache_utils.py:119)",
        ),
    ],
)
def test_a_place_is_the_users_line_and_the_library_line_that_ran_the_operator(frames, place):
    cells = {CELL[0]: "In [6]"}
    assert source.place_of(frames, cells.get) == place
