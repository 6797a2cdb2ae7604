"""One core's engines over time as a static SVG: a row per engine, filled where it works.

Readable on light and dark pages: text and axis take the page's own colour. Slices closer than a pixel are drawn
as one, so the picture stays small for any number of instructions.
"""

from __future__ import annotations

from html import escape

import numpy as np

from neuron_lab.kernel_profiles.rows import time_text
from neuron_lab.nki.timing.model import CoreTiming, engines_used
from neuron_lab.nki.timing.resources import RESOURCES, Floats

WIDTH, LEFT, ROW, BAR, AXIS = 760, 70, 22, 16, 18
COLOURS = {"tensor": "#4c78a8", "vector": "#f58518", "scalar": "#54a24b", "gpsimd": "#b279a2", "dma": "#8a8a8a"}


def timeline_svg(core: CoreTiming) -> str:
    engines, span = list(engines_used(core)), core.low.span_ns
    if not engines or span <= 0:
        return ""
    height = ROW * len(engines) + AXIS
    label = f"timeline of {len(core.log)} instructions over {time_text(span)}, low end"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {LEFT + WIDTH} {height}" '
            f'width="{LEFT + WIDTH}" height="{height}" style="max-width:100%;height:auto" '
            f'font-family="sans-serif" font-size="11" fill="currentColor"><title>{escape(label)}</title>'
        )
    ]
    for row, engine in enumerate(engines):
        top = row * ROW
        parts.append(f'<text x="0" y="{top + 13}">{escape(engine)}</text>')
        parts += [
            f'<rect x="{LEFT + x:g}" y="{top + 2}" width="{width:g}" height="{BAR}" fill="{COLOURS[engine]}"/>'
            for x, width in bars(core, engine, WIDTH / span)
        ]
    bottom = ROW * len(engines)
    parts.append(f'<path d="M{LEFT} {bottom}H{LEFT + WIDTH}" stroke="currentColor" fill="none"/>')
    parts.append(f'<text x="{LEFT}" y="{bottom + 13}">0</text>')
    parts.append(
        f'<text x="{LEFT + WIDTH}" y="{bottom + 13}" text-anchor="end">{escape(time_text(span))}</text>'
    )
    return "".join(parts) + "</svg>"


def bars(core: CoreTiming, engine: str, pixels_per_ns: float) -> list[tuple[float, float]]:
    """(x, width) of what is drawn in an engine's row, in pixels to a tenth."""
    on_it = core.low_costs.resource == RESOURCES.index(engine)
    begin = core.low.busy_from_ns[on_it]
    busy = core.low_costs.busy_ns[on_it]
    order = np.argsort(begin, kind="stable")
    first, last = begin[order] * pixels_per_ns, (begin + busy)[order] * pixels_per_ns
    return [(round(x, 1), max(round(stop - x, 1), 0.1)) for x, stop in _joined(first, last)]


def _joined(first: Floats, last: Floats) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for x, stop in zip(first.tolist(), last.tolist(), strict=True):
        if joined and x - joined[-1][1] < 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((x, stop))
    return joined
