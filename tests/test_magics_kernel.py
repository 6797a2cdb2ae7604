"""`%nki` and `%%nki` in a real kernel, and `import nki` while the device is active."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from notebook_kernel import NotebookKernel, kernel_environment

pytestmark = pytest.mark.slow

KERNEL = """import numpy as np, nki, nki.isa as nisa, nki.language as nl
@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
    nl.store(out, tile)
    return out
x = np.ones((128, 64), np.float32)"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    base = tmp_path_factory.mktemp("kernel")
    kernel = NotebookKernel(base, kernel_environment(base))
    assert kernel.run("%load_ext neuron_lab").ok
    yield kernel
    kernel.close()


def test_a_cell_defines_a_kernel_and_shows_its_profile(kernel: NotebookKernel) -> None:
    cell = kernel.run(f"%%nki doubled(x)\n{KERNEL}")
    assert cell.ok
    (shown,) = cell.outputs
    assert shown["text/plain"].startswith("Kernel doubled: trn2")
    assert "dma_copy, cell line 6" in shown["text/plain"]
    assert "<svg" in shown["text/html"]


def test_a_line_gives_the_profile_as_its_value(kernel: NotebookKernel) -> None:
    kernel.run(KERNEL)
    assert (kernel.run("p = %nki doubled(x)\np").result or "").startswith("Kernel doubled: trn2")


def test_a_kernel_that_raises_fails_the_cell_and_shows_what_ran(kernel: NotebookKernel) -> None:
    cell = kernel.run(
        f"%%nki wrong(x)\n{KERNEL}\ndef wrong(x):\n    nl.load(x)\n    nl.ndarray((256, 1), nl.float32)"
    )
    assert not cell.ok or cell.of_type("error")
    assert "! ended by NkiValidationError" in cell.outputs[0]["text/plain"]


def test_a_line_that_is_no_call_runs_nothing(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%nki doubled\nran = True")
    assert cell.error == "UsageError"
    assert kernel.ask("'ran' in globals()") is False


def test_unloading_removes_the_magic_and_the_name_nki(kernel: NotebookKernel) -> None:
    kernel.run("%unload_ext neuron_lab")
    assert kernel.ask("'nki' in get_ipython().magics_manager.magics['cell']") is False
    assert kernel.run("import sys; sys.modules.pop('nki', None); import nki").error == "ModuleNotFoundError"
    assert kernel.run("%load_ext neuron_lab\nimport nki").ok
