"""Running something around a cell without running the cell.

A cell magic normally receives the cell as text and runs it again, which breaks top-level `await`, prints
errors twice and shifts cell numbers. Here an input transformer replaces only the magic's line by a call that
arms; IPython then runs the cell as its own, and a hook disarms when that cell ends, however it ends. The value
of the cell, `_`, line numbers and errors are therefore IPython's. Knows nothing of profiles.
"""

from __future__ import annotations

import linecache
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from IPython.core.inputtransformer2 import cell_magic

MagicLine = re.compile(r"%%(?P<name>\w+)(?P<rest>[^\w?].*)?$", re.DOTALL)


@dataclass(frozen=True, eq=False)
class _Armed:
    """What is armed, for which cell and on which thread. `info` is None in a silent cell."""

    info: Any
    thread: int
    disarm: Callable[[Any], None]


class CellArming:
    """Turns `%%magic options` into an arming call, and calls back when that cell has ended."""

    def __init__(self, shell: Any, magic: str, call: str) -> None:
        self.shell = shell
        self.magic = magic
        self.call = call  # an expression; the transformed line is call + (repr of the options)
        self._current = threading.local()  # cells may run on several threads (subshells)
        self._armed: list[_Armed] = []
        self._hooks = {
            "pre_execute": self._before_any_cell,
            "pre_run_cell": self._before_cell,
            "post_execute": self._after_any_cell,
            "post_run_cell": self._after_cell,
        }

    def install(self) -> None:
        # Before IPython's own `cell_magic`, which would swallow the whole cell.
        self.shell.input_transformer_manager.line_transforms.insert(0, self.transform)
        for event, hook in self._hooks.items():
            self.shell.events.register(event, hook)

    def remove(self) -> None:
        transforms = self.shell.input_transformer_manager.line_transforms
        transforms[:] = [transform for transform in transforms if transform != self.transform]
        for event, hook in self._hooks.items():
            if hook in self.shell.events.callbacks[event]:
                self.shell.events.unregister(event, hook)
        while self._armed:
            self._armed.pop().disarm(None)

    def transform(self, lines: list[str]) -> list[str]:
        """Called by IPython, more than once per cell: must not have side effects."""
        found = MagicLine.match(lines[0].rstrip()) if lines else None
        if found is None or found["name"] != self.magic:
            return lines
        options = (found["rest"] or "").strip()
        return [f"{self.call}({options!r})\n", *self._body(lines[1:])]

    def arm(self, disarm: Callable[[Any], None]) -> None:
        """Have `disarm(result)` called when the running cell ends; result is None when IPython has none."""
        self._armed.append(_Armed(getattr(self._current, "info", None), threading.get_ident(), disarm))

    def cell_source(self) -> str:
        """The running cell as typed; empty in a silent cell."""
        info = getattr(self._current, "info", None)
        return "" if info is None else str(info.raw_cell)

    def show_cell_as_typed(self, filename: str) -> None:
        """Put back what the user wrote: in `In[n]`, and in the lines that tracebacks quote for this file."""
        history = self.shell.history_manager
        parsed, raw = history.input_hist_parsed, history.input_hist_raw
        if parsed and len(parsed) == len(raw) and parsed[-1].startswith(self.call):
            parsed[-1] = raw[-1]
        quoted = linecache.cache.get(filename)
        magic_line = self.cell_source().lstrip().partition("\n")[0]
        if quoted is not None and len(quoted) == 4 and quoted[2] and quoted[2][0].startswith(self.call):
            # A comment, because traceback formatters parse the file.
            quoted[2][0] = f"# {magic_line}\n"

    def _body(self, lines: list[str]) -> list[str]:
        """The rest of the cell; a second cell magic keeps its meaning, on its own line number."""
        blank = 0
        while blank < len(lines) and not lines[blank].strip():
            blank += 1
        return lines[:blank] + cell_magic(lines[blank:])

    def _before_any_cell(self) -> None:
        self._current.info = None

    def _before_cell(self, info: Any) -> None:
        self._current.info = info

    def _after_any_cell(self) -> None:
        """Silent cells get no `post_run_cell`."""
        self._disarm_where(lambda armed: armed.info is None, None)

    def _after_cell(self, result: Any) -> None:
        # IPython has no result when an awaiting cell is cancelled. When an exception escapes the cell's runner,
        # the result carries a new info object with the same text object.
        def ended(armed: _Armed) -> bool:
            if armed.info is None:
                return False
            return result is None or result.info is armed.info or result.info.raw_cell is armed.info.raw_cell

        self._disarm_where(ended, result)

    def _disarm_where(self, ended: Callable[[_Armed], bool], result: Any) -> None:
        thread = threading.get_ident()
        done = [armed for armed in self._armed if armed.thread == thread and ended(armed)]
        self._armed = [armed for armed in self._armed if armed not in done]
        for armed in reversed(done):
            armed.disarm(result)
