"""Bytes moved between host and device."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_lab.trace.events import UNFINISHED, Kind
from neuron_lab.trace.table import Trace


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies of one direction. `wall_ns` was measured on this machine; the real link is not modelled."""

    direction: str
    count: int
    size_bytes: int | None  # None = no reading
    wall_ns: int


def copies(trace: Trace) -> tuple[Copies, ...]:
    """One entry per direction (`h2d`, `d2h`, `d2d`), in order of first appearance."""
    table = trace.table(Kind.COPY)
    found = []
    for direction in dict.fromkeys(table.strings("direction")):
        rows = table.where(table.matches("direction", direction))
        sizes, durations = rows.column("size_bytes"), rows.column("duration_ns")
        read = sizes[sizes >= 0]
        size_bytes = int(read.sum()) if len(read) else None
        found.append(Copies(direction, len(rows), size_bytes, int(durations[durations != UNFINISHED].sum())))
    return tuple(found)
