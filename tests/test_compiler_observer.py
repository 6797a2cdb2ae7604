"""The observer against the real TorchDynamo, with backends that need no device."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator

import pytest
import torch
from builders import rows

import neuron_lab.compiler.dynamo_internals as dynamo_internals
from neuron_lab.compiler.observer import CompileCounts, CompileObserver
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.recorder import Recorder
from neuron_lab.trace.table import Trace

BREAK_PLACE = ("place", "cell", "source", "reason")


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def observer() -> CompileObserver:
    made = CompileObserver()
    made.cell_of = lambda file: "In [5]" if file == __file__ else None
    return made


def observe(observer: CompileObserver, body: Callable[[], object]) -> Trace:
    recorder = Recorder()
    recorder.add_source(observer)
    recording = recorder.open()
    try:
        body()
    finally:
        trace = recording.close(TraceHeader())
    return trace


def line_of(function: Callable[..., object], text: str) -> int:
    source, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(source) if text in line)


class Printing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("dbg")
        return y * 2


class CallsThreeTimes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Printing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.inner(self.inner(x)))


def scale(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k


def prints_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x + 1
        print("in the loop")
    return x


def branches_on_data(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def breaks_counted_by_torch() -> int:
    return sum(dynamo_internals.break_counters().values())


def test_cp_1_a_break_report_one_can_act_on(observer: CompileObserver) -> None:
    before = breaks_counted_by_torch()
    trace = observe(observer, lambda: torch.compile(CallsThreeTimes(), backend="eager")(torch.ones(3)))
    line = line_of(Printing.forward, "print(")
    places = rows(trace, Kind.GRAPH_BREAK, *BREAK_PLACE)
    assert set(places) == {
        (
            f"{__file__}:{line}",
            f"In [5], line {line}",
            'print("dbg")',
            (
                "`print` writes to the screen, which a graph cannot do; "
                "remove it, or run it only when `torch.compiler.is_compiling()` is False"
            ),
        )
    }
    assert len(places) == breaks_counted_by_torch() - before == 4


def test_cp_2_recompiles_up_to_the_limit(observer: CompileObserver) -> None:
    compiled = torch.compile(scale, backend="eager", dynamic=False)
    x = torch.ones(3)

    def body() -> None:
        for k in range(2, 14):
            assert compiled(x, k).tolist() == [float(k)] * 3

    trace = observe(observer, body)
    assert len(trace.table(Kind.COMPILE)) == 8
    told = rows(trace, Kind.RECOMPILE, "name", "variable", "old", "new", "limit_reached")
    assert told[:7] == [("scale", "k", str(k - 1), str(k), False) for k in range(3, 10)]
    assert told[7:] == [("scale", "k", "9", str(k), True) for k in range(10, 14)]
    assert trace.table(Kind.RECOMPILE).strings("reason")[0] == (
        "`k` is 3, was 2; pass `k` as a tensor, or keep it the same"
    )
    assert trace.table(Kind.RECOMPILE).strings("reason")[-1] == (
        "`k` is 13, was 9; the limit of 8 compiled versions is reached, so this call ran uncompiled; "
        "pass `k` as a tensor, or keep it the same"
    )
    assert observer.counts() == CompileCounts(compiles=8, graph_breaks=0, recompiles=7, uncompiled_calls=4)


def test_a_call_that_still_fits_a_compiled_version_after_the_limit_is_not_counted(
    observer: CompileObserver,
) -> None:
    compiled = torch.compile(scale, backend="eager", dynamic=False)
    x = torch.ones(3)

    def body() -> None:
        for k in (*range(2, 11), 4, 5):
            compiled(x, k)

    observe(observer, body)
    assert observer.counts().uncompiled_calls == 1


def test_a_reached_limit_of_a_module_counts_its_uncompiled_calls(observer: CompileObserver) -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
            return x * k

    compiled = torch.compile(Scale(), backend="eager", dynamic=False)

    def body() -> None:
        for k in range(2, 13):
            compiled(torch.ones(2), k)

    observe(observer, body)
    assert observer.counts().uncompiled_calls == 3


def test_a_break_in_a_loop_is_reported_although_the_function_is_skipped(observer: CompileObserver) -> None:
    before = breaks_counted_by_torch()
    trace = observe(observer, lambda: torch.compile(prints_in_a_loop, backend="eager")(torch.ones(3)))
    line = line_of(prints_in_a_loop, "print(")
    places = rows(trace, Kind.GRAPH_BREAK, *BREAK_PLACE)
    assert set(places) == {
        (
            f"{__file__}:{line}",
            f"In [5], line {line}",
            'print("in the loop")',
            (
                "`print` writes to the screen, which a graph cannot do; it is inside a loop, where a graph "
                "cannot be resumed, so the whole function runs uncompiled; "
                "remove it, or run it only when `torch.compiler.is_compiling()` is False"
            ),
        )
    }
    assert len(places) == breaks_counted_by_torch() - before == 2  # torch counts the cause and the skip
    assert len(trace.table(Kind.COMPILE)) == 0


def test_a_branch_on_a_tensors_value_is_a_break(observer: CompileObserver) -> None:
    trace = observe(observer, lambda: torch.compile(branches_on_data, backend="eager")(torch.ones(3)))
    line = line_of(branches_on_data, "if x.sum()")
    assert rows(trace, Kind.GRAPH_BREAK, "cell", "source", "break_id") == [
        (f"In [5], line {line}", "if x.sum() > 0:", "gb0170")
    ]


def test_the_second_shape_is_a_recompile_that_names_the_dimension(observer: CompileObserver) -> None:
    compiled = torch.compile(scale, backend="eager")

    def body() -> None:
        compiled(torch.ones(2), 2)
        compiled(torch.ones(3), 2)

    trace = observe(observer, body)
    assert rows(trace, Kind.RECOMPILE, "variable", "old", "new", "reason") == [
        ("x", "2", "3", "`x` has size 3 in dimension 0, was 2; pad or bucket it to a few fixed shapes")
    ]
    assert trace.table(Kind.RECOMPILE).column("duration_ns")[0] > 0


def test_an_error_with_fullgraph_is_counted_with_its_place(observer: CompileObserver) -> None:
    compiled = torch.compile(Printing(), backend="eager", fullgraph=True)

    def body() -> None:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(torch.ones(3))

    trace = observe(observer, body)
    line = line_of(Printing.forward, "print(")
    assert rows(trace, Kind.GRAPH_BREAK, "cell") == [(f"In [5], line {line}",)]


def test_a_compile_event_says_what_was_compiled_and_how_long_it_took(observer: CompileObserver) -> None:
    trace = observe(observer, lambda: torch.compile(scale, backend="eager")(torch.ones(3), 2))
    line = line_of(scale, "def scale")
    assert rows(trace, Kind.COMPILE, "name", "place", "cell", "node_count", "graph") == [
        ("scale", f"{__file__}:{line}", f"In [5], line {line}", 1, -1)
    ]
    assert trace.table(Kind.COMPILE).column("duration_ns")[0] > 1_000_000


def test_nothing_is_left_behind_after_disarming(observer: CompileObserver) -> None:
    from torch._dynamo import eval_frame

    original = eval_frame._callback_from_stance
    handlers = list(logging.getLogger("torch.__trace").handlers)
    compiled = torch.compile(scale, backend="eager", dynamic=False)

    def body() -> None:
        for k in range(2, 13):
            compiled(torch.ones(3), k)

    observe(observer, body)
    assert [type(h) for h in logging.getLogger("torch.__trace").handlers if h not in handlers] == []
    assert eval_frame._callback_from_stance is original


def test_what_happens_while_disarmed_is_not_reported(observer: CompileObserver) -> None:
    torch.compile(branches_on_data, backend="eager")(torch.ones(3))
    trace = observe(observer, lambda: torch.compile(scale, backend="eager")(torch.ones(3), 2))
    assert len(trace.table(Kind.GRAPH_BREAK)) == 0
    assert trace.table(Kind.COMPILE).strings("name") == ["scale"]


def test_breaks_are_still_counted_when_the_trace_says_nothing(
    observer: CompileObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamo_internals, "GRAPH_BREAK_ARTIFACT", "renamed in a later torch")
    trace = observe(observer, lambda: torch.compile(branches_on_data, backend="eager")(torch.ones(3)))
    assert rows(trace, Kind.GRAPH_BREAK, "place", "break_id") == [("", "gb0170")]
    assert observer.notices == [
        (
            f"torch {torch.__version__} no longer has the record of graph breaks: "
            "breaks are counted, but some may have no place"
        )
    ]


def test_a_record_that_cannot_be_read_does_not_reach_the_users_call(
    observer: CompileObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(text: str) -> list[object]:
        raise ValueError("unexpected text")

    monkeypatch.setattr("neuron_lab.compiler.observer.break_stack", fails)
    trace = observe(observer, lambda: torch.compile(branches_on_data, backend="eager")(torch.ones(3)))
    assert len(trace.table(Kind.GRAPH_BREAK)) == 1
    assert observer.notices == [
        "a compiler record could not be read (ValueError: unexpected text): details may be missing"
    ]


def test_counters_are_none_yet_while_another_thread_imports_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", types.ModuleType("torch._dynamo.utils"))
    assert dynamo_internals.break_counters() == {}


def test_counters_cleared_in_between_do_not_lose_breaks(observer: CompileObserver) -> None:
    def body() -> None:
        torch.compile(branches_on_data, backend="eager")(torch.ones(3))
        torch._dynamo.utils.counters.clear()
        torch.compile(Printing(), backend="eager")(torch.ones(3))

    trace = observe(observer, body)
    assert trace.table(Kind.GRAPH_BREAK).strings("break_id") == ["gb0170", "gb0059"]


def test_a_live_view_may_pump_while_another_thread_compiles(observer: CompileObserver) -> None:
    recorder = Recorder()
    recorder.add_source(observer)
    recording = recorder.open()
    done = threading.Event()

    def compile_a_few() -> None:
        compiled = torch.compile(scale, backend="eager", dynamic=False)
        for k in range(2, 6):
            compiled(torch.ones(3), k)
        done.set()

    worker = threading.Thread(target=compile_a_few)
    worker.start()
    while not done.is_set():
        recorder.pump()
        done.wait(0.001)
    worker.join()
    assert len(recording.close(TraceHeader()).table(Kind.COMPILE)) == 4


def test_arming_does_not_import_dynamo() -> None:
    script = (
        "import sys, torch\n"
        "from neuron_lab.compiler.observer import OBSERVER\n"
        "from neuron_lab.trace.recorder import RECORDER\n"
        "from neuron_lab.trace.events import TraceHeader\n"
        "RECORDER.add_source(OBSERVER)\n"
        "RECORDER.open().close(TraceHeader())\n"
        "sys.exit('torch._dynamo.convert_frame' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
