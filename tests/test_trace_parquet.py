"""Saving and loading: everything comes back, foreign and newer files are refused in words."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from builders import assert_same_trace, make_event, make_signature, make_trace, rows

from neuron_lab.errors import OutputError, TraceError
from neuron_lab.trace import parquet
from neuron_lab.trace.events import COMMON_COLUMNS, PAYLOAD_COLUMNS, Frame, GraphSpec, Kind, Signature
from neuron_lab.trace.table import Trace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.neuron.parquet"


def round_trip(trace: Trace, path: Path) -> Trace:
    return parquet.load(parquet.save(trace, path))


def one_of_each_kind() -> Trace:
    values: dict[str, Any] = {"text": "word", "bool": True, "float64": 2.5}
    events = [
        make_event(
            kind,
            start_ns=7 * index,
            **{name: values.get(column_type, index) for name, column_type in columns.items()},
        )
        for index, (kind, columns) in enumerate(PAYLOAD_COLUMNS.items())
    ]
    frames = (Frame("model.py", 12, "forward"), Frame("run.py", 3, "<module>"))
    graph = GraphSpec("graph_0", (make_signature("aten::mm"), make_signature("aten::add", [(4,)], [(4,)])))
    return make_trace(
        *events,
        graphs=[graph],
        stacks=[frames, frames[1:]],
        signatures=[make_signature(stack=1), Signature("neuron::graph", graph=0, compiles=False, static="x=1")],
        device="emulated",
        ranks=(0, 3),
        versions={"torch": "2.13.0"},
        dropped={"ring full": 2},
        counters={"peak_bytes": 4096.0},
        error="ValueError: bad batch",
    )


def test_a_trace_with_every_kind_comes_back_unchanged(path: Path) -> None:
    trace = one_of_each_kind()
    assert_same_trace(round_trip(trace, path), trace)


def test_a_trace_without_events_comes_back(path: Path) -> None:
    trace = make_trace(name="nothing happened")
    loaded = round_trip(trace, path)
    assert_same_trace(loaded, trace)
    assert len(loaded) == 0


@pytest.mark.parametrize(
    "name",
    [
        "C:\\new\\table\\run_1",
        "naïve ⟶ 漢字 \U0001f600",
        "nul\0inside",
        'quote " and \n newline',
        "lone \udc80",
        "<b>",
    ],
)
def test_any_text_comes_back_exactly(path: Path, name: str) -> None:
    trace = make_trace(
        make_event(Kind.MARK, name=name), make_event(Kind.GRAPH_BREAK, reason=name), name=name, error=name
    )
    loaded = round_trip(trace, path)
    assert loaded.table(Kind.MARK).strings("name") == [name]
    assert loaded.table(Kind.GRAPH_BREAK).strings("reason") == [name]
    assert (loaded.header.name, loaded.header.error) == (name, name)


def test_the_stand_in_of_unencodable_text_is_not_mixed_up_with_real_text(path: Path) -> None:
    names = ["\udc80", "\\udc80", "\\udc80'"]
    loaded = round_trip(make_trace(*[make_event(Kind.MARK, name=name) for name in names]), path)
    assert loaded.table(Kind.MARK).strings("name") == names


def test_a_value_nobody_read_is_null_in_the_file_and_missing_again_after_loading(path: Path) -> None:
    trace = make_trace(make_event(Kind.COPY, size_bytes=-1), make_event(Kind.COPY, size_bytes=4096))
    loaded = round_trip(trace, path)
    assert pq.read_table(path).column("size_bytes").to_pylist() == [None, 4096]
    assert loaded.table(Kind.COPY).column("size_bytes").tolist() == [-1, 4096]


def test_an_unread_float_is_null_in_the_file(path: Path) -> None:
    round_trip(make_trace(make_event(Kind.COUNTER, unit="bytes")), path)
    assert pq.read_table(path).column("value").to_pylist() == [None]
    assert np.isnan(parquet.load(path).table(Kind.COUNTER).column("value")).tolist() == [True]


def test_any_parquet_reader_sees_one_row_per_event(path: Path) -> None:
    parquet.save(
        make_trace(make_event(start_ns=5), make_event(Kind.COPY, size_bytes=12, direction="d2h")), path
    )
    table = pq.read_table(path, columns=["kind", "name", "start_ns", "size_bytes", "direction"])
    assert table.to_pylist() == [
        {"kind": "operator", "name": "aten::mm", "start_ns": 5, "size_bytes": None, "direction": None},
        {"kind": "copy", "name": "copy", "start_ns": 0, "size_bytes": 12, "direction": "d2h"},
    ]


def test_every_common_column_is_in_the_file_even_without_events(path: Path) -> None:
    parquet.save(make_trace(), path)
    assert {"kind", "id", *COMMON_COLUMNS} <= set(pq.read_schema(path).names)


def test_unknown_kinds_survive_two_round_trips(path: Path) -> None:
    event = make_event("teleport", name="t", distance=2.5, target="Mars", hops=np.int16(3), parts=[1], empty="")
    trace = make_trace(event, make_event())
    once = round_trip(trace, path)
    twice = round_trip(once, path)
    assert_same_trace(twice, trace)
    assert "teleport" in twice.kinds()
    assert rows(twice, "teleport", "distance", "target", "hops", "empty") == [(2.5, "Mars", 3, "")]


def rewritten(path: Path, **columns: pa.Array) -> None:
    """The file with more columns, as a later version might write it."""
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.append_column(name, values)
    pq.write_table(table, path)


def test_unknown_columns_of_a_known_kind_survive(path: Path) -> None:
    parquet.save(make_trace(make_event(), make_event(start_ns=4), make_event(Kind.COPY)), path)
    rewritten(
        path,
        watts=pa.array([1.5, 2.5, None]),
        queue=pa.array(["a", None, None]),
        tags=pa.array([[1, 2], None, None]),
        pages=pa.array([7, None, None]),
    )
    loaded = round_trip(parquet.load(path), path)
    operators = loaded.table(Kind.OPERATOR)
    assert operators.column("watts").tolist() == [1.5, 2.5]
    assert operators.strings("queue") == ["a", ""]
    assert operators.column("tags").tolist() == [[1, 2], None]
    assert operators.column("pages").tolist() == [7, None]
    assert "watts" not in loaded.table(Kind.COPY).columns


def test_a_file_sorted_and_rewritten_by_another_tool_still_loads(path: Path) -> None:
    trace = make_trace(
        *[make_event(start_ns=start) for start in (1, 4, 9)],
        *[make_event(Kind.COPY, start_ns=s) for s in (2, 8)],
    )
    parquet.save(trace, path)
    table = pq.read_table(path)
    metadata = table.schema.metadata
    table = table.take(pc.sort_indices(table, [("start_ns", "descending")]))
    plain = pa.schema(
        [
            pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
            for field in table.schema
        ],
        metadata,
    )
    pq.write_table(table.cast(plain), path, row_group_size=2)
    assert_same_trace(parquet.load(path), trace)


def test_more_rows_than_one_row_group_come_back_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS_PER_GROUP", 3)
    trace = make_trace(*[make_event(name=f"op{index % 4}", start_ns=index) for index in range(11)])
    assert_same_trace(round_trip(trace, path), trace)
    assert pq.ParquetFile(path).num_row_groups == 4


def test_a_newer_file_is_refused_and_says_which_version_it_has(path: Path) -> None:
    parquet.save(make_trace(), path)
    table = pq.read_table(path)
    newer = {**table.schema.metadata, b"neuron_lab.schema_version": b"99"}
    pq.write_table(table.replace_schema_metadata(newer), path)
    with pytest.raises(TraceError, match=r"schema version is 99, this neuron_lab reads up to 1; upgrade"):
        parquet.load(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"traceEvents": []}', r"not a Parquet file; it begins with b'{.traceEvents.: '"),
        (b"", "the file is empty"),
        (b"PAR1 and then nothing", "cut short or damaged"),
    ],
    ids=["json", "empty", "cut short"],
)
def test_a_file_that_is_not_a_trace_is_named_for_what_it_is(path: Path, content: bytes, found: str) -> None:
    path.write_bytes(content)
    with pytest.raises(TraceError, match=found):
        parquet.load(path)


def test_a_parquet_file_of_somebody_else_is_refused_with_its_columns(path: Path) -> None:
    pq.write_table(pa.table({"city": ["Bern"], "height_m": [540]}), path)
    with pytest.raises(TraceError, match=r"a Parquet file with columns city, height_m but without"):
        parquet.load(path)


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        parquet.load(tmp_path / "absent.neuron.parquet")
    with pytest.raises(TraceError, match="it is a directory"):
        parquet.load(tmp_path)


def test_damaged_metadata_is_a_trace_error(path: Path) -> None:
    parquet.save(make_trace(make_event()), path)
    table = pq.read_table(path)
    side = json.loads(table.schema.metadata[b"neuron_lab.trace"])
    del side["frames"]
    damaged = {**table.schema.metadata, b"neuron_lab.trace": json.dumps(side)}
    pq.write_table(table.replace_schema_metadata(damaged), path)
    with pytest.raises(TraceError, match="it is damaged"):
        parquet.load(path)


def test_an_unwritable_path_keeps_the_profile_and_says_what_to_do(tmp_path: Path) -> None:
    target = tmp_path / "absent" / "demo.neuron.parquet"
    with pytest.raises(
        OutputError, match=r"No such file or directory; the profile is kept: call \.save\(path\)"
    ) as info:
        parquet.save(make_trace(), target)
    assert str(target) in str(info.value)


def test_a_directory_in_the_way_is_an_output_error_and_leaves_no_temporary_file(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OutputError, match="the profile is kept"):
        parquet.save(make_trace(), path)
    assert os.listdir(path.parent) == [path.name]


def test_a_failed_save_leaves_the_old_file_untouched(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.save(make_trace(name="old"), path)

    def disk_full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "_write", disk_full)
    with pytest.raises(OutputError, match="No space left on device"):
        parquet.save(make_trace(name="new"), path)
    assert parquet.load(path).header.name == "old"
    assert os.listdir(path.parent) == [path.name]


def test_saving_replaces_the_file_and_leaves_nothing_else(path: Path) -> None:
    parquet.save(make_trace(name="old"), path)
    parquet.save(make_trace(name="new"), path)
    assert parquet.load(path).header.name == "new"
    assert os.listdir(path.parent) == [path.name]


def test_a_saved_file_has_the_permissions_the_user_asked_for(path: Path) -> None:
    before = os.umask(0o027)
    try:
        parquet.save(make_trace(), path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
