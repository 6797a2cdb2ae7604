"""`make demo`: run notebook 01 from a fresh kernel, print what its profiled cells show, leave the files behind.

Writes `demo.ipynb` (the executed notebook) and `demo.pftrace` (both profiled cells, for ui.perfetto.dev).
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "01_eager_generation.ipynb"
CELL_TIMEOUT_S = 900


def main() -> int:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    executed = ROOT / "demo.ipynb"
    try:
        run(notebook)
    except CellExecutionError as error:
        print(f"\ndemo: a cell of {NOTEBOOK.name} failed; {executed.name} has what ran", file=sys.stderr)
        print(without_colour(str(error)), file=sys.stderr)
        return 1
    finally:
        nbformat.write(notebook, executed)
    for cell in notebook.cells:
        if cell.source.startswith("%%neuron_profile"):
            print(f"\n{cell.source.splitlines()[0]}\n{shown_text(cell)}")
    trace = ROOT / "demo.pftrace"
    trace_megabytes = trace.stat().st_size / 1e6
    print(f"\ndemo: {executed.name} is the executed notebook")
    print(f"demo: {trace.name} ({trace_megabytes:.1f} MB) opens in ui.perfetto.dev")
    return 0


def run(notebook: nbformat.NotebookNode) -> None:
    """Execute every cell in place, saying which one runs."""
    client = NotebookClient(
        notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    total = len(notebook.cells)
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            first_line = cell.source.splitlines()[0] if cell.source else ""
            print(f"demo: cell {index + 1}/{total}  {first_line[:70]}", end="", flush=True)
            start = time.perf_counter()
            client.execute_cell(cell, index)
            print(f"  {time.perf_counter() - start:.1f} s", flush=True)
        client.set_widgets_metadata()


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def shown_text(cell: nbformat.NotebookNode) -> str:
    """The text forms of what the cell displayed, in order."""
    texts = [output.data.get("text/plain", "") for output in cell.outputs if "data" in output]
    return "\n".join(text for text in texts if text)


if __name__ == "__main__":
    raise SystemExit(main())
