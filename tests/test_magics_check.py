"""`%neuron_check` in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from notebook_kernel import NotebookKernel, kernel_environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    base = tmp_path_factory.mktemp("kernel")
    kernel = NotebookKernel(base, kernel_environment(base))
    assert kernel.run("%load_ext neuron_lab\nimport torch, neuron_lab\nx = torch.ones(4, device='neuron')").ok
    yield kernel
    kernel.close()


def test_a_statement_is_checked_and_its_cell_named(kernel: NotebookKernel) -> None:
    defined = kernel.run("@torch.compile\ndef noisy(x):\n    y = x + 1\n    print('seen')\n    return y * 2")
    cell = kernel.run("%neuron_check noisy(x)")
    assert cell.ok, cell.reply
    number = defined.reply["execution_count"]
    assert f"1. graph break × 1, compiling: 1 to 30 s at In [{number}], line 4  print('seen')" in cell.result
    assert cell.stream("stdout") == ""


def test_the_statement_changes_nothing_here(kernel: NotebookKernel) -> None:
    assert kernel.run("value = 1").ok
    assert kernel.run("%neuron_check value = 2; x.zero_();").ok
    assert kernel.ask("[value, x.sum().item()]") == [1, 4.0]


def test_the_kernel_goes_on_after_a_check_that_raises(kernel: NotebookKernel) -> None:
    cell = kernel.run("report = %neuron_check 1 / 0\nreport.outcome.detail")
    assert cell.result == "'ZeroDivisionError: division by zero'"
    assert kernel.run("1 + 1").result == "2"


def test_an_interrupt_ends_the_check_and_leaves_a_working_kernel(kernel: NotebookKernel) -> None:
    source = "print('begun', flush=True)\n%neuron_check __import__('threading').Event().wait()"
    assert kernel.run(source, interrupt_at="begun").error == "KeyboardInterrupt"
    assert kernel.run("x.sum().item()").result == "4.0"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "nothing to check"),
        ("--timeout soon noisy(x)", "--timeout needs a number of seconds, got 'soon'"),
        ("--timeout 0 noisy(x)", "the time limit must be more than 0 seconds, got 0.0"),
    ],
)
def test_wrong_use_is_one_line(kernel: NotebookKernel, line: str, message: str) -> None:
    cell = kernel.run(f"%neuron_check {line}")
    assert cell.error == "UsageError"
    assert message in cell.reply["evalue"]
