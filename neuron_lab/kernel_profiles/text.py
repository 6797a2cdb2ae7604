"""A kernel's profile as text, on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neuron_lab.kernel_profiles import rows as content

if TYPE_CHECKING:
    from neuron_lab.kernel_profiles.profile import KernelProfile


def profile_text(profile: KernelProfile) -> str:
    lines = [content.title(profile)]
    lines += [f"! {alert}" for alert in content.alerts(profile)]
    for row in content.rows(profile):
        lines.append(f"  {row.label:<14}{row.value}" + (f"  [{row.how}]" if row.how else ""))
    lines += _table(content.ENGINE_HEADS, content.engine_rows(profile))
    lines += _table(content.LINE_HEADS, content.line_rows(profile))
    return "\n".join(lines)


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    if not body:
        return []
    widths = [max(len(row[column]) for row in (heads, *body)) for column in range(len(heads))]
    return [
        "  "
        + "  ".join(
            _cell(text, width, column) for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (heads, *body)
    ]


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)
