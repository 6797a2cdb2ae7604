"""Operators that the real device computes on the host: how often, how many bytes, why, and where first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace


@dataclass(frozen=True, slots=True)
class Fallback:
    """One operator with one reason. `size_bytes` moves between host and device; None = no reading."""

    op: str
    count: int
    size_bytes: int | None
    reason: str
    place: str  # of the first one that has one, else empty


def fallbacks(trace: Trace) -> tuple[Fallback, ...]:
    """Most frequent first."""
    table = trace.table(Kind.FALLBACK)
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(table.strings("name"), table.strings("reason"), strict=True)):
        groups.setdefault(key, []).append(row)
    sizes, places = table.column("size_bytes"), table.strings("place")
    found = []
    for (op, reason), rows in groups.items():
        read = sizes[rows][sizes[rows] >= 0]
        found.append(Fallback(op, len(rows), _sum(read), reason, _first_place([places[row] for row in rows])))
    return tuple(sorted(found, key=lambda fallback: -fallback.count))


def _sum(read: np.ndarray) -> int | None:
    return int(read.sum()) if len(read) else None


def _first_place(places: list[str]) -> str:
    return next((place for place in places if place), "")
