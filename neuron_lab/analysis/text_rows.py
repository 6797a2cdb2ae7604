"""Rows of a table that say the same, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from neuron_lab.trace.table import Table

Texts = tuple[str, ...]


def texts(table: Table, columns: Sequence[str]) -> list[Texts]:
    """The named text columns, row by row."""
    return list(zip(*(table.strings(name) for name in columns), strict=True))


def counted(rows: Sequence[Texts]) -> list[tuple[Texts, int]]:
    """Distinct rows with their counts: most frequent first, equals in order of first appearance."""
    return Counter(rows).most_common()
