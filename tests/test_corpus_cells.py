"""In a real kernel, breaks are named by cell and line: re-run cells, other cells, modules, exec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, kernel_environment

pytestmark = pytest.mark.slow

DEFINE = "def noisy(x):\n    y = x + 1\n    print('seen')\n    return y * 2"
RUN = "%%neuron_profile\n\ntorch._dynamo.reset()\ntorch.compile({call})(torch.ones(2, device='neuron'))"
PLACES = (
    "[(b.cell, b.place.rpartition('/')[2], b.source, b.count) "
    "for b in neuron_lab.last_profile().totals().compile.breaks]"
)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    base = tmp_path_factory.mktemp("kernel")
    kernel = NotebookKernel(base, kernel_environment(base))
    assert kernel.run("%load_ext neuron_lab\nimport torch, neuron_lab").ok
    yield kernel
    kernel.close()
    assert base.is_dir()


def breaks_of(kernel: NotebookKernel, call: str) -> list[list[object]]:
    cell = kernel.run(RUN.format(call=call))
    assert cell.ok, cell.reply
    return kernel.ask(PLACES)


def run(kernel: NotebookKernel, source: str) -> int:
    """The number the notebook shows for the cell."""
    cell = kernel.run(source)
    assert cell.ok, cell.reply
    return int(cell.reply["execution_count"])


def test_a_function_of_an_earlier_cell(kernel: NotebookKernel) -> None:
    number = run(kernel, DEFINE)
    ((cell, _, source, count),) = breaks_of(kernel, "noisy")
    assert (cell, source, count) == (f"In [{number}], line 3", "print('seen')", 1)


def test_a_cell_that_was_run_again_has_its_new_number(kernel: NotebookKernel) -> None:
    first = run(kernel, DEFINE)
    again = run(kernel, DEFINE)
    assert again > first
    ((cell, _, _, _),) = breaks_of(kernel, "noisy")
    assert cell == f"In [{again}], line 3"


def test_an_edited_cell_is_named_by_its_new_lines(kernel: NotebookKernel) -> None:
    run(kernel, DEFINE)
    number = run(kernel, "# a line more\n" + DEFINE)
    ((cell, _, source, _),) = breaks_of(kernel, "noisy")
    assert (cell, source) == (f"In [{number}], line 4", "print('seen')")


def test_the_running_cell_counts_the_magics_line(kernel: NotebookKernel) -> None:
    cell = kernel.run(
        "%%neuron_profile\ntorch._dynamo.reset()\n@torch.compile\ndef here(x):\n    y = x + 1\n"
        "    print('here')\n    return y\nhere(torch.ones(2, device='neuron'))"
    )
    assert cell.ok, cell.reply
    ((label, _, source, _),) = kernel.ask(PLACES)
    assert (label, source) == (f"In [{cell.reply['execution_count']}], line 6", "print('here')")


def test_an_imported_module_is_named_by_its_file(kernel: NotebookKernel) -> None:
    run(
        kernel,
        f"from pathlib import Path\nPath('helper_module.py').write_text({DEFINE!r})\nimport helper_module",
    )
    ((cell, place, source, _),) = breaks_of(kernel, "helper_module.noisy")
    assert (cell, place, source) == ("", "helper_module.py:3", "print('seen')")
    assert Path(kernel.ask("helper_module.__file__")).name == "helper_module.py"


def test_code_of_exec_is_named_by_its_line(kernel: NotebookKernel) -> None:
    run(kernel, f"exec({DEFINE!r})")
    ((cell, place, _, _),) = breaks_of(kernel, "noisy")
    assert (cell, place) == ("", "<string>:3")


def test_exec_under_a_name_of_its_own(kernel: NotebookKernel) -> None:
    run(kernel, f"exec(compile({DEFINE!r}, '<made here>', 'exec'))")
    ((cell, place, _, _),) = breaks_of(kernel, "noisy")
    assert (cell, place) == ("", "<made here>:3")
