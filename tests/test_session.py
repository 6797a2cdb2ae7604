"""A profile around real work on the emulated device: intervals, errors, results, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import neuron_lab
from neuron_lab.errors import OutputError, UsageError
from neuron_lab.trace.events import Kind


@pytest.fixture(autouse=True)
def _device() -> None:
    neuron_lab.activate()


def op_names(profile: neuron_lab.Profile) -> list[str]:
    return profile.trace.table(Kind.OPERATOR).strings("name")


def strict_json(path: Path) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_a_profile_holds_the_operators_of_its_block_and_no_others() -> None:
    x = torch.ones(8, device="neuron")
    with neuron_lab.profile("block") as session:
        x.sin()
        x.cos()
    x.tan()
    assert op_names(session.profile) == ["aten::sin", "aten::cos"]
    assert session.profile.name == "block"


def test_nested_profiles_each_see_their_own_interval() -> None:
    x = torch.ones(8, device="neuron")
    with neuron_lab.profile() as outer:
        x.sin()
        with neuron_lab.profile() as inner:
            x.cos()
        x.tan()
    assert op_names(inner.profile) == ["aten::cos"]
    assert op_names(outer.profile) == ["aten::sin", "aten::cos", "aten::tan"]


def test_an_exception_passes_through_and_the_profile_names_it() -> None:
    x = torch.ones(8, device="neuron")
    session = neuron_lab.profile()
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117 (the block is what is profiled)
        with session:
            x.sin()
            _ = 1 / 0
    assert op_names(session.profile) == ["aten::sin"]
    assert session.profile.trace.header.error == "ZeroDivisionError: division by zero"
    assert "ZeroDivisionError" in repr(session.profile)


def test_a_decorated_function_is_profiled_at_each_call_under_its_name() -> None:
    @neuron_lab.profile()
    def work(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    x = torch.ones(8, device="neuron")
    assert torch.equal(work(x).cpu(), torch.ones(8).sin())
    assert neuron_lab.last_profile().name == "work"
    assert op_names(neuron_lab.last_profile()) == ["aten::sin"]


def test_the_result_before_the_end_is_an_error_that_says_when_it_exists() -> None:
    session = neuron_lab.profile()
    with session, pytest.raises(UsageError, match="has not ended yet"):
        _ = session.profile


def test_live_counters_end_at_the_figures_of_the_trace() -> None:
    x = torch.ones(8, 8, device="neuron")
    with neuron_lab.profile() as session:
        for _ in range(10):
            x = x @ x / 8
        x.argmax()
        during = session.live_counters()
    final, trace = session.live_counters(), session.profile.trace
    assert during.operators == 21
    assert (during.finished, final.finished) == (False, True)
    assert final.operators == len(trace.table(Kind.OPERATOR)) == 21
    assert final.fallbacks == len(trace.table(Kind.FALLBACK)) == 1
    assert final.eager_kernels == len(trace.table(Kind.EAGER_KERNEL))
    assert final.eager_kernels + final.eager_kernel_hits == session.profile.totals().kernels.runs
    assert final.core_busy is not None
    share = session.profile.totals().modelled.busy_share()
    assert share is not None
    assert final.core_busy == (share.low, share.high)


def test_a_second_profile_of_the_same_work_needs_no_new_kernels() -> None:
    x = torch.ones(5, 37, device="neuron")
    with neuron_lab.profile() as first:
        x.exp()
    with neuron_lab.profile() as second:
        x.exp()
    assert first.profile.totals().kernels.new == 1
    assert (second.profile.totals().kernels.new, second.profile.totals().kernels.hits) == (0, 1)


def test_kernels_run_before_any_profile_count_as_known() -> None:
    x = torch.ones(5, 41, device="neuron")
    x.sqrt()
    with neuron_lab.profile() as session:
        x.sqrt()
    assert session.profile.totals().kernels.new == 0


def test_a_saved_profile_loads_with_the_same_summary(tmp_path: Path) -> None:
    x = torch.ones(8, device="neuron")
    with neuron_lab.profile("kept") as session:
        x.sin().argmax()
    path = session.profile.save(tmp_path / "kept.neuron.parquet")
    assert repr(neuron_lab.load(path)) == repr(session.profile)


def test_two_profiles_share_one_perfetto_file(tmp_path: Path) -> None:
    x = torch.ones(8, device="neuron")
    with neuron_lab.profile("one") as one:
        x.sin()
    with neuron_lab.profile("two") as two:
        x.cos()
    written = two.profile.perfetto(tmp_path / "both.pftrace", also=[one.profile])
    data = written.path.read_bytes()
    assert b"aten::sin" in data
    assert b"aten::cos" in data


def test_an_unwritable_path_keeps_the_profile_and_says_so(tmp_path: Path) -> None:
    with neuron_lab.profile() as session:
        torch.ones(8, device="neuron").sin()
    with pytest.raises(OutputError, match=r"profile is kept"):
        session.profile.perfetto(tmp_path / "missing" / "run.pftrace")
    assert session.profile.perfetto(tmp_path / "run.pftrace").path.exists()


def test_another_suffix_is_refused_with_the_valid_ones(tmp_path: Path) -> None:
    with neuron_lab.profile() as session:
        torch.ones(8, device="neuron").sin()
    with pytest.raises(UsageError, match=r"\.pftrace, \.json, \.parquet"):
        session.profile.export(tmp_path / "run.txt")


def test_a_profile_without_a_device_says_how_to_get_one() -> None:
    code = "import neuron_lab\nwith neuron_lab.profile(): pass"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEURON_LAB_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "call neuron_lab.activate() first" in done.stderr.splitlines()[-1]


def test_a_child_process_inherits_the_device_and_may_profile_at_once() -> None:
    code = (
        "import neuron_lab\n"
        "with neuron_lab.profile() as session: pass\n"
        "print(session.profile.trace.header.device)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "emulated"


def test_a_saved_profile_opens_without_torch(tmp_path: Path) -> None:
    with neuron_lab.profile() as session:
        torch.ones(8, device="neuron").sin()
    path = session.profile.save(tmp_path / "run.neuron.parquet")
    code = f"import sys, neuron_lab; neuron_lab.load({str(path)!r}).summary(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_nothing_stays_armed_after_a_profile() -> None:
    import logging
    import threading

    before = list(logging.getLogger("torch.__trace").handlers)
    with neuron_lab.profile():
        torch.ones(8, device="neuron").sin()
    assert [thread.name for thread in threading.enumerate() if thread.name == "neuron_lab-drain"] == []
    assert logging.getLogger("torch.__trace").handlers == before


def test_stacks_say_which_line_ran_each_operator() -> None:
    x = torch.ones(8, device="neuron")
    x.sin()
    with neuron_lab.profile(stacks=True) as session:
        x.sin()
    table = session.profile.trace.table(Kind.OPERATOR)
    frame = session.profile.trace.stacks[int(table.column("stack")[0])][0]
    assert (Path(frame.file).name, frame.function.rpartition(".")[2]) == (
        "test_session.py",
        "test_stacks_say_which_line_ran_each_operator",
    )


def test_tr_1_names_survive_exactly(tmp_path: Path) -> None:
    name = r"C:\new\table\run_1"
    x = torch.ones(8, device="neuron")
    with neuron_lab.profile() as session, torch.profiler.record_function(name):
        x.sin()
    path = session.profile.chrome(tmp_path / "run.json").path
    ranges = [event for event in strict_json(path)["traceEvents"] if event.get("name") == name]
    assert len(ranges) == 1


def test_a_users_range_encloses_the_operators_in_it() -> None:
    x = torch.ones(8, device="neuron")
    with neuron_lab.profile() as session, torch.profiler.record_function("forward"):
        x.sin()
    marks, operators = session.profile.trace.table(Kind.MARK), session.profile.trace.table(Kind.OPERATOR)
    assert marks.strings("name") == ["forward"]
    start, end = int(marks.column("start_ns")[0]), int(marks.column("duration_ns")[0])
    assert start <= int(operators.column("start_ns")[0]) <= start + end
    assert marks.column("track")[0] == operators.column("track")[0]


@pytest.mark.slow
def test_tr_7_a_long_recording_stays_usable(tmp_path: Path) -> None:
    x = torch.ones(1, device="neuron")
    with neuron_lab.profile(stacks=True) as session:
        for _ in range(200_000):
            x.neg()
    profile = session.profile
    kept, dropped = len(profile.trace.table(Kind.OPERATOR)), sum(profile.trace.header.dropped.values())
    assert kept + dropped >= 200_000  # nothing is lost without a word
    assert profile.trace.size_bytes <= 150 * len(profile.trace)
    written = profile.chrome(tmp_path / "long.json")
    drawn = sum(1 for event in strict_json(written.path)["traceEvents"] if event.get("name") == "aten::neg")
    assert written.cut == {"operator": kept - 100_000} or drawn >= kept
    assert written.size_bytes <= 150_000_000
