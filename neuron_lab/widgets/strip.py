"""The live strip: one row of counters that moves while a cell runs.

One widget serves the whole kernel, because only one profile at a time is the outermost. Import this module only
where anywidget is installed; `tiles` draws the same figures without it.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from neuron_lab.widgets.tiles import Counters, tiles, tiles_html, tiles_text

_STATIC = Path(__file__).parent / "static"


class Strip(anywidget.AnyWidget):
    """Draws the tiles of the latest counters; `counters` carries the plain numbers beside them."""

    _esm = _STATIC / "strip.js"
    _css = _STATIC / "theme.css"

    title = traitlets.Unicode().tag(sync=True)
    tiles = traitlets.List().tag(sync=True)
    counters = traitlets.Dict().tag(sync=True)

    def __init__(self, title: str, counters: Counters) -> None:
        super().__init__()
        self.show(title, counters)

    def show(self, title: str, counters: Counters) -> None:
        """One message to the page for one state of the counters."""
        self._latest = (title, counters)
        with self.hold_sync():
            self.title = title
            self.tiles = [asdict(tile) for tile in tiles(counters)]
            self.counters = asdict(counters)  # type: ignore[call-overload]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and the same figures for front ends that draw no widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {
            **data,
            "text/plain": tiles_text(*self._latest),
            "text/html": tiles_html(*self._latest),
        }, metadata
