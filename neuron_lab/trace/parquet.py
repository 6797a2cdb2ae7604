"""One file per trace: `*.neuron.parquet`.

One row per event, all kinds together; a payload column is null in the rows of kinds that do not have it, and
where nobody read a value. Text columns are dictionaries. The file's own metadata holds

    neuron_lab.schema_version    decimal number
    neuron_lab.trace             JSON: header, signatures, graphs, stacks

so any Parquet reader can query the events, and nothing beside the file is needed. Kinds and columns this
version does not know are kept and written again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neuron_lab.errors import OutputError, TraceError
from neuron_lab.trace import side_tables
from neuron_lab.trace.columns import (
    CODES,
    MISSING,
    NO_TEXT,
    Array,
    StringPool,
    compact,
    constant,
    default_of,
    join,
    schema_of,
)
from neuron_lab.trace.events import COMMON_COLUMNS, SCHEMA_VERSION
from neuron_lab.trace.table import Table, Trace

SUFFIX = ".neuron.parquet"
_VERSION_KEY = b"neuron_lab.schema_version"
_TRACE_KEY = b"neuron_lab.trace"
_ROWS_PER_GROUP = 262_144  # rows written at once; bounds the memory of the null columns
_METADATA_LIMIT_BYTES = 1 << 30  # pyarrow's own limit (100 MB) would refuse files with very many stacks
_DELTA_COLUMNS = ("id", "start_ns", "duration_ns", "correlation")  # rising or similar numbers


def save(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write the whole trace; the file appears complete or not at all."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                _write(trace, file)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write the trace to {str(target)!r}: {reason}; the profile is kept: call .save(path) with "
            "another path"
        ) from error
    return target


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a file that `save` wrote, also with a schema this version only knows in part."""
    source = Path(path)
    with _opened(source) as file:
        metadata = file.schema_arrow.metadata or {}
        _check_version(source, metadata, file.schema_arrow.names)
        try:
            return _trace(file, json.loads(metadata[_TRACE_KEY]))
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            raise TraceError(f"cannot read the trace {str(source)!r}: it is damaged ({error})") from error


# --- writing ---


def _write(trace: Trace, file: Any) -> None:
    tables = [trace.table(kind) for kind in trace.kinds()]
    text = _EncodableText(table.vocabulary for table in tables)
    schema = _file_schema(tables).with_metadata(
        {
            _VERSION_KEY: str(SCHEMA_VERSION),
            _TRACE_KEY: json.dumps(
                {
                    **side_tables.pack(trace),
                    "odd_text": text.original_of,
                    "extra_columns": {table.kind: _extra_columns(table) for table in tables},
                }
            ),
        }
    )
    delta = [name for name in _DELTA_COLUMNS if name in schema.names]
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in delta],
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
    ) as writer:
        for table in tables:
            words = np.array([*text.encodable(table.vocabulary), ""], dtype=object)
            for start in range(0, len(table), _ROWS_PER_GROUP):
                rows = slice(start, start + _ROWS_PER_GROUP)
                writer.write_table(_arrow_rows(table, rows, words, schema))


def _file_schema(tables: Sequence[Table]) -> pa.Schema:
    """All columns of all tables. One name may have two types in two unknown kinds: the wider one is used."""
    columns: dict[str, pa.DataType] = {"id": pa.int64(), "kind": _TEXT_TYPE}
    types = [(name, _arrow_type(table, name)) for table in tables for name in table.columns]
    empty = Table.empty("")  # so that a trace without events is still readable by name
    types += [(name, _arrow_type(empty, name)) for name in empty.columns]
    for name, column_type in types:
        known = columns.setdefault(name, column_type)
        if known != column_type:
            pair = [pa.schema([pa.field(name, each)]) for each in (known, column_type)]
            columns[name] = pa.unify_schemas(pair, promote_options="permissive").field(name).type
    return pa.schema(list(columns.items()))


_TEXT_TYPE = pa.dictionary(pa.int32(), pa.string())


def _arrow_type(table: Table, name: str) -> pa.DataType:
    if table.is_text(name):
        return _TEXT_TYPE
    array = table.column(name)
    return pa.array(array.tolist()).type if array.dtype == object else pa.from_numpy_dtype(array.dtype)


def _arrow_rows(table: Table, rows: slice, words: Array, schema: pa.Schema) -> pa.Table:
    length = len(range(*rows.indices(len(table))))
    nulls: dict[pa.DataType, pa.Array] = {}
    columns = []
    for field in schema:
        if field.name == "kind":
            columns.append(_constant_text(str(table.kind), length))
        elif field.name in table.columns:
            columns.append(_arrow_column(table, field.name, rows, words).cast(field.type))
        else:
            if field.type not in nulls:
                nulls[field.type] = pa.nulls(length, field.type)
            columns.append(nulls[field.type])
    return pa.table(columns, schema=schema)


def _constant_text(text: str, length: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, np.int32)), pa.array([text]))


def _arrow_column(table: Table, name: str, rows: slice, words: Array) -> pa.Array:
    if table.is_text(name):
        return _text_column(table.codes(name)[rows], words)
    array = table.column(name)[rows]
    if array.dtype == object:
        return pa.array(array.tolist())
    return pa.array(np.ascontiguousarray(array), mask=_unread(table, name, array))


def _text_column(codes: Array, words: Array) -> pa.Array:
    """A dictionary of only the words these rows use: Parquet writes a dictionary whole."""
    used = np.zeros(len(words), dtype=bool)
    used[codes] = True  # code -1 marks the last entry, which is no word
    used[-1] = False
    index_of = np.cumsum(used, dtype=CODES) - 1
    indices = pa.array(index_of[codes].astype(CODES), mask=np.asarray(codes == NO_TEXT))
    return pa.DictionaryArray.from_arrays(indices, pa.array(words[used].tolist(), pa.string()))


def _extra_columns(table: Table) -> list[str]:
    """Columns beyond the schema of this version, so that a column of only nulls comes back too."""
    schema = schema_of(table.kind)
    return [name for name in table.columns if name != "id" and name not in schema]


def _unread(table: Table, name: str, array: Array) -> Array | None:
    """Mask of the values nobody read, of the payload columns this version knows."""
    if name in COMMON_COLUMNS or name not in schema_of(table.kind):
        return None
    if array.dtype.kind == "i":
        return array == MISSING
    return np.isnan(array) if array.dtype.kind == "f" else None


class _EncodableText:
    """Strings as UTF-8 can hold them.

    A lone surrogate (from an undecodable file name) cannot be written; such a string gets a stand-in, and
    `original_of` tells what it stands for.
    """

    def __init__(self, vocabularies: Iterable[Sequence[str]]) -> None:
        self.original_of: dict[str, str] = {}
        self._taken: set[str] = set()
        self._stand_in_of: dict[str, str] = {}
        odd: list[str] = []
        for vocabulary in {id(each): each for each in vocabularies}.values():
            for word in vocabulary:
                (self._taken.add if _is_encodable(word) else odd.append)(word)
        for word in odd:
            self._add(word)

    def encodable(self, words: Sequence[str]) -> list[str]:
        return [self._stand_in_of.get(word, word) for word in words] if self._stand_in_of else list(words)

    def _add(self, word: str) -> None:
        if word in self._stand_in_of:
            return
        stand_in = word.encode("utf-8", "backslashreplace").decode()
        while stand_in in self._taken:
            stand_in += "'"
        self._taken.add(stand_in)
        self._stand_in_of[word] = stand_in
        self.original_of[stand_in] = word


def _is_encodable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- reading ---


def _opened(source: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source, thrift_string_size_limit=_METADATA_LIMIT_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"cannot read the trace {str(source)!r}: {_found(source)}") from error


def _found(source: Path) -> str:
    """What is at that path instead of a Parquet file."""
    if not source.exists():
        return "there is no such file"
    if source.is_dir():
        return "it is a directory"
    try:
        with source.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        return error.strerror or str(error)
    if not head:
        return "the file is empty"
    if head.startswith(b"PAR1"):
        return "a Parquet file that is cut short or damaged"
    return f"not a Parquet file; it begins with {head!r}"


def _check_version(source: Path, metadata: Mapping[bytes, bytes], columns: Sequence[str]) -> None:
    if _VERSION_KEY not in metadata or _TRACE_KEY not in metadata:
        shown = ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")
        raise TraceError(
            f"cannot read the trace {str(source)!r}: a Parquet file with columns {shown} but without "
            f"{_VERSION_KEY.decode()} in its metadata, so not written by neuron_lab"
        )
    version = metadata[_VERSION_KEY].decode(errors="replace")
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        raise TraceError(
            f"cannot read the trace {str(source)!r}: its schema version is {version}, this neuron_lab reads "
            f"up to {SCHEMA_VERSION}; upgrade neuron_lab"
        )


def _trace(file: pq.ParquetFile, side: Mapping[str, Any]) -> Trace:
    columns = _Columns(file.schema_arrow, side["extra_columns"])
    arrays_of = {
        kind: columns.of(kind, pa.concat_tables(parts, promote_options="default"))
        for kind, parts in _rows_by_kind(file).items()
    }
    vocabulary = tuple(side["odd_text"].get(text, text) for text in columns.pool.strings)
    tables = {
        kind: _in_time_order(Table(kind, arrays, text, vocabulary))
        for kind, (arrays, text) in arrays_of.items()
    }
    return side_tables.unpack(side, tables)


def _rows_by_kind(file: pq.ParquetFile) -> dict[str, list[pa.Table]]:
    """The file's rows by kind, in whatever order they are: another tool may have sorted them."""
    by_kind: dict[str, list[pa.Table]] = {}
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group, columns=_columns_with_values(file, group))
        kinds = rows.column("kind")
        rows = rows.drop_columns("kind")
        for kind in pc.unique(kinds).to_pylist():
            by_kind.setdefault(kind, []).append(rows.filter(pc.equal(kinds, kind)))
    return by_kind


def _columns_with_values(file: pq.ParquetFile, group: int) -> list[str]:
    """Columns that are not null all through a row group: the others would only cost memory."""
    chunks = file.metadata.row_group(group)
    names = []
    for index in range(chunks.num_columns):
        chunk = chunks.column(index)
        statistics = chunk.statistics
        known_empty = (
            statistics is not None and statistics.has_null_count and statistics.null_count == chunks.num_rows
        )
        if not known_empty:
            names.append(chunk.path_in_schema.split(".")[0])
    return list(dict.fromkeys(names))


class _Columns:
    """Makes the columns a `Table` keeps from a file's; all tables share one vocabulary."""

    def __init__(self, file_schema: pa.Schema, extra: Mapping[str, Sequence[str]]) -> None:
        self.pool = StringPool()
        self._file_schema = file_schema
        self._extra = extra  # kind → its columns that the schema of this version does not have

    def of(self, kind: str, rows: pa.Table) -> tuple[dict[str, Array], frozenset[str]]:
        """One kind's columns: (arrays by name, names of the text columns)."""
        schema = {"id": "int64", **schema_of(kind)}
        present = (name for name in rows.column_names if rows.column(name).null_count < rows.num_rows)
        arrays: dict[str, Array] = {}
        text = set()
        for name in dict.fromkeys((*schema, *self._extra.get(kind, ()), *present)):
            values = rows.column(name) if name in rows.column_names else None
            if name in schema:
                is_text = schema[name] == "text"
            else:
                is_text = _is_text(self._file_schema.field(name).type)
            if is_text:
                text.add(name)
                arrays[name] = self._codes(values, rows.num_rows)
            elif name in schema:
                arrays[name] = _known_numbers(kind, name, schema[name], values, rows.num_rows)
            else:
                arrays[name] = _unknown_values(values, rows.num_rows)
        return arrays, frozenset(text)

    def _codes(self, values: pa.ChunkedArray | None, length: int) -> Array:
        if values is None:
            return constant(NO_TEXT, length, CODES)
        return compact(join([self._chunk_codes(chunk) for chunk in values.chunks]))

    def _chunk_codes(self, chunk: pa.Array) -> Array:
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_encode()
        codes = np.append(self.pool.codes(chunk.dictionary.to_pylist()), CODES.type(NO_TEXT))
        return codes[chunk.indices.fill_null(len(codes) - 1).to_numpy()]


def _is_text(arrow_type: pa.DataType) -> bool:
    value_type = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    return bool(pa.types.is_string(value_type) or pa.types.is_large_string(value_type))


def _known_numbers(
    kind: str, name: str, column_type: str, values: pa.ChunkedArray | None, length: int
) -> Array:
    if values is None:
        return constant(default_of(kind, name, column_type), length, column_type)
    if values.null_count:
        values = values.fill_null(pa.scalar(default_of(kind, name, column_type), values.type))
    return compact(values.to_numpy().astype(column_type, copy=False))


def _unknown_values(values: pa.ChunkedArray | None, length: int) -> Array:
    """As numbers when that is what they are, else as Python objects, None where the file has null."""
    if values is None:
        return constant(None, length, object)
    primitive = pa.types.is_primitive(values.type) and values.null_count == 0
    return compact(values.to_numpy()) if primitive else np.fromiter(values.to_pylist(), object, length)


def _in_time_order(table: Table) -> Table:
    starts = table.column("start_ns")
    return table if bool((np.diff(starts) >= 0).all()) else table.where(np.argsort(starts, kind="stable"))
