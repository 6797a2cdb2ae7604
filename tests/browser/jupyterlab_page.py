"""JupyterLab as a test sees it: write a notebook, open it, know when it can be used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import Page

# In the DOM "idle" is shown before the kernel can be used; this is what ready means.
READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget, session = panel?.sessionContext;
  const kernel = session?.session?.kernel;
  return !!(panel?.context?.isReady && session?.isReady && kernel?.connectionStatus === 'connected'
    && kernel?.status === 'idle');
}"""


@dataclass
class Lab:
    """A running JupyterLab; notebooks go into `folder`."""

    port: int
    token: str
    folder: Path

    def write(self, name: str, cells: list[str]) -> None:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        # Without it JupyterLab asks which kernel to use.
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.folder / name)

    def open(self, page: Page, name: str) -> None:
        page.goto(f"http://127.0.0.1:{self.port}/lab/tree/{name}?token={self.token}&reset")
        page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=90_000)
        page.wait_for_function(READY, timeout=90_000)
        page.evaluate(
            "async () => { await jupyterapp.shell.currentWidget.sessionContext.session.kernel.info; }"
        )
        page.wait_for_function(READY, timeout=90_000)
