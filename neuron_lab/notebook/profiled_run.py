"""One profile asked for by a magic: start, show live, stop, show and write the result.

Both forms of the magic use it. It stops what it started however the cell or statement ends.
"""

from __future__ import annotations

import builtins
import keyword
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_lab import session
from neuron_lab.notebook.cell_labels import cell_of
from neuron_lab.notebook.live_display import LiveDisplay, PlainDisplay, StripShelf
from neuron_lab.reports.export import check_suffix


@dataclass(frozen=True)
class Request:
    """What the user asked for on the magic's line. `out` is as typed, for messages."""

    name: str | None = None
    out: str | None = None
    stacks: bool = False
    live: bool = True

    def path(self) -> Path | None:
        return Path(self.out).expanduser() if self.out else None


class ProfiledRun:
    """A profile that is running until `end`."""

    def __init__(self, shell: Any, request: Request, shelf: StripShelf, source: str) -> None:
        self._shell = shell
        self._request = request
        self._path = request.path()
        if self._path is not None:
            check_suffix(self._path)
        self._folder = Path.cwd()  # the cell may change directory
        self._session = session.profile(
            request.name, stacks=request.stacks, cell_of=cell_of(shell), context=_context(shell, source)
        )
        # A profile inside a profiled cell leaves the strip to the outer one.
        live = request.live and hasattr(shell, "kernel") and not shelf.in_use
        if live:
            shelf.prepare()
        self._session.start()
        try:
            self._display = self._open(shelf, live)
        except BaseException:
            self._session.stop()
            raise

    def _open(self, shelf: StripShelf, live: bool) -> LiveDisplay | PlainDisplay:
        if live:
            return LiveDisplay(self._request.name or "", self._session.live_counters, shelf)
        return PlainDisplay()

    def end(self, error: BaseException | None) -> None:
        """Stop, show and write. Raises when the result cannot be written; it is kept and shown all the same."""
        self._display.pause()
        try:
            profile = self._session.stop(error)
        except BaseException:
            self._display.withdraw()
            raise
        self._display.finish(profile)
        self._bind(profile)
        if self._path is not None:
            # As typed where that still is the same file: outputs of notebooks are shared.
            path = self._path if Path.cwd() == self._folder else self._folder / self._path
            print(profile.export(path))

    def _bind(self, profile: Any) -> None:
        name = self._request.name or ""
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
            return  # a label only: binding `print` would break the notebook
        self._shell.user_ns[name] = profile


def _context(shell: Any, source: str) -> dict[str, str]:
    """What a saved profile should say of where it came from."""
    count = shell.execution_count - 1  # IPython has counted the running cell already
    return {"cell": f"In [{count}]", "source": source}
