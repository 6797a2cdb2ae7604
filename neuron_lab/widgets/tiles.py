"""Live counters as a row of labelled figures, once, for every way of showing them.

A tile says where its figure comes from. A reading that does not exist is "no reading", never zero. The widget,
its static HTML and its text all draw these tiles. Knows neither Jupyter nor where the counters come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from neuron_lab.reports.wording import NO_READING, bytes_text


class Counters(Protocol):
    """The counters of a running profile."""

    @property
    def graph_breaks(self) -> int: ...
    @property
    def recompiles(self) -> int: ...
    @property
    def uncompiled_calls(self) -> int: ...
    @property
    def eager_kernels(self) -> int: ...
    @property
    def eager_kernel_hits(self) -> int: ...
    @property
    def fallbacks(self) -> int: ...
    @property
    def operators(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def hbm_used_bytes(self) -> Sequence[int]: ...
    @property
    def hbm_limit_bytes(self) -> int | None: ...
    @property
    def core_busy(self) -> tuple[float, float] | None: ...
    @property
    def elapsed_s(self) -> float: ...
    @property
    def finished(self) -> bool: ...


@dataclass(frozen=True)
class Tile:
    """One figure: what it is, its text, where it comes from, and its share of a whole when it has one."""

    key: str
    label: str
    value: str
    source: str
    share: tuple[float, float] | None = None  # low and high, 0 to 1; equal when it is not an interval


def tiles(counters: Counters) -> list[Tile]:
    steps = [Tile("steps", "Steps", f"{counters.steps:,}", "counted")] if counters.steps else []
    dropped = (
        [Tile("dropped", "Events dropped", f"{counters.dropped:,}", "counted")] if counters.dropped else []
    )
    return [
        Tile("elapsed", "Time", f"{counters.elapsed_s:.1f} s", "measured on this machine"),
        Tile("graph_breaks", "Graph breaks", f"{counters.graph_breaks:,}", "counted"),
        Tile("recompiles", "Recompiles", f"{counters.recompiles:,}", _recompile_source(counters)),
        Tile("eager_kernels", "New eager kernels", f"{counters.eager_kernels:,}", _kernel_source(counters)),
        *steps,
        Tile("fallbacks", "CPU fallbacks", f"{counters.fallbacks:,}", "counted; per the April 2026 list"),
        _memory_tile(counters),
        _busy_tile(counters),
        *dropped,
    ]


def tiles_text(name: str, counters: Counters) -> str:
    """The tiles on one line, for consoles and for `text/plain`."""
    figures = "; ".join(f"{tile.label} {tile.value} ({tile.source})" for tile in tiles(counters))
    return f"neuron {_state(counters)}{f' {name}' if name else ''}: {figures}"


def tiles_html(name: str, counters: Counters) -> str:
    """The tiles as a plain table without script or fixed colours: readable in a saved or exported notebook."""
    rows = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(tile.label)}</th>"
        f"<td style='text-align:right'>{escape(tile.value)}</td>"
        f"<td style='text-align:left'>{escape(tile.source)}</td></tr>"
        for tile in tiles(counters)
    )
    caption = escape(f"neuron {_state(counters)} {name}".strip())
    return f"<table><caption>{caption}</caption>{rows}</table>"


def _state(counters: Counters) -> str:
    return "profile" if counters.finished else "profile, running"


def _recompile_source(counters: Counters) -> str:
    if not counters.uncompiled_calls:
        return "counted"
    return f"counted; {counters.uncompiled_calls:,} calls ran uncompiled"


def _kernel_source(counters: Counters) -> str:
    return f"counted; {counters.eager_kernel_hits:,} reused, {counters.operators:,} operators"


def _memory_tile(counters: Counters) -> Tile:
    used, limit = counters.hbm_used_bytes, counters.hbm_limit_bytes
    if not used or not limit:
        return Tile("hbm", "HBM", NO_READING, "no device memory is counted here")
    fullest = max(range(len(used)), key=used.__getitem__)
    share = used[fullest] / limit
    text = f"{bytes_text(used[fullest])} of {bytes_text(limit)}"
    return Tile("hbm", "HBM", text, f"measured; core {fullest}, the fullest of {len(used)}", (share, share))


def _busy_tile(counters: Counters) -> Tile:
    source = "modelled share of the modelled span, busiest core"
    if counters.core_busy is None:
        return Tile("core_busy", "Core busy", NO_READING, source)
    low, high = counters.core_busy
    return Tile("core_busy", "Core busy", f"{100 * low:.0f}–{100 * high:.0f} %", source, (low, high))
