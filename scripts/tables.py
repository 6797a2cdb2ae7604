"""Writes docs/tables.md: every table of `profile.df` with its columns. `--check` only says if it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from neuron_lab.analysis.frames import FRAMES
from neuron_lab.trace.events import SCHEMA_VERSION, TraceHeader
from neuron_lab.trace.table import Trace

PATH = Path(__file__).resolve().parent.parent / "docs" / "tables.md"


def text() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Tables of a profile"
    yield ""
    yield (
        f"Made by `scripts/tables.py`. Schema version {SCHEMA_VERSION}. `profile.df(name)` gives a pandas "
        "DataFrame; a column ends in its unit, a missing reading is an empty cell, and a name with `modelled` "
        "(or a table that says so) is computed, not measured."
    )
    empty = Trace(TraceHeader())
    for name, make in FRAMES.items():
        yield ""
        yield f"## {name}"
        yield ""
        yield " ".join((make.__doc__ or "").split())
        yield ""
        yield ", ".join(f"`{column}`" for column in make(empty).columns)


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        return 0 if PATH.read_text(encoding="utf-8") == text() else 1
    PATH.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
