"""Tables: what a reader can ask, and that nothing can be changed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from builders import make_event, make_signature, make_trace, rows

from neuron_lab.trace.events import COMMON_COLUMNS, PAYLOAD_COLUMNS, Kind, TraceHeader
from neuron_lab.trace.table import Table, Trace


@pytest.fixture
def trace() -> Trace:
    return make_trace(
        make_event(name="b", start_ns=20, duration_ns=5, core=1),
        make_event(name="a", start_ns=10, duration_ns=-1, core=0),
        make_event(Kind.COPY, direction="h2d", size_bytes=8),
        make_event(Kind.COPY, direction="d2h", size_bytes=16, start_ns=30),
    )


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_without_events_has_all_its_columns_and_no_rows(kind: Kind) -> None:
    table = Trace(TraceHeader()).table(kind)
    assert len(table) == 0
    assert set(table.columns) == {"id", *COMMON_COLUMNS, *PAYLOAD_COLUMNS[kind]}
    assert len(table.df()) == 0


def test_an_empty_and_a_filled_table_have_columns_of_the_same_types(trace: Trace) -> None:
    filled, empty = trace.table(Kind.COPY), Table.empty(Kind.COPY)
    assert {name: filled.is_text(name) for name in filled.columns} == {
        name: empty.is_text(name) for name in empty.columns
    }
    numeric = [name for name in filled.columns if not filled.is_text(name)]
    assert [filled.column(name).dtype for name in numeric] == [empty.column(name).dtype for name in numeric]


def test_rows_are_in_time_order(trace: Trace) -> None:
    assert rows(trace, Kind.OPERATOR, "name", "start_ns", "core") == [("a", 10, 0), ("b", 20, 1)]


def test_events_that_start_together_keep_the_order_they_were_added_in() -> None:
    trace = make_trace(
        *[make_event(name=name, start_ns=start) for name, start in [("x", 5), ("y", 1), ("z", 5)]]
    )
    assert trace.table(Kind.OPERATOR).strings("name") == ["y", "x", "z"]


def test_kinds_and_length_count_events(trace: Trace) -> None:
    assert trace.kinds() == (Kind.OPERATOR, Kind.COPY)
    assert len(trace) == 4
    assert repr(trace) == "<Trace 'test': 2 operator, 2 copy>"


def test_a_trace_without_events_is_true() -> None:
    assert Trace(TraceHeader())


def test_a_kind_may_be_named_by_its_text(trace: Trace) -> None:
    assert trace.table("copy").column("size_bytes").tolist() == [8, 16]


def test_where_takes_a_mask_or_row_numbers(trace: Trace) -> None:
    table = trace.table(Kind.COPY)
    assert table.where(table.column("size_bytes") > 8).strings("direction") == ["d2h"]
    assert table.where(np.array([1, 0])).column("size_bytes").tolist() == [16, 8]
    assert len(table.where(np.zeros(2, dtype=bool))) == 0


def test_matches_finds_rows_by_text(trace: Trace) -> None:
    table = trace.table(Kind.COPY)
    assert table.matches("direction", "h2d").tolist() == [True, False]
    assert table.matches("direction", "sideways").tolist() == [False, False]
    assert trace.table(Kind.EAGER_KERNEL).matches("place", "").tolist() == []


def test_no_text_matches_the_empty_string() -> None:
    trace = make_trace(make_event(Kind.GRAPH_BREAK, reason=""), make_event(Kind.GRAPH_BREAK, reason="print"))
    assert trace.table(Kind.GRAPH_BREAK).matches("reason", "").tolist() == [True, False]


def test_codes_index_the_shared_vocabulary(trace: Trace) -> None:
    table = trace.table(Kind.COPY)
    assert [table.vocabulary[code] for code in table.codes("direction")] == ["h2d", "d2h"]
    assert table.codes("direction").dtype == np.int32
    assert trace.table(Kind.OPERATOR).vocabulary is table.vocabulary


def test_the_vocabulary_holds_only_texts_that_occur(trace: Trace) -> None:
    assert sorted(trace.table(Kind.COPY).vocabulary) == ["a", "b", "copy", "d2h", "h2d", "wall"]


def test_a_column_that_does_not_exist_is_an_error_that_lists_those_that_do(trace: Trace) -> None:
    with pytest.raises(KeyError, match=r"copy has no column 'size'; it has .*size_bytes"):
        trace.table(Kind.COPY).column("size")


def test_text_and_numbers_are_read_with_their_own_method(trace: Trace) -> None:
    with pytest.raises(TypeError, match="is text; read it with strings"):
        trace.table(Kind.COPY).column("direction")
    with pytest.raises(TypeError, match="is not text; read it with column"):
        trace.table(Kind.COPY).strings("size_bytes")


def test_columns_cannot_be_written(trace: Trace) -> None:
    with pytest.raises(ValueError, match="read-only"):
        trace.table(Kind.OPERATOR).column("start_ns")[0] = 3


def test_a_column_with_one_value_takes_no_memory_and_still_filters() -> None:
    trace = make_trace(*[make_event(start_ns=start) for start in range(100)])
    table = trace.table(Kind.OPERATOR)
    assert table.column("track").strides == (0,)
    some = table.where(table.column("start_ns") < 3)
    assert some.column("track").tolist() == [1, 1, 1]
    assert some.column("track").strides == (0,)


def test_the_data_frame_has_numbers_and_str(trace: Trace) -> None:
    frame = trace.df(Kind.COPY)
    assert frame["direction"].tolist() == ["h2d", "d2h"]
    assert all(type(value) is str for value in frame["name"])
    assert frame["size_bytes"].dtype == np.int64
    assert list(frame.columns[:3]) == ["id", "start_ns", "duration_ns"]


def test_the_data_frame_takes_any_text() -> None:
    assert make_trace(make_event(Kind.MARK, name="lone \udc80")).df(Kind.MARK)["name"].tolist() == [
        "lone \udc80"
    ]


def test_ids_number_every_event_once(trace: Trace) -> None:
    ids = [int(each) for kind in trace.kinds() for each in trace.table(kind).column("id")]
    assert sorted(ids) == [0, 1, 2, 3]


def test_signatures_are_numbered_in_order_of_first_use() -> None:
    first, second = make_signature("aten::mm"), make_signature("aten::add")
    trace = make_trace(make_event(signature=first), make_event(signature=second), make_event(signature=first))
    assert trace.signatures == (first, second)
    assert trace.table(Kind.OPERATOR).column("signature").tolist() == [0, 1, 0]


def test_the_trace_layer_imports_without_torch_pandas_or_notebook() -> None:
    code = (
        "import sys, neuron_lab.trace.recorder, neuron_lab.trace.parquet, neuron_lab.trace.merge;"
        "print([m for m in ('torch', 'pandas', 'IPython', 'ipywidgets') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
