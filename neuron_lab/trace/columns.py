"""Typed columns: what a producer may pass, and the one numpy form every table keeps.

A numeric column is a numpy array of the dtype the schema names. A text column is an array of int32 codes into
a list of strings that all tables of a trace share; code -1 is "no text". A column that holds one value for
every row is a broadcast view and takes no memory. This module knows dtypes and defaults, not what the columns
mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.trace.events import COMMON_COLUMNS, NO_CORE, NO_TRACK, PAYLOAD_COLUMNS, Clock, Kind

Array = npt.NDArray[Any]

NO_TEXT = -1
MISSING = -1
"""A payload integer nobody read (a size, an index, a reference). Floats use NaN, text is empty."""

CODES = np.dtype(np.int32)
REQUIRED = ("name", "start_ns")

_COMMON_DEFAULTS: dict[str, object] = {
    "duration_ns": 0,
    "rank": 0,
    "core": NO_CORE,
    "track": NO_TRACK,
    "clock": Clock.WALL.value,
    "correlation": 0,
    "parent": -1,
}
# A kernel's time on the host's clock means nothing: whoever records one says which clock it is.
_NEEDS_CLOCK = frozenset({Kind.KERNEL, Kind.ENGINE_SLICE, Kind.DMA})
_COMMON_DTYPES = {name: np.dtype(kind) for name, kind in COMMON_COLUMNS.items() if kind != "text"}


@dataclass(frozen=True, slots=True)
class Text:
    """Bulk text: `codes[i]` is the index in `vocabulary` of row i's text; -1 is no text."""

    codes: Array
    vocabulary: Sequence[str]


class StringPool:
    """Strings numbered in the order they were first seen."""

    def __init__(self) -> None:
        self._code_of: dict[str, int] = {}
        self.strings: list[str] = []

    def code(self, text: str) -> int:
        code = self._code_of.get(text)
        if code is None:
            code = len(self.strings)
            self.strings.append(text)
            self._code_of[text] = code
        return code

    def codes(self, texts: Iterable[str]) -> Array:
        return np.array([self.code(text) for text in texts], dtype=CODES)


@cache
def schema_of(kind: str) -> dict[str, str]:
    """Column name → type for one kind; of an unknown kind only the common columns are known."""
    return COMMON_COLUMNS | (PAYLOAD_COLUMNS[Kind(kind)] if is_known(kind) else {})


def is_known(kind: str) -> bool:
    return kind in Kind._value2member_map_


def default_of(kind: str, column: str, column_type: str) -> object:
    """The value of a column the producer left out, or ValueError when it must not be left out."""
    if column in REQUIRED or (column == "clock" and kind in _NEEDS_CLOCK):
        raise ValueError(f"{kind} event without {column!r}")
    if column in _COMMON_DEFAULTS:
        return _COMMON_DEFAULTS[column]
    return {"text": "", "bool": False, "float64": np.nan}.get(column_type, MISSING)


def constant(value: object, length: int, dtype: npt.DTypeLike) -> Array:
    """`length` rows of one value, in no memory."""
    if length == 1:
        return np.array(
            [value], dtype=dtype
        )  # ten times faster than a broadcast view, and events come one by one
    return np.broadcast_to(np.asarray(value, dtype=dtype), (length,))


def is_constant(array: Array) -> bool:
    """True when the array is a broadcast view of one value."""
    return array.ndim == 1 and array.strides == (0,)


def take(array: Array, rows: Array) -> Array:
    """Rows of an array by mask or index; a constant stays one."""
    if not is_constant(array):
        return array[rows]
    length = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
    return constant(array[0], length, array.dtype) if length else array[:0]


def compact(array: Array) -> Array:
    """The same values, as a constant when they are all equal."""
    if is_constant(array) or array.dtype == object or len(array) < 2:
        return array
    if array[0] != array[-1] or not bool((array == array[0]).all()):
        return array
    return constant(array[0], len(array), array.dtype)


def join(parts: Sequence[Array]) -> Array:
    """One array from many; equal constants stay a constant."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    if all(is_constant(part) and part[0] == parts[0][0] for part in parts):
        return constant(parts[0][0], sum(map(len, parts)), parts[0].dtype)
    return np.concatenate(parts)


def normalise(kind: str, columns: dict[str, Any], pool: StringPool) -> tuple[dict[str, Array], frozenset[str]]:
    """A producer's columns in the form tables keep: (arrays by name, names of the text columns).

    Adds the columns the schema has and the producer left out. Raises ValueError for a column the kind does not
    have, for lengths that differ, and for numbers that do not fit.
    """
    schema = schema_of(kind)
    length = _length(kind, columns)
    arrays: dict[str, Array] = {}
    text: set[str] = set()
    for name, value in columns.items():
        column_type = schema.get(name) or _guessed_type(kind, name, value)
        if column_type == "text":
            text.add(name)
            arrays[name] = _codes(value, length, pool)
        else:
            arrays[name] = _numbers(kind, name, value, length, column_type)
    for name, column_type in schema.items():
        if name in arrays:
            continue
        default = default_of(kind, name, column_type)
        if column_type == "text":
            text.add(name)
            arrays[name] = constant(pool.code(str(default)) if default else NO_TEXT, length, CODES)
        else:
            arrays[name] = constant(default, length, column_type)
    in_schema_order = {name: arrays[name] for name in (*schema, *arrays)}
    return in_schema_order, frozenset(text)


def _length(kind: str, columns: dict[str, Any]) -> int:
    lengths = {name: len(_sized(value)) for name, value in columns.items() if _is_sized(value)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{kind} columns differ in length: {lengths}")
    return next(iter(lengths.values()), 1)


def _is_sized(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, (Text, list, tuple))


def _sized(value: Any) -> Any:
    return value.codes if isinstance(value, Text) else value


def _guessed_type(kind: str, name: str, value: object) -> str:
    if is_known(kind):
        raise ValueError(f"{kind} events have no column {name!r}; they have {', '.join(schema_of(kind))}")
    if isinstance(value, (str, Text)):
        return "text"
    dtype = np.asarray(value).dtype
    return "text" if dtype.kind in "OU" else str(dtype)


def _codes(value: Any, length: int, pool: StringPool) -> Array:
    if isinstance(value, str):
        return constant(pool.code(value) if value else NO_TEXT, length, CODES)
    if isinstance(value, Text):
        # One more entry at the end, so that code -1 (no text) picks it.
        lookup = np.append(pool.codes(value.vocabulary), np.int32(NO_TEXT)).astype(CODES)
        return lookup[value.codes]
    return np.array([pool.code(text) if text else NO_TEXT for text in value], dtype=CODES)


def _numbers(kind: str, name: str, value: Any, length: int, column_type: str) -> Array:
    wanted = _COMMON_DTYPES.get(name) or np.dtype(column_type)
    given = np.asarray(value)
    if given.size and not _fits(given, wanted):
        raise ValueError(
            f"{kind} column {name!r} is {wanted}; {given.dtype} value {_outlier(given, wanted)} does not fit"
        )
    array = given.astype(wanted, copy=False)
    if not array.ndim:
        return constant(array, length, wanted)
    # A field of a structured array would keep the whole array alive.
    return array if is_constant(array) else np.ascontiguousarray(array)


def _fits(given: Array, wanted: np.dtype[Any]) -> bool:
    if given.dtype == wanted or wanted.kind == "f":
        return given.dtype.kind in "iufb"
    if wanted.kind == "b":
        return given.dtype.kind == "b"
    if given.dtype.kind == "b" or np.can_cast(given.dtype, wanted):
        return True
    limits = np.iinfo(wanted)
    return given.dtype.kind in "iu" and int(given.min()) >= limits.min and int(given.max()) <= limits.max


def _outlier(given: Array, wanted: np.dtype[Any]) -> object:
    if given.dtype.kind not in "iu" or wanted.kind not in "iu":
        return given.flat[0]
    return max(int(given.max()), int(given.min()), key=abs)
