"""The details of events: every payload column a reading was taken for, and what references refer to.

A column without a reading in a row gives that row no detail. Nothing here knows tracks or a file format.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neuron_lab.reports.drawing import Argument, Words
from neuron_lab.trace.events import COMMON_COLUMNS, PAYLOAD_COLUMNS, Kind
from neuron_lab.trace.table import Table

REFERENCES = {"signature", "stack", "graph", "parent"}  # columns that point into side tables


def arguments(table: Table, signatures: Sequence[str], places: Sequence[str]) -> list[Argument]:
    """Details of all rows; `signatures` and `places` are the side tables in words."""
    known = PAYLOAD_COLUMNS.get(table.kind) if isinstance(table.kind, Kind) else None
    names = [name for name in known or table.columns if name not in COMMON_COLUMNS and name != "id"]
    found = [_argument(table, name) for name in names if name not in REFERENCES]
    if "signature" in names:
        found.append(_reference("shapes", table.column("signature"), signatures))
    if "stack" in names:
        found.append(_reference("place", table.column("stack"), places))
    if table.kind == Kind.COLLECTIVE:
        found.append(_bandwidth(table))
    return [argument for argument in found if argument.present.any()]


def _argument(table: Table, name: str) -> Argument:
    if table.is_text(name):
        codes = table.codes(name)
        return Argument(name, Words(codes, table.vocabulary), codes >= 0)
    values = table.column(name)
    if values.dtype.kind == "f":
        return Argument(name, values, ~np.isnan(values))
    if values.dtype.kind == "b":
        return Argument(name, values.astype(np.int64), values)
    return Argument(name, values.astype(np.int64), values >= 0)


def _reference(name: str, rows: npt.NDArray[np.generic], texts: Sequence[str]) -> Argument:
    codes = rows.astype(np.int64)
    return Argument(name, Words(codes, texts), (codes >= 0) & (codes < len(texts)))


def _bandwidth(table: Table) -> Argument:
    """Bytes per nanosecond are GB/s. Without a duration there is no bandwidth, rather than an infinite one."""
    size_bytes, duration_ns = table.column("size_bytes"), table.column("duration_ns")
    known = (duration_ns > 0) & (size_bytes >= 0)
    return Argument("bandwidth_gb_s", size_bytes / np.where(known, duration_ns, 1), known)


def incomplete(mask: npt.NDArray[np.bool_]) -> tuple[Argument, ...]:
    if not mask.any():
        return ()
    return (Argument("incomplete", mask.astype(np.int64), mask),)
