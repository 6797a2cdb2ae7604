"""The live strip in a real JupyterLab: it moves while the cell runs, and the profile stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jupyterlab_page import Lab
from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BUSY_CELL = """%%neuron_profile --name "busy <lambda>"
import time
a = torch.ones(64, 64, device="neuron")
end = time.monotonic() + 3
while time.monotonic() < end:
    a = torch.tanh(a)
"""

# Keeps the text of each drawing of the strip that is made before the cell's reply.
WATCH = """() => {
  window.seen = [];
  new MutationObserver(() => {
    const strip = document.querySelector("[data-testid='nl-strip']");
    // The kernel's own status may say "idle": messages of the widget are answered beside the cell.
    const busy = [...document.querySelectorAll('.jp-InputPrompt')].at(-1).innerText.includes('[*]');
    const text = strip?.querySelector("[data-testid='nl-elapsed']")?.innerText;
    if (busy && text && window.seen.at(-1) !== text) window.seen.push(text);
  }).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""
# Contrast of the strip's smallest text against what is behind it, by the WCAG formula.
CONTRAST = """() => {
  const luminance = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const node = document.querySelector('.nl-tile-source');
  let back = node;
  while (getComputedStyle(back).backgroundColor.endsWith(', 0)')) back = back.parentElement;
  const pair = [getComputedStyle(node).color, getComputedStyle(back).backgroundColor].map(luminance);
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
}"""


def run_cell(page: Page, number: int) -> None:
    page.evaluate(
        """(number) => {
          jupyterapp.shell.currentWidget.content.activeCellIndex = number;
          void jupyterapp.commands.execute('notebook:run-cell');
        }""",
        number,
    )


def keep_screenshot(page: Page, name: str, tmp_path: Path) -> Path:
    """Into the folder named by NEURON_LAB_SCREENSHOTS, or the test's own."""
    folder = Path(os.environ.get("NEURON_LAB_SCREENSHOTS", tmp_path))
    path = folder / name
    page.screenshot(path=str(path))
    return path


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_the_strip_moves_during_the_cell_and_the_profile_stays(
    lab: Lab, page: Page, tmp_path: Path, theme: str
) -> None:
    name = f"{theme.split()[-1].lower()}.ipynb"
    lab.write(name, ["%load_ext neuron_lab\nimport torch", BUSY_CELL])
    lab.open(page, name)
    page.evaluate("(theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    run_cell(page, 0)
    page.wait_for_function(
        "() => document.querySelector('.jp-InputPrompt').innerText.includes('[1]')", timeout=90_000
    )
    page.evaluate(WATCH)
    run_cell(page, 1)
    strip = page.get_by_test_id("nl-strip")
    strip.wait_for(timeout=30_000)
    assert "busy <lambda>" in strip.inner_text()
    page.wait_for_function("() => window.seen.length >= 3", timeout=30_000)
    assert page.evaluate(CONTRAST) >= 4.5
    assert keep_screenshot(page, f"strip-{theme.split()[-1].lower()}.png", tmp_path).stat().st_size > 10_000
    strip.wait_for(state="detached", timeout=60_000)
    assert len(set(page.evaluate("() => window.seen"))) >= 3
    assert "busy <lambda>" in page.locator(".jp-OutputArea-output").last.inner_text()
    keep_screenshot(page, f"profile-{theme.split()[-1].lower()}.png", tmp_path)


def test_mg_1_run_all_stops_at_the_profiled_cell_that_raises(lab: Lab, page: Page) -> None:
    cells = [
        "%load_ext neuron_lab",
        "%%neuron_profile\nraise ValueError('bad batch')",
        "print('should not run')",
    ]
    lab.write("errors.ipynb", cells)
    lab.open(page, "errors.ipynb")
    page.evaluate("() => { void jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.locator(".jp-OutputArea-output:has-text('bad batch')").last.wait_for(timeout=90_000)
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.jp-InputPrompt')].some((node) => node.innerText.includes('*'))",
        timeout=30_000,
    )
    prompts = page.eval_on_selector_all(".jp-InputPrompt", "(nodes) => nodes.map((node) => node.innerText)")
    assert prompts == ["[1]:", "[2]:", "[ ]:"]
