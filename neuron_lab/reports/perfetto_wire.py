"""Protobuf bytes for Perfetto traces: single fields for the rare packet, numpy templates for the many.

Protobuf has one layout per message, so a million slices are one template row repeated, with the numbers that
differ written as *padded* varints (continuation bit set, zero payload): legal protobuf of a fixed width, which
numpy fills column by column. This module knows the wire format and nothing of traces or of Perfetto's schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VARINT, FIXED64, LENGTH = 0, 1, 2  # protobuf wire types

Bytes2D = npt.NDArray[np.uint8]


def varint(value: int) -> bytes:
    """A non-negative integer, seven bits a byte, least significant first."""
    assert value >= 0
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire: int) -> bytes:
    return varint(field << 3 | wire)


def number(field: int, value: int) -> bytes:
    """An integer or enum field. Negative numbers are sign-extended to 64 bits, as protobuf's int64 is."""
    return tag(field, VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def text(field: int, value: str) -> bytes:
    return block(field, utf8(value))


def block(field: int, *content: bytes) -> bytes:
    """A length-delimited field: bytes, text or a nested message."""
    data = b"".join(content)
    return tag(field, LENGTH) + varint(len(data)) + data


def utf8(value: str) -> bytes:
    """Any Python string as valid UTF-8 without NUL, which Perfetto's C strings would end at."""
    return value.replace("\0", "␀").encode("utf-8", errors="backslashreplace")


def varint_width(largest: int) -> int:
    """Bytes that hold every value up to `largest` as a padded varint."""
    return max(1, -(-int(largest).bit_length() // 7))


@dataclass(frozen=True, slots=True)
class Varint:
    """A field whose number comes from a column, in `width` bytes."""

    field: int
    column: str
    width: int


@dataclass(frozen=True, slots=True)
class Fixed64:
    """A fixed64 or double field whose eight bytes come from a column."""

    field: int
    column: str


@dataclass(frozen=True, slots=True)
class Message:
    """A nested message with a constant layout."""

    field: int
    parts: tuple[Part, ...]


Part = bytes | Varint | Fixed64 | Message


@dataclass(frozen=True, slots=True)
class _Hole:
    at: int
    width: int  # 8 raw bytes when `raw`
    column: str
    raw: bool


class Template:
    """One message layout, encoded for many rows at once."""

    def __init__(self, *parts: Part) -> None:
        self.prototype, self.holes = _flatten(parts)

    @property
    def width(self) -> int:
        return len(self.prototype)

    def encode(self, columns: Mapping[str, npt.NDArray[np.generic]], count: int) -> Bytes2D:
        """`count` rows of `width` bytes. Columns hold non-negative integers (or doubles for Fixed64)."""
        rows = np.empty((count, self.width), dtype=np.uint8)
        self.encode_into(rows, columns)
        return rows

    def encode_into(self, rows: Bytes2D, columns: Mapping[str, npt.NDArray[np.generic]]) -> None:
        rows[:, : self.width] = np.frombuffer(self.prototype, dtype=np.uint8)
        for hole in self.holes:
            values = columns[hole.column]
            if hole.raw:
                rows[:, hole.at : hole.at + 8] = _eight_bytes(values)
            else:
                _fill_varint(rows, hole, values)


def _flatten(parts: Sequence[Part]) -> tuple[bytes, list[_Hole]]:
    prototype = b""
    holes: list[_Hole] = []
    for part in parts:
        if isinstance(part, bytes):
            prototype += part
        elif isinstance(part, Varint):
            prototype += tag(part.field, VARINT)
            holes.append(_Hole(len(prototype), part.width, part.column, raw=False))
            prototype += b"\x80" * (part.width - 1) + b"\0"
        elif isinstance(part, Fixed64):
            prototype += tag(part.field, FIXED64)
            holes.append(_Hole(len(prototype), 8, part.column, raw=True))
            prototype += b"\0" * 8
        else:
            inner, inner_holes = _flatten(part.parts)
            prototype += tag(part.field, LENGTH) + varint(len(inner))
            holes += [
                _Hole(hole.at + len(prototype), hole.width, hole.column, hole.raw) for hole in inner_holes
            ]
            prototype += inner
    return prototype, holes


def _fill_varint(rows: Bytes2D, hole: _Hole, values: npt.NDArray[np.generic]) -> None:
    left = values.astype(np.uint64)
    for index in range(hole.width):
        last = index == hole.width - 1
        piece = left.astype(np.uint8)
        rows[:, hole.at + index] = piece & 0x7F if last else piece | 0x80
        left >>= np.uint64(7)


def _eight_bytes(values: npt.NDArray[np.generic]) -> Bytes2D:
    kind = "<f8" if values.dtype.kind == "f" else "<u8"
    return np.ascontiguousarray(values, dtype=kind).view(np.uint8).reshape(-1, 8)
