"""The summary of a profile: one screen of text, and the same as plain HTML tables.

The HTML has no colours, scripts or style sheets of its own, so it reads in every theme and in a saved notebook.
Names come from user code and are escaped.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from neuron_lab.analysis.totals import totals
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.reports.findings_lines import advice_sections
from neuron_lab.reports.summary_lines import Content, Line, Section, content_of
from neuron_lab.reports.wording import printable
from neuron_lab.trace.table import Trace

OPERATOR_HEADS = ("top operators", "calls", "wall, measured", "kernels, modelled")
NAME_WIDTH = 44  # characters of an operator's name in the text form


def summary(trace: Trace, assumptions: Assumptions | None = None) -> Summary:
    """What happened in this trace, and what to do about it."""
    content = content_of(totals(trace, assumptions))
    advice = advice_sections(trace, assumptions)
    return Summary(dataclasses.replace(content, sections=(*content.sections, *advice)))


@dataclass(frozen=True)
class Summary:
    """Prints as text, displays as HTML in a notebook."""

    content: Content

    @property
    def text(self) -> str:
        return "\n".join(_text_lines(self.content))

    @property
    def html(self) -> str:
        return "".join(_html_parts(self.content))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        bundle = {"text/plain": self.text, "text/html": self.html}
        return {
            kind: data
            for kind, data in bundle.items()
            if (not include or kind in include) and kind not in (exclude or ())
        }


# -- text


def _text_lines(content: Content) -> Iterator[str]:
    yield printable(
        f"Profile {content.title}: {content.device}" if content.title else f"Profile: {content.device}"
    )
    for alert in content.alerts:
        yield printable(f"! {alert}")
    for section in content.sections:
        yield f"{section.title}"
        yield from (_text_line(line) for line in section.lines)
    yield from _operator_lines(content)
    for note in content.notes:
        yield printable(f"({note})")


def _text_line(line: Line) -> str:
    if line.detail:
        return printable(f"      {line.label}: {line.value}" if line.value else f"      {line.label}")
    how = f"  [{line.how}]" if line.how else ""
    return printable(f"  {line.label:<22}{line.value}{how}")


def _operator_lines(content: Content) -> Iterator[str]:
    if not content.operators:
        return
    yield _columns(*OPERATOR_HEADS)
    for row in content.operators:
        yield _columns(f"  {_shortened(printable(row.name))}", row.calls, row.wall, row.modelled)
    if content.operators_left_out:
        yield f"  and {content.operators_left_out:,} more"


def _columns(name: str, calls: str, wall: str, modelled: str) -> str:
    return f"{name:<{NAME_WIDTH + 2}}{calls:>10}{wall:>17}   {modelled}"


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"


# -- HTML

_LEFT = ' style="text-align:left"'
_RIGHT = ' style="text-align:right"'


def _html_parts(content: Content) -> Iterator[str]:
    title = f"Profile {content.title}: " if content.title else "Profile: "
    yield f'<div class="neuron-lab-summary"><p><strong>{_escaped(title)}</strong>{_escaped(content.device)}</p>'
    for alert in content.alerts:
        yield f'<p role="alert"><strong>Note:</strong> {_escaped(alert)}</p>'
    yield "<table>"
    for section in content.sections:
        yield from _html_section(section)
    yield "</table>"
    if content.operators:
        yield from _html_operators(content)
    if content.notes:
        yield "<ul>" + "".join(f"<li><small>{_escaped(note)}</small></li>" for note in content.notes) + "</ul>"
    yield "</div>"


def _html_section(section: Section) -> Iterator[str]:
    yield f'<tbody><tr><th colspan="3" scope="rowgroup"{_LEFT}>{_escaped(section.title)}</th></tr>'
    for line in section.lines:
        label = _escaped(line.label)
        label = f"&nbsp;&nbsp;&nbsp;<code>{label}</code>" if line.detail else label
        cells = "".join(f"<td{_LEFT}>{_escaped(text)}</td>" for text in (line.value, line.how))
        yield f"<tr><td{_LEFT}>{label}</td>{cells}</tr>"
    yield "</tbody>"


def _html_operators(content: Content) -> Iterator[str]:
    heads = "".join(f'<th scope="col"{_LEFT}>{_escaped(head)}</th>' for head in OPERATOR_HEADS)
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for row in content.operators:
        figures = "".join(f"<td{_RIGHT}>{_escaped(text)}</td>" for text in (row.calls, row.wall, row.modelled))
        yield f"<tr><td{_LEFT}><code>{_escaped(row.name)}</code></td>{figures}</tr>"
    if content.operators_left_out:
        yield f'<tr><td colspan="4"{_LEFT}>and {content.operators_left_out:,} more</td></tr>'
    yield "</tbody></table>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
