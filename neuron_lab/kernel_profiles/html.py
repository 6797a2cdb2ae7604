"""A kernel's profile as HTML: the same tables as the text, and a timeline that needs no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from neuron_lab.kernel_profiles import rows as content
from neuron_lab.kernel_profiles.timeline_svg import timeline_svg

if TYPE_CHECKING:
    from neuron_lab.kernel_profiles.profile import KernelProfile

_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'


def profile_html(profile: KernelProfile) -> str:
    return "".join(_parts(profile))


def _parts(profile: KernelProfile) -> Iterator[str]:
    yield f'<div class="neuron-lab-kernel"><p><strong>{escape(content.title(profile))}</strong></p>'
    for alert in content.alerts(profile):
        yield f'<p role="alert"><strong>Note:</strong> {escape(alert)}</p>'
    yield "<table><tbody>"
    for row in content.rows(profile):
        cells = "".join(f"<td{_LEFT}>{escape(text)}</td>" for text in (row.label.strip(), row.value, row.how))
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table>"
    yield timeline_svg(profile.timing.slowest)
    yield from _table(content.ENGINE_HEADS, content.engine_rows(profile))
    yield from _table(content.LINE_HEADS, content.line_rows(profile))
    yield "</div>"


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    if not body:
        return
    titles = "".join(f'<th scope="col"{_LEFT}>{escape(head)}</th>' for head in heads)
    yield f"<table><thead><tr>{titles}</tr></thead><tbody>"
    for row in body:
        first, *others = row
        cells = "".join(f"<td{_RIGHT}>{escape(text)}</td>" for text in others)
        yield f"<tr><td{_LEFT}><code>{escape(first)}</code></td>{cells}</tr>"
    yield "</tbody></table>"
