"""What a profiled cell shows: a moving strip while it runs, the profile in its place afterwards.

The strip is pushed from a thread, because a running cell keeps the kernel's main thread. It needs anywidget and
a notebook kernel; with a kernel but no anywidget the same figures are shown as a table, and in a console only
the profile at the end. Knows nothing of how the counters are made.
"""

from __future__ import annotations

import contextvars
import importlib
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from IPython.display import DisplayHandle, display

from neuron_lab.widgets.tiles import Counters, tiles_html, tiles_text

PERIOD_S = 0.1  # 10 pushes a second: more is not read, fewer than 5 does not look live


class View(Protocol):
    """Somewhere counters can be shown."""

    def show(self, title: str, counters: Counters) -> None: ...


class StripShelf:
    """Keeps the kernel's one strip widget, made when first needed."""

    def __init__(self) -> None:
        self._strip: Any = None
        self._strip_class: Any = None
        self._prepared = False
        self.in_use = False

    def prepare(self) -> None:
        """Import the widget, which takes about 0.2 s the first time and must not fall into a profile."""
        if self._prepared:
            return
        self._prepared = True
        try:
            self._strip_class = importlib.import_module("neuron_lab.widgets.strip").Strip
        except ModuleNotFoundError as missing:
            if missing.name not in {"anywidget", "ipywidgets"}:
                raise

    def strip(self, title: str, counters: Counters) -> Any:
        """The strip showing these counters, or None where anywidget is not installed."""
        self.prepare()
        if self._strip is not None:
            self._strip.show(title, counters)
        elif self._strip_class is not None:
            self._strip = self._strip_class(title, counters)
        return self._strip

    def close(self) -> None:
        if self._strip is not None:
            self._strip.close()
            self._strip = None


class _Table:
    """The counters as a static table, shown again for each push."""

    def __init__(self, handle: DisplayHandle) -> None:
        self._handle = handle

    def show(self, title: str, counters: Counters) -> None:
        self._handle.update(_static(title, counters), raw=True)


class LiveDisplay:
    """One output of a cell: live until `finish`, then the result."""

    def __init__(self, title: str, read: Callable[[], Counters], shelf: StripShelf) -> None:
        shelf.in_use = True
        self._shelf = shelf
        self._title = title
        self._read = read
        self._handle = DisplayHandle()
        counters = read()
        strip = shelf.strip(title, counters)
        if strip is None:
            self._view: View = _Table(self._handle)
            self._handle.display(_static(title, counters), raw=True)
        else:
            self._view = strip
            self._handle.display(strip)
        self._ended = threading.Event()
        # The copied context keeps the thread's messages with the cell that started it.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._push,), name="neuron-lab-strip", daemon=True
        )
        self._thread.start()

    def pause(self) -> None:
        """No more pushes from the thread: the counters are about to be closed."""
        self._ended.set()
        self._thread.join()

    def finish(self, result: Any) -> None:
        """Push the final counters, then put the result where the strip was."""
        self._shelf.in_use = False
        self._view.show(self._title, self._read())
        self._handle.update(result)

    def withdraw(self) -> None:
        """Leave the last figures as a static table; there is no result."""
        self._shelf.in_use = False
        self._handle.update(_static(self._title, self._read()), raw=True)

    def _push(self) -> None:
        # Absolute deadlines: a busy cell delays single pushes, not the rate.
        due = time.monotonic() + PERIOD_S
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            self._view.show(self._title, self._read())
            due = max(due + PERIOD_S, time.monotonic())


class PlainDisplay:
    """Shows only the result: for consoles, `--no-live` and profiles inside a profiled cell."""

    def pause(self) -> None:
        pass

    def finish(self, result: Any) -> None:
        display(result)

    def withdraw(self) -> None:
        pass


def _static(title: str, counters: Counters) -> dict[str, str]:
    return {"text/plain": tiles_text(title, counters), "text/html": tiles_html(title, counters)}
