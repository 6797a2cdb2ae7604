"""The strip in a real kernel: what the page receives while a cell runs, and what stays in the notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from notebook_kernel import Cell, NotebookKernel, kernel_environment

pytestmark = pytest.mark.slow

WIDGET = "application/vnd.jupyter.widget-view+json"
BUSY_CELL = """%%neuron_profile --name busy
import time
t = torch.ones(8, 8, device="neuron")
end = time.monotonic() + 3
while time.monotonic() < end:
    t = t.tanh()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    base = tmp_path_factory.mktemp("kernel")
    kernel = NotebookKernel(base, kernel_environment(base))
    assert kernel.run("%load_ext neuron_lab\nimport torch, neuron_lab").ok
    yield kernel
    kernel.close()


def pushes(cell: Cell) -> list[dict[str, Any]]:
    """The counters of each message to the strip, in order."""
    states = [message["content"]["data"].get("state", {}) for message in cell.of_type("comm_open", "comm_msg")]
    return [state["counters"] for state in states if state.get("counters")]


def test_wd_1_live_means_during_the_cell(kernel: NotebookKernel) -> None:
    cell = kernel.run(BUSY_CELL)
    assert cell.ok
    sent = pushes(cell)
    growing = [counters["operators"] for counters in sent if not counters["finished"]]
    assert len(set(growing)) >= 3
    assert growing == sorted(growing)
    assert len(growing) >= 15  # 5 a second for 3 seconds

    final = sent[-1]
    assert final["finished"] is True
    totals = "busy.trace"
    assert final["operators"] == kernel.ask(f"len({totals}.table('operator'))")
    assert final["eager_kernels"] == kernel.ask(f"len({totals}.table('eager_kernel'))")
    assert final["graph_breaks"] == kernel.ask(f"len({totals}.table('graph_break'))")
    assert final["fallbacks"] == kernel.ask(f"len({totals}.table('fallback'))")
    assert final["hbm_limit_bytes"] == 25_769_803_776
    low, high = final["core_busy"]
    assert 0 < low <= high <= 1
    assert all(message["header"]["date"] <= cell.reply["header"]["date"] for message in cell.messages)


def test_the_static_profile_takes_the_strips_place(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --name '<lambda>'\nt = torch.ones(2, device='neuron')")
    first = cell.of_type("display_data")[0]["content"]["data"]
    assert WIDGET in first
    assert "neuron profile, running &lt;lambda&gt;" in first["text/html"]
    assert [sorted(data) for data in cell.outputs] == [["text/html", "text/plain"]]
    assert "&lt;lambda&gt;" in cell.outputs[0]["text/html"]
    assert "Profile <lambda>" in cell.outputs[0]["text/plain"]


def test_one_widget_serves_the_whole_kernel(kernel: NotebookKernel) -> None:
    first = kernel.run("%%neuron_profile\nx = 1").of_type("display_data")[0]["content"]["data"]
    again = kernel.run("%%neuron_profile\nx = 1")
    assert again.of_type("display_data")[0]["content"]["data"][WIDGET] == first[WIDGET]
    assert again.of_type("comm_open") == []


def test_the_counters_start_again_with_each_profile(kernel: NotebookKernel) -> None:
    kernel.run("%%neuron_profile\nt = torch.ones(2, device='neuron').exp().exp()")
    assert pushes(kernel.run("%%neuron_profile\nx = 1"))[-1]["operators"] == 0


def test_no_live_shows_only_the_profile(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile --no-live\nx = 1")
    assert (cell.of_type("comm_msg", "comm_open", "update_display_data"), len(cell.outputs)) == ([], 1)


def test_a_profile_inside_a_profiled_cell_leaves_the_strip_alone(kernel: NotebookKernel) -> None:
    kernel.run("t = torch.ones(2, device='neuron')")
    cell = kernel.run("%%neuron_profile\nu = t.exp()\n%neuron_profile x = 1")
    assert [WIDGET in message["content"]["data"] for message in cell.of_type("display_data")] == [True, False]
    assert pushes(cell)[-1]["operators"] == 1


def test_the_strip_moves_while_a_cell_awaits(kernel: NotebookKernel) -> None:
    cell = kernel.run("%%neuron_profile\nimport asyncio\nawait asyncio.sleep(1)")
    assert len({counters["elapsed_s"] for counters in pushes(cell)}) >= 5


def test_no_thread_stays_behind(kernel: NotebookKernel) -> None:
    kernel.run("%%neuron_profile\n1 / 0")
    names = "[t.name for t in __import__('threading').enumerate() if 'neuron' in t.name]"
    assert kernel.ask(names) == []


def test_without_anywidget_a_table_moves_and_nothing_is_lost(tmp_path: Path) -> None:
    kernel = NotebookKernel(tmp_path, kernel_environment(tmp_path))
    try:
        kernel.run("import sys\nsys.modules['anywidget'] = None  # as if it were not installed")
        kernel.run("%load_ext neuron_lab\nimport torch")
        cell = kernel.run(BUSY_CELL.replace("+ 3", "+ 1"))
    finally:
        kernel.close()
    assert cell.ok
    moving = [message["content"]["data"]["text/plain"] for message in cell.of_type("update_display_data")]
    assert len(set(moving[:-1])) >= 5
    assert all(text.startswith("neuron profile") for text in moving[:-1])
    assert "Profile busy" in cell.outputs[0]["text/plain"]
    assert (cell.of_type("comm_open"), cell.stream("stderr")) == ([], "")


def test_wd_2_a_notebook_run_headless_reads_without_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in kernel_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    sources = ["%load_ext neuron_lab\nimport torch", "%%neuron_profile\nt = torch.ones(4, device='neuron') + 1"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (output,) = notebook.cells[1].outputs
    assert sorted(output["data"]) == ["text/html", "text/plain"]
    assert "aten::add.Tensor" in output["data"]["text/plain"]
    assert "aten::add.Tensor" in output["data"]["text/html"]
