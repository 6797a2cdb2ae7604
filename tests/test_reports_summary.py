"""What the summary says, word for word, and that names cannot break it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from builders import Event, make_event, make_signature, make_trace

from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.hardware.interval import Interval
from neuron_lab.reports.summary import Summary, summary
from neuron_lab.reports.wording import bytes_text, count_text, printable, time_interval_text, time_text
from neuron_lab.trace.events import Kind

EMULATED = {
    "device": "emulated",
    "instance": "trn2.3xlarge",
    "chip": "trn2",
    "lnc": 2,
    "cores": 4,
    "hbm_limit_bytes": 25_769_803_776,
}
HOSTILE = '<img src=x onerror="alert(1)"> & \' </table>'


def said(*events: Event, **header: object) -> dict[str, str]:
    """The summary's lines: label → value and how it is known."""
    content = summary(make_trace(*events, **{**EMULATED, **header})).content
    return {
        line.label: f"{line.value} [{line.how}]" if line.how else line.value
        for section in content.sections
        for line in section.lines
    }


class Cells(HTMLParser):
    """The text of every table cell, and the tags used."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def cells(shown: Summary) -> Cells:
    parser = Cells()
    parser.feed(shown.html)
    parser.close()
    assert parser.open == []
    return parser


def test_it_begins_with_the_device_and_says_that_it_is_emulated() -> None:
    text = summary(make_trace(**{**EMULATED, "name": "decode"})).text
    assert text.splitlines()[0] == "Profile decode: emulated on CPU, trn2.3xlarge (trn2), LNC 2, 4 cores"


@pytest.mark.parametrize(("device", "expected"), [("hardware", "on hardware"), ("none", "no neuron device")])
def test_another_device_is_not_called_emulated(device: str, expected: str) -> None:
    assert summary(make_trace(device=device)).content.device == expected


def test_wall_time_is_measured() -> None:
    assert said(duration_ns=12_345_678)["wall time"] == "12.3 ms [measured]"


def test_modelled_time_is_an_interval_with_its_limit() -> None:
    signature = make_signature("aten::mm", [(64, 64), (64, 64)], [(64, 64)])
    events = [make_event(start_ns=at * 9000, signature=signature) for at in range(4)]
    span = model_timeline(make_trace(*events, **EMULATED)).span_ns
    assert span is not None
    assert said(*events)["modelled span"] == (
        f"{time_interval_text(span)} [modelled, limited by host launches]"
    )


def test_a_large_kernel_is_limited_by_its_engine() -> None:
    side = 8192
    signature = make_signature("aten::mm", [(side, side)] * 2, [(side, side)], dtype="bfloat16")
    assert said(make_event(signature=signature))["modelled span"].endswith("[modelled, limited by tensor]")


def test_without_a_chip_nothing_is_modelled() -> None:
    found = said(make_event(signature=make_signature()), chip="", instance="")
    assert found["modelled span"] == "not modelled: the trace names no chip"


def test_no_reading_is_not_zero() -> None:
    found = said(device="hardware", chip="", instance="")
    assert found["wall time"] == "no reading"
    assert found["modelled span"] == "not modelled: no operators were recorded"
    assert found["eager kernels"] == "no reading"
    assert found["CPU fallbacks"] == "no reading"
    assert found["peak"] == "no reading"


def test_what_was_counted_and_did_not_happen_is_zero() -> None:
    found = said(make_event())
    assert found["graph breaks"] == "0 [counted]"
    assert found["recompiles"] == "0 [counted]"
    assert found["CPU fallbacks"] == "0 [counted]"
    assert found["new in this process"] == "0 [counted]"


def test_breaks_are_listed_by_place_with_count_and_reason() -> None:
    event = make_event(
        Kind.GRAPH_BREAK,
        place="x.py:2",
        cell="In [3], line 2",
        source='    print("dbg")',
        reason="print() is called; remove it",
    )
    found = said(event, event, event)
    assert found["graph breaks"] == "3 at 1 place [counted]"
    assert found['In [3], line 2  print("dbg")'] == "3 × print() is called; remove it"


def test_recompiles_name_the_variable_and_its_values_and_the_limit() -> None:
    again = [
        make_event(Kind.RECOMPILE, place="x.py:1", variable="k", old=str(k), new=str(k + 1))
        for k in range(2, 9)
    ]
    limit = make_event(Kind.RECOMPILE, place="y.py:1", variable="k", old="9", new="10", limit_reached=True)
    found = said(*again, limit, limit)
    assert found["recompiles"] == "7 [counted]"
    assert found["x.py:1"] == "7 × k: 2 → 3, 3 → 4, 4 → 5, …"
    assert found["recompile limit"] == "reached: 2 calls ran uncompiled [counted]"


def growing(tokens: int) -> list[Event]:
    """A cache that grows by one each token, so that each token needs a kernel of its own."""
    events = []
    for at in range(tokens):
        signature = make_signature("aten::mm", [(64, 64), (64, at + 1)], [(64, at + 1)])
        events.append(make_event(start_ns=at * 10_000, signature=signature))
        events.append(make_event(Kind.EAGER_KERNEL, start_ns=at * 10_000, signature=signature, place="a.py:7"))
        events.append(make_event(Kind.STEP, name="token", index=at, start_ns=at * 10_000, duration_ns=10_000))
    return events


def test_eager_kernels_are_counted_per_step() -> None:
    content = summary(make_trace(*growing(6), **EMULATED)).content
    lines = {line.label: line.value for line in content.sections[2].lines}
    assert lines["runs"] == "6 of 6 distinct kernels"
    assert lines["kernels per token"] == "1 distinct, 1 new in this process"
    assert lines["every token needs other kernels"] == (
        "1 that no earlier token used: a shape keeps growing, and a fresh process compiles them token by token"
    )
    assert lines["aten::mm"] == "6 new, first at a.py:7"
    assert lines["compiling them"] == "6 s to 180 s"


def test_steps_show_their_measured_time() -> None:
    steps = [
        make_event(Kind.STEP, name="token", index=i, start_ns=i * 9000, duration_ns=(i + 1) * 1000)
        for i in range(3)
    ]
    assert said(*steps)["wall time per token"] == "median 2 µs (1 µs to 3 µs) over 3 [measured]"


def test_fallbacks_name_operator_bytes_place_and_the_dated_list() -> None:
    event = make_event(Kind.FALLBACK, name="aten::sort", size_bytes=2048)
    found = said(event, event)
    assert found["CPU fallbacks"] == "2, 4.0 KiB moved [counted]"
    assert found["aten::sort"] == "2 × falls back per the April 2026 list, 4.0 KiB"


def test_copies_say_where_to() -> None:
    assert said(make_event(Kind.COPY, direction="d2h", size_bytes=1024))["copies to the host"] == (
        "1, 1.0 KiB, 1 µs [measured]"
    )


def test_memory_peak_stands_against_the_limit() -> None:
    found = said(make_event(Kind.ALLOC, size_bytes=4 << 20, allocated_bytes=4 << 20, core=1))
    assert found["core 1 peak"] == "4.0 MiB of 24.0 GiB [measured; limit documented]"


def test_an_error_and_dropped_records_come_first() -> None:
    content = summary(make_trace(error="ValueError: bad batch", dropped={"ring full": 3}, **EMULATED)).content
    assert content.alerts == (
        "the profiled block raised ValueError: bad batch; this is what was recorded until then",
        "3 records dropped (ring full 3): counts and sums below are too low",
    )
    lines = Summary(content).text.splitlines()
    assert lines[1] == f"! {content.alerts[0]}"
    assert lines[2] == f"! {content.alerts[1]}"


def test_top_operators_are_those_with_the_most_wall_time() -> None:
    events = [make_event(name=f"op{i}", start_ns=i * 9000, duration_ns=i * 1000) for i in range(1, 12)]
    content = summary(make_trace(*events)).content
    assert [row.name for row in content.operators] == [f"op{i}" for i in range(11, 3, -1)]
    assert content.operators_left_out == 3
    assert content.operators[0].wall == "11 µs"


def test_an_operator_that_never_ended_has_no_wall_time() -> None:
    content = summary(make_trace(make_event(duration_ns=-1))).content
    assert content.operators[0].wall == "no reading"


def test_wd_4_odd_but_ordinary_names() -> None:
    shown = summary(make_trace(make_event(name="<lambda>")))
    assert "<lambda>" in shown.text
    assert ["<lambda>", "1", "1 µs", "—"] in cells(shown).rows


def test_names_are_text_wherever_they_appear() -> None:
    shown = summary(
        make_trace(
            make_event(name=HOSTILE),
            make_event(Kind.GRAPH_BREAK, place=HOSTILE, source=HOSTILE, reason=HOSTILE),
            make_event(Kind.RECOMPILE, place=HOSTILE, variable=HOSTILE, old=HOSTILE, new=HOSTILE),
            make_event(Kind.EAGER_KERNEL, name=HOSTILE, place=HOSTILE),
            make_event(Kind.FALLBACK, name=HOSTILE, reason=HOSTILE),
            make_event(Kind.STEP, name=HOSTILE),
            make_event(Kind.COPY, direction=HOSTILE),
            **{**EMULATED, "name": HOSTILE, "error": HOSTILE, "instance": HOSTILE, "dropped": {HOSTILE: 1}},
        )
    )
    drawn = cells(shown)
    assert drawn.tags <= {
        "div",
        "p",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "ul",
        "li",
        "small",
    }
    assert [HOSTILE, "1", "1 µs", "—"] in drawn.rows
    assert HOSTILE in shown.text


def test_control_characters_cannot_reach_the_terminal() -> None:
    shown = summary(make_trace(make_event(name="a\x1b[31m\nb\u202e\ud800"), name="x\ny"))
    assert r"a\x1b[31m\nb\u202e\ud800" in shown.text
    assert all(line.isprintable() for line in shown.text.splitlines())
    assert shown.html.encode()


def test_text_and_html_say_the_same() -> None:
    shown = summary(make_trace(*growing(3), **EMULATED, duration_ns=5_000))
    figures = {cell for row in cells(shown).rows for cell in row}
    for section in shown.content.sections:
        for line in section.lines:
            assert line.value in shown.text
            assert line.value in figures


def test_the_html_brings_no_colours_and_no_scripts() -> None:
    shown = summary(make_trace(*growing(3), **EMULATED))
    assert "color" not in shown.html
    assert "script" not in shown.html
    assert "background" not in shown.html


def test_a_notebook_gets_text_and_html_in_one_bundle() -> None:
    shown = summary(make_trace(make_event()))
    assert shown._repr_mimebundle_() == {"text/plain": shown.text, "text/html": shown.html}
    assert shown._repr_mimebundle_(include={"text/plain"}) == {"text/plain": shown.text}
    assert shown._repr_mimebundle_(exclude={"text/html"}) == {"text/plain": shown.text}
    assert repr(shown) == str(shown) == shown.text


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (1_234, "1.23 µs"),
        (999_999, "1.00 ms"),
        (45_600_000, "45.6 ms"),
        (1.5e9, "1.50 s"),
        (123.4e9, "123 s"),
        (3.6e12, "3,600 s"),
        (None, "no reading"),
    ],
)
def test_times_have_three_figures_and_the_unit_that_fits(duration_ns: float | None, expected: str) -> None:
    assert time_text(duration_ns) == expected


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (25_769_803_776, "24.0 GiB"), (None, "no reading")],
)
def test_bytes_are_binary_multiples(size_bytes: int | None, expected: str) -> None:
    assert bytes_text(size_bytes) == expected


def test_an_interval_shows_both_ends() -> None:
    assert time_interval_text(Interval(1_500, 2_000_000)) == "1.50 µs to 2 ms"


def test_counts_and_text_in_words() -> None:
    assert [count_text(1234567), count_text(2.5), count_text(None)] == ["1,234,567", "2.5", "no reading"]
    assert printable("plain ü") == "plain ü"
