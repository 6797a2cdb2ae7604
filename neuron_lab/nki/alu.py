"""The arithmetic units: what each `op=` of an instruction computes.

Arithmetic is float32 whatever the operands; comparisons and logic give 1.0 or 0.0. Bit-pattern operators take
integers only and act on the stored bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.refusal import refusal

Binary = Callable[[Any, Any], Any]
Unary = Callable[[Any], Any]

_F32 = np.float32


def _flag(compare: Binary) -> Binary:
    return lambda a, b: np.asarray(compare(a, b)).astype(_F32)


def _abs_max(a: Any, b: Any) -> Any:
    return np.where(np.abs(a) > np.abs(b), a, b)


def _abs_min(a: Any, b: Any) -> Any:
    return np.where(np.abs(a) < np.abs(b), a, b)


ARITHMETIC: dict[str, Binary] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": _flag(np.equal),
    "not_equal": _flag(np.not_equal),
    "greater_equal": _flag(np.greater_equal),
    "greater": _flag(np.greater),
    "less_equal": _flag(np.less_equal),
    "less": _flag(np.less),
    "logical_and": _flag(np.logical_and),
    "logical_or": _flag(np.logical_or),
    "logical_xor": _flag(np.logical_xor),
    "power": np.power,
    "abs_max": _abs_max,
    "abs_min": _abs_min,
}
UNARY: dict[str, Unary] = {
    "abs": np.abs,
    "square": np.square,
    "relu": lambda a: np.maximum(a, _F32(0)),
    "rsqrt": lambda a: _F32(1) / np.sqrt(a),
    "reciprocal": lambda a: _F32(1) / a,
}
BITWISE: dict[str, Binary] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,  # logical: operands are taken unsigned
}
REDUCERS: dict[str, tuple[np.ufunc, float]] = {
    "add": (np.add, 0.0),
    "subtract": (np.add, 0.0),  # 0 - x0 - x1 …
    "multiply": (np.multiply, 1.0),
    "maximum": (np.maximum, -np.inf),
    "minimum": (np.minimum, np.inf),
    "logical_and": (np.logical_and, 1.0),
    "logical_or": (np.logical_or, 0.0),
    "logical_xor": (np.logical_xor, 0.0),
    "bitwise_and": (np.bitwise_and, -1),
    "bitwise_or": (np.bitwise_or, 0),
    "bitwise_xor": (np.bitwise_xor, 0),
}
LOGICAL_REDUCERS = frozenset({"logical_and", "logical_or", "logical_xor"})


class Operator:
    """An `nl` name that is only an `op=`, not a function."""

    def __init__(self, name: str) -> None:
        self.nki_op = name
        self.__name__ = name

    def __repr__(self) -> str:
        return f"nl.{self.nki_op}"


def op_name(op: Any, operation: str, allowed: Iterable[str] | None = None) -> str:
    """The table name behind `op=`, checked against what the instruction takes."""
    name = getattr(op, "nki_op", None)
    if name is None:
        raise refusal(
            operation, f"op={op!r} is no operator", cure="pass a function of nki.language, such as nl.add"
        )
    if allowed is not None and name not in allowed:
        valid = ", ".join(f"nl.{each}" for each in allowed)
        raise refusal(
            operation, f"op=nl.{name} is not taken", cure=f"use one of {valid}", value=name, limit=valid
        )
    return str(name)


def is_bitwise(name: str) -> bool:
    return name in BITWISE or name == "invert"


def arithmetic(name: str, a: Any, b: Any, reverse: bool = False) -> Any:
    """`a op b` in float32, or `b op a`; unary names ignore b, `bypass` gives a."""
    if name == "bypass":
        return a
    with np.errstate(all="ignore"):
        if name in UNARY:
            return UNARY[name](a)
        return ARITHMETIC[name](b, a) if reverse else ARITHMETIC[name](a, b)


def bitwise(name: str, a: Array, b: Any, reverse: bool = False) -> Array:
    """On the bits of a; an integer b is taken in a's width."""
    bits = a.view(np.dtype(f"u{a.dtype.itemsize}"))
    if name == "invert":
        return np.invert(bits).view(a.dtype)
    other = _bits_of(b, bits.dtype)
    with np.errstate(all="ignore"):
        result = BITWISE[name](other, bits) if reverse else BITWISE[name](bits, other)
    return np.asarray(result, bits.dtype).view(a.dtype)


def _bits_of(b: Any, unsigned: np.dtype[Any]) -> Any:
    if isinstance(b, np.ndarray):
        return b.astype(np.int64).astype(unsigned)
    return np.array(int(b) & (2 ** (8 * unsigned.itemsize) - 1), unsigned)


def reduce_rows(name: str, values: Array, axes: tuple[int, ...]) -> Array:
    """Reduce float32 (or, for bit operators, integer) values over axes, keeping them with size 1."""
    ufunc, _ = REDUCERS[name]
    if name in LOGICAL_REDUCERS:
        values = values != 0
    result = ufunc.reduce(values, axis=axes, keepdims=True)
    if name == "subtract":
        result = -result
    return result.astype(_F32) if name in LOGICAL_REDUCERS else np.asarray(result)
