"""The part of a summary that advises: where the cores' modelled span goes, and what stands out.

Left out, with a line that says how to ask for it, when the trace is so long that a summary would be kept
waiting.
"""

from __future__ import annotations

from collections.abc import Iterator

from neuron_lab.analysis.findings import Finding
from neuron_lab.analysis.findings.finding import Subject
from neuron_lab.analysis.findings.rules import findings_of
from neuron_lab.analysis.utilisation import CAUSES, End, Utilisation
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.hardware.interval import Interval
from neuron_lab.reports.summary_lines import COUNTED, MODELLED, Line, Section
from neuron_lab.reports.wording import count_text, share_text, time_interval_text
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace

MOST_OPERATORS = 200_000
MOST_FINDINGS = 6
LEAST_SHARE = 0.005  # smaller parts of the span are not listed


def advice_sections(trace: Trace, assumptions: Assumptions | None = None) -> tuple[Section, ...]:
    """Two sections, or the ones that have something to say."""
    count = len(trace.table(Kind.OPERATOR))
    if not count:
        return ()
    if count > MOST_OPERATORS:
        line = Line("not looked for", f"{count_text(count)} operators: call .findings() and .utilisation()")
        return (Section("Findings", (line,)),)
    subject = Subject(trace, assumptions)
    sections = [
        Section("Where the modelled span goes", tuple(_use(subject.use, subject.timeline.assumptions))),
        Section("Findings", tuple(_findings(findings_of(subject)))),
    ]
    return tuple(section for section in sections if section.lines)


def _use(use: Utilisation, assumptions: Assumptions) -> Iterator[Line]:
    if not use.cores:
        return
    for label, share in _shares(use):
        if share.high >= LEAST_SHARE:
            yield Line(label, share_text(share), MODELLED)
    if use.flops and use.model_flops_share is not None:
        yield Line(
            "of the 16-bit peak", share_text(use.model_flops_share), f"{MODELLED}; model FLOP/s, not busy time"
        )
    if assumptions.calibrated_on:
        yield Line("constants", f"calibrated on {assumptions.calibrated_on}")


def _shares(use: Utilisation) -> Iterator[tuple[str, Interval]]:
    """Each end is a schedule of its own, so the two ends of a share come in either order."""
    low, high = _end_shares(use, "low"), _end_shares(use, "high")
    for label, share in low.items():
        yield label, Interval(min(share, high[label]), max(share, high[label]))


def _end_shares(use: Utilisation, end: End) -> dict[str, float]:
    cores = use.of(end)
    span_ns = max(1, sum(core.span_ns for core in cores))
    parts = {"computing": sum(core.computing_ns for core in cores)}
    for cause in CAUSES:
        parts[f"waiting: {cause}"] = sum(core.waiting_ns[cause] for core in cores)
    parts["idle"] = sum(core.idle_ns for core in cores)
    return {label: part_ns / span_ns for label, part_ns in parts.items()}


def _findings(found: tuple[Finding, ...]) -> Iterator[Line]:
    if not found:
        yield Line("none", "no rule found anything")
    for each in found[:MOST_FINDINGS]:
        yield Line(each.severity, each.title, COUNTED)
        gain = f" (could save {time_interval_text(each.gain_ns)}, modelled)" if each.gain_ns else ""
        where = f"{each.place}: " if each.place else ""
        yield Line(f"{where}{each.cure}{gain}", "", detail=True)
    if len(found) > MOST_FINDINGS:
        yield Line(f"and {len(found) - MOST_FINDINGS} more: .findings()", "", detail=True)
