"""The builder: intervals, defaults, mistakes of producers, memory per event."""

from __future__ import annotations

import numpy as np
import pytest
from builders import assert_same_trace, make_event, make_signature, make_trace, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_lab.trace import parquet
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.columns import Text
from neuron_lab.trace.events import COMMON_COLUMNS, PAYLOAD_COLUMNS, Frame, Kind, TraceHeader
from neuron_lab.trace.table import Trace

HEADER = TraceHeader(name="demo")


def test_extend_takes_arrays_lists_text_codes_and_single_values() -> None:
    builder = TraceBuilder()
    builder.extend(
        Kind.COPY,
        {
            "name": Text(np.array([1, 0, -1]), ["first", "second"]),
            "start_ns": np.array([1, 2, 3]),
            "direction": ["h2d", "d2h", ""],
            "size_bytes": [10, 20, 30],
            "core": 2,
            "clock": "wall",
        },
    )
    assert rows(builder.freeze(HEADER), Kind.COPY, "name", "start_ns", "direction", "size_bytes", "core") == [
        ("second", 1, "h2d", 10, 2),
        ("first", 2, "d2h", 20, 2),
        ("", 3, "", 30, 2),
    ]


def test_columns_left_out_say_that_nobody_read_them() -> None:
    builder = TraceBuilder()
    builder.add(Kind.COUNTER, name="power", start_ns=0)
    builder.add(Kind.COPY, name="copy", start_ns=0)
    builder.add(Kind.RECOMPILE, name="f", start_ns=0)
    trace = builder.freeze(HEADER)
    assert np.isnan(trace.table(Kind.COUNTER).column("value")).all()
    assert rows(trace, Kind.COPY, "size_bytes", "direction", "stream") == [(-1, "", -1)]
    assert rows(trace, Kind.RECOMPILE, "variable", "limit_reached") == [("", False)]
    assert rows(trace, Kind.COPY, "duration_ns", "rank", "core", "track", "clock", "correlation", "parent") == [
        (0, 0, -1, -1, "wall", 0, -1)
    ]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_column_has_the_type_of_the_schema(kind: Kind) -> None:
    table = make_trace(make_event(kind)).table(kind)
    for name, column_type in {**COMMON_COLUMNS, **PAYLOAD_COLUMNS[kind]}.items():
        assert table.is_text(name) == (column_type == "text")
        if column_type != "text":
            assert table.column(name).dtype == np.dtype(column_type)


def test_freeze_keeps_what_starts_in_the_interval_both_ends_included() -> None:
    builder = TraceBuilder()
    builder.extend(
        Kind.STEP, {"name": "step", "start_ns": np.array([9, 10, 15, 20, 21]), "index": np.arange(5)}
    )
    trace = builder.freeze(HEADER, start_ns=10, end_ns=20)
    assert rows(trace, Kind.STEP, "index", "start_ns") == [(1, 0), (2, 5), (3, 10)]


def test_a_builder_can_be_frozen_again_after_more_events() -> None:
    builder = TraceBuilder()
    builder.add(Kind.MARK, name="a", start_ns=1)
    first = builder.freeze(HEADER)
    builder.add(Kind.MARK, name="b", start_ns=2)
    assert builder.freeze(HEADER).table(Kind.MARK).strings("name") == ["a", "b"]
    assert first.table(Kind.MARK).strings("name") == ["a"]


def test_parents_are_found_after_sorting_and_a_parent_left_out_is_none() -> None:
    builder = TraceBuilder()
    early = builder.add(Kind.MARK, name="early", start_ns=0)
    late = builder.add(Kind.MARK, name="late", start_ns=50)
    outer = builder.add(Kind.MARK, name="outer", start_ns=40)
    for name, parent in [("in early", early), ("in late", late), ("in outer", outer), ("alone", -1)]:
        builder.add(Kind.COPY, name=name, start_ns=60, parent=parent)
    trace = builder.freeze(HEADER, start_ns=10)
    marks = {-1: None, **dict(rows(trace, Kind.MARK, "id", "name"))}
    assert [(name, marks[parent]) for name, parent in rows(trace, Kind.COPY, "name", "parent")] == [
        ("in early", None),
        ("in late", "late"),
        ("in outer", "outer"),
        ("alone", None),
    ]


def test_thousands_of_single_events_stay_in_order() -> None:
    builder = TraceBuilder()
    for index in range(9_000):
        builder.add(Kind.STEP, name="step", start_ns=index, index=index, parent=index - 1)
    assert builder.count(Kind.STEP) == len(builder) == 9_000
    table = builder.freeze(HEADER).table(Kind.STEP)
    assert (table.column("index") == np.arange(9_000)).all()
    assert (table.column("parent") == np.arange(-1, 8_999)).all()


def test_rows_after_gives_the_rows_a_live_view_has_not_seen() -> None:
    builder = TraceBuilder()
    builder.extend(Kind.STEP, {"name": "step", "start_ns": np.arange(3), "index": [0, 1, 2]})
    builder.add(Kind.STEP, name="step", start_ns=3, index=3)
    assert [chunk.arrays["index"].tolist() for chunk in builder.rows_after(Kind.STEP, 2)] == [[2], [3]]
    assert builder.rows_after(Kind.STEP, 4) == []


def test_only_used_leaves_out_what_no_event_refers_to() -> None:
    builder = TraceBuilder()
    builder.signature(make_signature("aten::unused"))
    stack = builder.stack([Frame("a.py", 1, "f")])
    builder.stack([Frame("unused.py", 1, "f")])
    used = builder.signature(make_signature("aten::mm", stack=stack))
    builder.add(Kind.OPERATOR, name="aten::mm", start_ns=0, signature=used)
    trace = builder.freeze(HEADER, only_used=True)
    assert trace.signatures == (make_signature("aten::mm", stack=0),)
    assert trace.stacks == ((Frame("a.py", 1, "f"),),)
    assert trace.table(Kind.OPERATOR).column("signature").tolist() == [0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"name": "x", "start_ns": 0, "sice_bytes": 1},
            "copy events have no column 'sice_bytes'; they have start_ns",
        ),
        ({"name": "x"}, "copy event without 'start_ns'"),
        ({"name": "x", "start_ns": np.arange(3), "size_bytes": np.arange(2)}, "copy columns differ in length"),
        ({"name": "x", "start_ns": 0, "core": 40_000}, "'core' is int16; int64 value 40000 does not fit"),
        ({"name": "x", "start_ns": 1.5}, "'start_ns' is int64; float64 value 1.5 does not fit"),
        (
            {"name": "x", "start_ns": 0, "correlation": -4},
            "'correlation' is uint64; int64 value -4 does not fit",
        ),
    ],
    ids=["typo", "no start", "lengths", "too big", "fraction", "negative"],
)
def test_a_producers_mistake_is_named(columns: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TraceBuilder().extend(Kind.COPY, columns)


@pytest.mark.parametrize("kind", [Kind.KERNEL, Kind.ENGINE_SLICE, Kind.DMA])
def test_work_on_the_device_must_say_which_clock_its_times_are_of(kind: Kind) -> None:
    with pytest.raises(ValueError, match="without 'clock'"):
        TraceBuilder().add(kind, name="k", start_ns=0)


def test_a_field_of_a_record_array_does_not_keep_the_records_alive() -> None:
    records = np.zeros(1_000, dtype=[("start", "i8"), ("rest", "S56")])
    records["start"] = np.arange(1_000)
    builder = TraceBuilder()
    builder.extend(Kind.MARK, {"name": "m", "start_ns": records["start"]})
    column = builder.freeze(HEADER).table(Kind.MARK).column("start_ns")
    assert column.strides == (8,)
    assert not np.shares_memory(column, records)


def test_an_empty_batch_adds_nothing() -> None:
    builder = TraceBuilder()
    builder.extend(Kind.OPERATOR, {"name": [], "start_ns": np.empty(0, np.int64)})
    assert builder.freeze(HEADER).kinds() == ()


def operators(count: int, *, stacks: int) -> Trace:
    """Many operators as the device core delivers them: nearly every column different."""
    builder = TraceBuilder()
    random = np.random.default_rng(0)
    stack_ids = [builder.stack([Frame(f"file{i % 7}.py", i, "f")] * 8) for i in range(stacks)]
    signature_ids = [builder.signature(make_signature("aten::mm", [(i, 3)])) for i in range(500)]
    builder.extend(
        Kind.OPERATOR,
        {
            "name": Text(random.integers(0, 50, count), [f"aten::op{i}" for i in range(50)]),
            "start_ns": np.cumsum(random.integers(1_000, 9_000, count)),
            "duration_ns": random.integers(500, 900, count),
            "core": random.integers(0, 4, count),
            "track": random.integers(1, 9, count),
            "correlation": np.arange(1, count + 1),
            "signature": random.choice(signature_ids, count),
            "stack": random.choice(stack_ids, count),
            "stream": random.integers(0, 2, count),
        },
    )
    return builder.freeze(HEADER, start_ns=1)


def test_tr_7_two_hundred_thousand_operators_with_stacks_stay_small(tmp_path: object) -> None:
    trace = operators(200_000, stacks=300)
    path = parquet.save(trace, f"{tmp_path}/long.neuron.parquet")
    assert trace.size_bytes <= 150 * 200_000  # the documented limit per operator in memory
    assert path.stat().st_size <= 20 * 200_000
    assert len(parquet.load(path)) == 200_000
    assert trace.header.dropped == {}


# Any text that Python can hold, including NUL and lone surrogates.
texts = st.text(st.characters(codec=None), max_size=12)
events = st.one_of(
    st.builds(
        make_event,
        st.just(Kind.COPY),
        name=texts,
        start_ns=st.integers(0, 2**60),
        duration_ns=st.integers(-1, 2**60),
        size_bytes=st.integers(-1, 2**62),
        direction=texts,
        correlation=st.integers(0, 2**64 - 1),
        rank=st.integers(0, 3),
    ),
    st.builds(
        make_event,
        st.just(Kind.COUNTER),
        name=texts,
        start_ns=st.integers(0, 2**60),
        value=st.floats(),
        unit=texts,
    ),
    st.builds(
        make_event, st.just("later kind"), start_ns=st.integers(0, 99), text=texts, amount=st.integers(-9, 9)
    ),
)
traces = st.lists(events, max_size=12).map(lambda chosen: make_trace(*chosen, ranks=(0, 1, 2, 3)))


@settings(max_examples=60, deadline=None)
@given(traces)
def test_any_trace_survives_saving_and_loading(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.neuron.parquet"
    assert_same_trace(parquet.load(parquet.save(trace, path)), trace)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=20), st.integers(0, 50), st.integers(0, 50))
def test_any_interval_keeps_exactly_the_events_that_start_in_it(
    starts: list[int], first: int, last: int
) -> None:
    trace = make_trace(*[make_event(start_ns=start) for start in starts])
    builder = TraceBuilder()
    builder.extend(Kind.OPERATOR, {"name": "op", "start_ns": np.array(starts, dtype=np.int64)})
    trace = builder.freeze(HEADER, start_ns=first, end_ns=last)
    expected = sorted(start - first for start in starts if first <= start <= last)
    assert trace.table(Kind.OPERATOR).column("start_ns").tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(traces, min_size=1, max_size=4))
def test_merging_any_traces_keeps_every_event_once(parts: list[Trace]) -> None:
    merged = Trace.merge(parts)
    assert len(merged) == sum(map(len, parts))
    ids = [int(each) for kind in merged.kinds() for each in merged.table(kind).column("id")]
    assert sorted(ids) == list(range(len(merged)))
    for kind in merged.kinds():
        names = sorted(name for part in parts for name in part.table(kind).strings("name"))
        assert sorted(merged.table(kind).strings("name")) == names
