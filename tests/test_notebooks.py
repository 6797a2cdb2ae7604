"""The tutorial notebooks, run as a user would: from a clean kernel, on the real model, to the end."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

PROFILES = ("eager", "static", "again")
NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def run(name: str, folder: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return notebook


def shown(notebook: nbformat.NotebookNode, first_line: str) -> str:
    """The text forms of what the cell that begins with `first_line` displayed."""
    cell = next(cell for cell in notebook.cells if cell.source.startswith(first_line))
    return "\n".join(output.data.get("text/plain", "") for output in cell.outputs if "data" in output)


@pytest.mark.slow
def test_notebook_01_runs_headless_and_shows_its_lesson(tmp_path: Path) -> None:
    notebook = run("01_eager_generation.ipynb", tmp_path)
    texts = [shown(notebook, f"%%neuron_profile --name {name}") for name in PROFILES]
    assert len({re.findall(r"^'(The sky .*)'$", text, re.MULTILINE)[0] for text in texts}) == 1
    lines = {
        line.split()[0]: line.split()[1:] for line in shown(notebook, "import pandas as pd").splitlines()[1:]
    }
    columns = zip(*([float(figure) for figure in lines[name]] for name in PROFILES), strict=True)
    new, new_per_token, graphs, breaks, recompiles, fallbacks = columns
    assert new_per_token[0] >= 1  # the growing cache needs new kernels for every token
    assert new_per_token[1:] == (0, 0)  # the static one does not
    assert new[0] > new[1] > new[2] == 0
    assert (graphs, breaks, recompiles) == ((0, 1, 0), (0, 0, 0), (0, 0, 0))
    assert all(count > 0 for count in fallbacks)
    assert "emulated on CPU" in shown(notebook, "%load_ext neuron_lab")
    assert (tmp_path / "demo.pftrace").stat().st_size > 1_000_000
