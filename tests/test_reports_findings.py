"""The summary's advice: where the span goes, what stands out, and what a long trace says instead."""

import html

from builders import Event, make_event, make_signature, make_trace

from neuron_lab.analysis.findings import findings
from neuron_lab.reports import findings_lines
from neuron_lab.reports.findings_lines import advice_sections
from neuron_lab.reports.summary import summary
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace

SMALL = make_signature(inputs=((1, 64), (64, 64)), outputs=((1, 64),), dtype="bfloat16")


def small_kernels(count: int) -> Trace:
    events: list[Event] = [make_event(start_ns=place, signature=SMALL) for place in range(count)]
    return make_trace(*events, instance="trn2.3xlarge", chip="trn2", lnc=2, cores=4, device="emulated")


def test_the_summary_says_where_the_span_goes() -> None:
    section = advice_sections(small_kernels(50))[0]
    assert section.title == "Where the modelled span goes"
    lines = {line.label: line for line in section.lines}
    assert lines["waiting: launch"].value == "89% to 100%"
    assert lines["waiting: launch"].how == "modelled"


def test_the_summary_ends_with_its_findings() -> None:
    trace = small_kernels(50)
    shown = summary(trace)
    assert shown.content.sections[-1].lines[0].value == findings(trace)[0].title
    assert "Findings" in shown.text
    assert html.escape(findings(trace)[0].cure) in shown.html


def test_nothing_found_is_said() -> None:
    assert [line.label for line in advice_sections(small_kernels(1))[-1].lines] == ["none"]


def test_without_operators_there_is_no_advice() -> None:
    assert advice_sections(make_trace(make_event(Kind.COMPILE))) == ()


def test_a_long_trace_says_how_to_ask(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(findings_lines, "MOST_OPERATORS", 10)
    (section,) = advice_sections(small_kernels(11))
    assert section.lines[0].value == "11 operators: call .findings() and .utilisation()"
