"""Arrows from a launch on the host to its kernel on a core, found by correlation number.

Both ends must be on the same rank and the same clock, and the kernel must not start before its launch. A launch
with several kernels points to the first of them. This module knows tables, not how an arrow is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Table

LAUNCHES = (Kind.OPERATOR,)
DEVICE_WORK = (Kind.KERNEL, Kind.COLLECTIVE, Kind.DMA)

FlowNumbers = npt.NDArray[np.uint64]


class Ends(TypedDict, total=False):
    """Flow number per row of one kind's table; 0 where there is no arrow."""

    flow_out: FlowNumbers
    flow_in: FlowNumbers


@dataclass(frozen=True, slots=True)
class _Row:
    kind: Kind | str
    row: int
    start_ns: int


class Arrows:
    """All arrows between the rows of one trace's tables."""

    def __init__(self, tables: Mapping[Kind | str, Table]) -> None:
        self._ends: dict[Kind | str, Ends] = {}
        launches = _first_of_each(tables, LAUNCHES) if any(kind in tables for kind in DEVICE_WORK) else {}
        kernels = _first_of_each(tables, DEVICE_WORK) if launches else {}
        number = 0
        for key, launch in launches.items():
            kernel = kernels.get(key)
            if kernel is None or kernel.start_ns < launch.start_ns:
                continue
            number += 1
            self._column(tables, launch.kind, "flow_out")[launch.row] = number
            self._column(tables, kernel.kind, "flow_in")[kernel.row] = number

    def of(self, kind: Kind | str) -> Ends:
        return self._ends.get(kind, Ends())

    def _column(self, tables: Mapping[Kind | str, Table], kind: Kind | str, end: str) -> FlowNumbers:
        ends: dict[str, FlowNumbers] = self._ends.setdefault(kind, Ends())  # type: ignore[assignment]
        if end not in ends:
            ends[end] = np.zeros(len(tables[kind]), dtype=np.uint64)
        return ends[end]


def _first_of_each(
    tables: Mapping[Kind | str, Table], kinds: tuple[Kind, ...]
) -> dict[tuple[int, str, int], _Row]:
    """The earliest row of every (rank, clock, correlation)."""
    first: dict[tuple[int, str, int], _Row] = {}
    for kind in kinds:
        table = tables.get(kind)
        if table is None:
            continue
        rows = np.flatnonzero(table.column("correlation"))
        words = [*table.vocabulary, ""]
        columns = (
            table.column("rank"),
            table.codes("clock"),
            table.column("correlation"),
            table.column("start_ns"),
        )
        for row, rank, clock, correlation, start_ns in zip(
            rows.tolist(), *(column[rows].tolist() for column in columns), strict=True
        ):
            key = (rank, words[clock], correlation)
            if key not in first or start_ns < first[key].start_ns:
                first[key] = _Row(kind, row, start_ns)
    return first
