"""`nki.profile`: what it shows, what it exports, and what remains when the kernel raises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_lab import nki
from neuron_lab.errors import UsageError
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl

X = np.arange(256 * 512, dtype=np.float32).reshape(256, 512) / 1e5


def doubled(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], 128):
        tile = nl.load(x[row : row + 128])
        nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
        nl.store(out[row : row + 128], tile)
    return out


def test_the_profile_has_the_result_of_the_kernel() -> None:
    np.testing.assert_array_equal(nki.profile(doubled)(X).result, 2 * X)


def test_the_text_names_time_bound_and_lines() -> None:
    text = nki.profile(doubled)(X).text
    assert text.startswith("Kernel doubled: trn2, modelled from a run on CPU")
    assert re.search(r"time +[\d.]+ µs – [\d.]+ µs +\[modelled\]", text)
    assert "instructions  6  [counted]" in text
    line = doubled.__code__.co_firstlineno + 3
    assert f"dma_copy, test_kernel_profile.py:{line}" in text


def test_the_trace_has_a_row_per_instruction_with_its_line() -> None:
    trace = nki.profile(doubled)(X).trace
    assert (len(trace.table("engine_slice")), len(trace.table("dma"))) == (2, 4)
    assert trace.table("dma").column("size_bytes").tolist() == [128 * 512 * 4] * 4
    slices = trace.table("engine_slice")
    assert slices.column("duration_ns").tolist() == [533, 534]  # 512 cycles at 0.96 GHz, both ends rounded
    assert set(slices.strings("engine")) == {"vector"}
    lines = {trace.stacks[int(stack)][0].line for stack in slices.column("stack")}
    assert lines == {doubled.__code__.co_firstlineno + 4}


def test_it_exports_a_perfetto_file(tmp_path: Path) -> None:
    done = nki.profile(doubled)(X).export(tmp_path / "kernel.pftrace")
    assert (done.events, (tmp_path / "kernel.pftrace").stat().st_size) == (6, done.size_bytes)


def test_the_html_has_the_tables_and_a_picture_with_a_title() -> None:
    html = nki.profile(doubled)(X)._repr_mimebundle_()["text/html"]
    assert html.count("<table>") == 3
    assert "<title>timeline of 6 instructions over" in html
    assert "<script" not in html


def test_names_in_html_are_escaped() -> None:
    def kernel(x: Any) -> Any:
        return doubled(x)

    kernel.__name__ = "<b>kernel"
    assert "&lt;b&gt;kernel" in nki.profile(kernel)(X).html


def test_the_picture_stays_small_for_many_instructions() -> None:
    def kernel() -> None:
        tile = nl.ndarray((128, 64), nl.float32)
        for _ in range(5000):
            nisa.memset(tile, 1)

    assert nki.profile(kernel)().html.count("<rect") == 1


def test_a_kernel_that_raises_keeps_what_ran_before() -> None:
    def kernel(x: Any) -> Any:
        nl.load(x[0:128])
        return nl.ndarray((256, 64), nl.float32)

    with pytest.raises(nki.NkiValidationError):
        nki.profile(kernel)(X)
    broken = nki.last_profile()
    assert broken.timing.instructions == 1
    assert "! ended by NkiValidationError" in broken.text
    assert broken.trace.header.error.startswith("NkiValidationError: ")


def test_without_a_profile_the_newest_one_is_refused() -> None:
    code = "from neuron_lab import nki; nki.last_profile()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no kernel has been profiled in this process" in done.stderr


def test_both_cores_are_counted() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        row = nl.program_id(0) * 128
        nl.store(out[row : row + 128], nl.load(x[row : row + 128]))
        return out

    assert "4 on 2 cores" in nki.profile(nki.jit(kernel)[2])(X).text


@pytest.mark.parametrize(
    ("line", "problem"),
    [("", "which call"), ("doubled", "calls nothing"), ("doubled(", "is no expression")],
)
def test_a_magic_line_that_is_no_call_is_one_sentence(line: str, problem: str) -> None:
    from neuron_lab.notebook.kernel_call import kernel_call

    with pytest.raises(UsageError, match=problem):
        kernel_call(line, "%%nki")


def test_a_magic_line_profiles_its_call() -> None:
    from neuron_lab.notebook.kernel_call import kernel_call

    made = kernel_call("doubled(X)", "%nki").profile({"doubled": doubled, "X": X})
    np.testing.assert_array_equal(made.result, 2 * X)


def test_a_name_of_the_kernel_is_looked_up_when_called() -> None:
    from neuron_lab.notebook.kernel_call import kernel_call

    with pytest.raises(NameError, match="missing"):
        kernel_call("missing(1)", "%nki").profile({})
