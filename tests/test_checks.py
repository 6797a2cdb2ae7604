"""`neuron_lab.check` and `neuron-lab check`: verdict, counts, causes, advice, exit status, and bad input."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch

import neuron_lab
from neuron_lab.checks.report import CheckReport
from neuron_lab.checks.scripts import check_script
from neuron_lab.errors import UsageError


@pytest.fixture(autouse=True)
def _device() -> None:
    neuron_lab.activate()


class Quiet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


class Noisy(Quiet):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        print("seen by nobody")
        return y.relu()


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def written(tmp_path: Path, source: str) -> Path:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(source))
    return script


def test_a_module_without_problems_is_one_graph_and_exit_status_0() -> None:
    report = neuron_lab.check(Quiet(), [torch.ones(2, 8), torch.zeros(2, 8)])
    assert report.totals.kernels.graphs_compiled == 1
    assert (report.causes, report.exit_code, report.outcome.status) == ((), 0, "finished")
    assert report.text.startswith("Check of Quiet: predicted to run as it is")


def test_a_break_is_the_costliest_cause_with_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    report = neuron_lab.check(Noisy(), torch.ones(2, 8))
    (cause,) = report.causes
    assert (cause.kind, cause.count, cause.place) == (
        "graph break",
        1,
        f"{__file__}:{line_of('seen by nobody')}",
    )
    assert report.exit_code == 1
    assert "seen by nobody" in report.output
    assert capfd.readouterr().out == ""


def test_shapes_that_vary_give_the_advice_to_pad_and_to_keep_shapes_static() -> None:
    report = neuron_lab.check(Quiet(), [torch.ones(n, 8) for n in (2, 3, 4)])
    assert report.totals.compile.recompile_count == 2
    lines = [each.line for each in report.advice]
    assert lines[:2] == [
        "tokenizer(..., padding=True, pad_to_multiple_of=128)",
        "torch._dynamo.config.automatic_dynamic_shapes = False",
    ]
    assert "came in 3 sizes" in report.advice[0].reason


def test_a_fallback_is_a_cause_with_bytes_and_its_dated_source() -> None:
    report = neuron_lab.check(lambda x: torch.special.entr(x), torch.ones(4), compile=False)
    (cause,) = report.causes
    assert (cause.kind, cause.count) == ("fallback", 1)
    assert "aten::special_entr falls back per the April 2026 list, 32 bytes moved" in cause.what


def test_what_was_compiled_before_counts_again_and_nothing_of_the_callers_changes() -> None:
    model = Quiet()
    x = torch.ones(2, 8)
    first = neuron_lab.check(model, x)
    second = neuron_lab.check(model, x)
    assert first.totals.kernels.graphs_compiled == second.totals.kernels.graphs_compiled == 1
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}


def test_the_users_exception_is_reported_with_its_line_and_what_was_counted() -> None:
    def fails(x: torch.Tensor) -> None:
        x.sin()
        raise ValueError("bad batch")  # here

    report = neuron_lab.check(fails, torch.ones(4), compile=False)
    assert (report.outcome.status, report.outcome.detail) == ("raised", "ValueError: bad batch")
    assert report.outcome.place == f"{__file__}:{line_of('# here')}"
    assert report.totals.kernels.distinct == 1
    assert report.exit_code == 3


def test_a_hang_ends_at_the_time_limit_and_names_the_line() -> None:
    def hangs(x: torch.Tensor) -> None:
        x.sin()
        threading.Event().wait()  # for ever

    report = neuron_lab.check(hangs, torch.ones(4), compile=False, timeout_s=0.5)
    assert (report.outcome.status, report.exit_code) == ("timeout", 4)
    assert report.outcome.place == f"{__file__}:{line_of('# for ever')}"
    assert report.totals.kernels.distinct == 1


def test_a_process_that_dies_is_told_by_its_signal() -> None:
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    report = neuron_lab.check(dies, [()], compile=False)
    assert report.outcome.detail == "the process was ended by signal SIGKILL"
    assert (report.profile, report.exit_code) == (None, 3)


@pytest.mark.parametrize(
    ("target", "examples", "message"),
    [
        (3, torch.ones(1), "check needs a module or a function to call, got int"),
        (Quiet(), None, "check needs examples to call it with"),
        (Quiet(), [], "check needs examples to call it with"),
    ],
)
def test_bad_input_is_one_sentence(target: object, examples: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        neuron_lab.check(target, examples)


def test_a_time_limit_must_be_positive() -> None:
    with pytest.raises(UsageError, match="more than 0 seconds, got 0"):
        neuron_lab.check(Quiet(), torch.ones(2, 8), timeout_s=0)


def test_inside_a_profile_is_refused() -> None:
    with neuron_lab.profile(), pytest.raises(UsageError, match="inside a profile"):
        neuron_lab.check(Quiet(), torch.ones(2, 8))


def test_logging_and_dynamo_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "recompiles")
    config = torch._dynamo.config.save_config()
    handlers = {name: list(logging.getLogger(name).handlers) for name in ("torch.__trace", "torch", "")}
    neuron_lab.check(Noisy(), [torch.ones(n, 8) for n in (2, 3)])
    assert torch._dynamo.config.save_config() == config
    assert {name: list(logging.getLogger(name).handlers) for name in handlers} == handlers
    assert os.environ["TORCH_LOGS"] == "recompiles"


def test_an_interrupt_ends_the_child_and_passes_through() -> None:
    def interrupts_its_parent() -> None:
        os.kill(os.getppid(), signal.SIGINT)
        threading.Event().wait()

    before = children()
    with pytest.raises(KeyboardInterrupt):
        neuron_lab.check(interrupts_its_parent, [()], compile=False)
    assert children() == before


def children() -> set[str]:
    """Process ids whose parent is this process, ended ones that nobody waited for included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(stat.parent.name)
    return found


SCRIPT = """
    import sys, torch
    def f(x):
        y = x + 1
        print("arguments", *sys.argv[1:])
        return y * 2
    torch.compile(f, backend="neuron")(torch.ones(4, device="neuron"))
"""


def test_a_script_is_run_with_its_arguments_and_reported(tmp_path: Path) -> None:
    script = written(tmp_path, SCRIPT)
    command = [sys.executable, "-m", "neuron_lab", "check", str(script), "one", "--two"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0] == "arguments one --two"
    assert f"1. graph break × 1, compiling: 1 to 30 s at {script}:5" in done.stdout
    assert len(done.stdout.splitlines()) < 40


def test_a_script_that_raises_shows_its_own_traceback(tmp_path: Path) -> None:
    script = written(tmp_path, "import torch\ntorch.ones(3, device='neuron').sin()\n1 / 0\n")
    command = [sys.executable, "-m", "neuron_lab", "check", str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.splitlines()[:2] == [
        "Traceback (most recent call last):",
        f'  File "{script}", line 3, in <module>',
    ]
    assert f"does not run: ZeroDivisionError: division by zero at {script}:3" in done.stdout


def test_a_script_out_of_time_keeps_its_partial_report(tmp_path: Path) -> None:
    script = written(tmp_path, "import torch\ntorch.ones(3, device='neuron').sin()\nwhile True: pass\n")
    report: CheckReport = check_script(script, timeout_s=5)
    assert (report.outcome.status, report.outcome.place) == ("timeout", f"{script}:3")
    assert report.totals.kernels.distinct >= 1


def test_a_script_that_exits_with_a_status_has_not_ended_well(tmp_path: Path) -> None:
    report = check_script(written(tmp_path, "raise SystemExit(7)\n"))
    assert (report.outcome.status, report.outcome.detail, report.exit_code) == ("exited", "exit status 7", 3)


def test_a_missing_script_is_wrong_use(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "neuron_lab", "check", str(tmp_path / "none.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("neuron-lab: no script ")


def test_gradients_in_a_process_that_has_computed_some_are_refused_with_the_way_out() -> None:
    torch.ones(3, device="neuron", requires_grad=True).sum().backward()

    def trains(x: torch.Tensor) -> None:
        x.requires_grad_().sum().backward()

    with pytest.raises(UsageError, match="check in a fresh kernel before training"):
        neuron_lab.check(trains, torch.ones(3), compile=False, timeout_s=60)
    assert neuron_lab.check(lambda x: x + 1, torch.ones(3), compile=False).exit_code == 0
