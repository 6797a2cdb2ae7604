"""`nl` functions on tiles: each returns a new SBUF tile. They are also the `op=` of `nki.isa` instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuron_lab.nki import activations, alu, dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.instruction import Opcode
from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.run import current
from neuron_lab.nki.storage import HBM, PSUM
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows, rows_float32, write

_ELEMENTWISE = Opcode("elementwise")
RANDOM = Opcode("rand")
_F32 = np.float32
_NOT_COMPILED = "has no instruction: it simulates, but the real compiler refuses it"


def _result(like: NkiTensor, dtype: Any) -> NkiTensor:
    from neuron_lab.nki.language.allocation import ndarray

    return ndarray(like.shape, dtype or like.dtype)


def _tile(value: Any, function: str) -> NkiTensor:
    if not isinstance(value, NkiTensor):
        raise refusal(f"nl.{function}", f"{type(value).__name__} is no tile", cure="load it into SBUF first")
    if value.buffer in HBM:
        raise refusal(
            f"nl.{function}",
            f"an operand is in {value.buffer.value}",
            cure="load it with nl.load",
            value=value.buffer,
        )
    return value


def record(function: str, engine: str, dst: NkiTensor, sources: tuple[Any, ...]) -> None:
    """The instruction of an `nl` function, which the compiler chooses."""
    _ELEMENTWISE.end(current(), engine, (dst,), sources, None, {"function": function})


def _both(x: Any, y: Any, function: str) -> tuple[NkiTensor, NkiTensor | None]:
    """The tile that gives shape and dtype, and the other one if it is a tile; no broadcasting between tiles."""
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        first, second = _tile(x, function), _tile(y, function)
        if first.shape != second.shape:
            raise refusal(
                f"nl.{function}",
                f"tiles {list(first.shape)} and {list(second.shape)} do not broadcast",
                cure="use nl.broadcast_to, or nisa.tensor_scalar for a [P, 1] operand",
                value=second.shape,
                limit=first.shape,
            )
        return first, second
    return _tile(x if isinstance(x, NkiTensor) else y, function), None


def _operand(value: Any) -> Any:
    return rows_float32(value) if isinstance(value, NkiTensor) else _F32(value)


def _bits(value: Any) -> Any:
    return rows(value) if isinstance(value, NkiTensor) else value


def binary(name: str, compute: Callable[[Any, Any], Any], doc: str, note: str = "") -> Callable[..., NkiTensor]:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        like, _ = _both(x, y, name)
        if note:
            current().find("does not compile", f"nl.{name} {note}")
        dst = _result(like, dtype)
        with np.errstate(all="ignore"):
            values = np.asarray(compute(_operand(x), _operand(y)))
        write(dst, values)
        record(name, "gpsimd" if name == "power" else "vector", dst, (x, y))
        return dst

    return _named(function, name, doc)


def bit_binary(name: str, doc: str) -> Callable[..., NkiTensor]:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        like, _ = _both(x, y, name)
        _integers(name, x, y)
        dst = _result(like, dtype)
        swapped = not isinstance(x, NkiTensor)
        first, second = (y, x) if swapped else (x, y)
        write(dst, alu.bitwise(name, rows(first), _bits(second), swapped))
        record(name, "vector", dst, (x, y))
        return dst

    return _named(function, name, doc)


def _integers(name: str, *operands: Any) -> None:
    for operand in operands:
        if isinstance(operand, NkiTensor) and not operand.dtype.is_integer:
            raise refusal(f"nl.{name}", f"operand of {operand.dtype}", cure="view it as an integer dtype")


def unary(
    name: str, compute: Callable[[Array], Any], doc: str, engine: str = "scalar", psum: bool = True
) -> Callable[..., NkiTensor]:
    def function(x: Any, dtype: Any = None) -> NkiTensor:
        tile = _tile(x, name)
        if not psum and tile.buffer is PSUM:
            raise refusal(
                f"nl.{name}", "the operand is in PSUM, GpSimd reads SBUF", cure="copy it with nl.copy"
            )
        dst = _result(tile, dtype)
        with np.errstate(all="ignore"):
            values = np.asarray(compute(rows_float32(tile)))
        write(dst, values)
        record(name, engine, dst, (tile,))
        return dst

    return _named(function, name, doc)


def _named(function: Callable[..., NkiTensor], name: str, doc: str) -> Callable[..., NkiTensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.nki_op = name  # type: ignore[attr-defined]
    return function


def _xor1(x: Array) -> Array:
    return np.asarray(x == 0, _F32)


add = binary("add", np.add, "x + y")
subtract = binary("subtract", np.subtract, "x - y")
multiply = binary("multiply", np.multiply, "x * y")
divide = binary("divide", np.divide, "x / y", _NOT_COMPILED)
maximum = binary("maximum", np.maximum, "The larger of x and y")
minimum = binary("minimum", np.minimum, "The smaller of x and y")
abs_max = binary("abs_max", alu.ARITHMETIC["abs_max"], "x if |x| > |y| else y")
abs_min = binary("abs_min", alu.ARITHMETIC["abs_min"], "x if |x| < |y| else y")
power = binary("power", np.power, "x ** y")
equal = binary("equal", np.equal, "x == y as 1 or 0")
not_equal = binary("not_equal", np.not_equal, "x != y as 1 or 0")
less = binary("less", np.less, "x < y as 1 or 0")
less_equal = binary("less_equal", np.less_equal, "x <= y as 1 or 0")
greater = binary("greater", np.greater, "x > y as 1 or 0")
greater_equal = binary("greater_equal", np.greater_equal, "x >= y as 1 or 0")
logical_and = binary("logical_and", np.logical_and, "1 where both are not zero")
logical_or = binary("logical_or", np.logical_or, "1 where one is not zero")
logical_xor = binary("logical_xor", np.logical_xor, "1 where exactly one is not zero")
fmod = binary("fmod", np.fmod, "Remainder with the sign of x", _NOT_COMPILED)
mod = binary("mod", np.mod, "Remainder with the sign of y", _NOT_COMPILED)

bitwise_and = bit_binary("bitwise_and", "x & y of integers")
bitwise_or = bit_binary("bitwise_or", "x | y of integers")
bitwise_xor = bit_binary("bitwise_xor", "x ^ y of integers")
left_shift = bit_binary("left_shift", "x << y of integers")
right_shift = bit_binary("right_shift", "x >> y of integers, zeros from the left")

logical_not = unary("logical_not", _xor1, "1 where x is zero", "vector")
exp = unary("exp", np.exp, "e ** x")
log = unary("log", np.log, "Natural logarithm")
sqrt = unary("sqrt", np.sqrt, "Square root")
rsqrt = unary("rsqrt", lambda x: _F32(1) / np.sqrt(x), "1 / sqrt(x), on GpSimd", "gpsimd", psum=False)
tanh = unary("tanh", np.tanh, "Hyperbolic tangent")
sigmoid = unary("sigmoid", activations.sigmoid, "1 / (1 + e ** -x)")
relu = unary("relu", lambda x: np.maximum(x, _F32(0)), "max(x, 0)")
gelu = unary("gelu", activations.gelu, "x * Phi(x)")
gelu_dx = unary("gelu_dx", activations.gelu_dx, "Derivative of gelu")
gelu_apprx_tanh = unary("gelu_apprx_tanh", activations.gelu_apprx_tanh, "gelu by tanh")
gelu_apprx_sigmoid = unary("gelu_apprx_sigmoid", activations.gelu_apprx_sigmoid, "x * sigmoid(1.702 x)")
gelu_apprx_sigmoid_dx = unary(
    "gelu_apprx_sigmoid_dx", activations.gelu_apprx_sigmoid_dx, "Derivative of gelu_apprx_sigmoid"
)
silu = unary("silu", activations.silu, "x * sigmoid(x)")
silu_dx = unary("silu_dx", activations.silu_dx, "Derivative of silu")
softplus = unary("softplus", activations.softplus, "ln(1 + e ** x)")
mish = unary("mish", activations.mish, "x * tanh(softplus(x))")
erf = unary("erf", activations.erf, "Error function")
erf_dx = unary("erf_dx", activations.erf_dx, "Derivative of erf")
reciprocal = unary("reciprocal", lambda x: _F32(1) / x, "1 / x", "vector")
abs = unary("abs", np.abs, "|x|")
square = unary("square", np.square, "x * x")
sin = unary("sin", np.sin, "Sine, accurate everywhere")
cos = unary("cos", np.cos, "Cosine")
tan = unary("tan", np.tan, "Tangent")
arctan = unary("arctan", np.arctan, "Inverse tangent")
ceil = unary("ceil", np.ceil, "Smallest integer not below x", "vector")
floor = unary("floor", np.floor, "Largest integer not above x", "vector")
trunc = unary("trunc", np.trunc, "x without its fraction", "vector")
negative = unary("negative", np.negative, "-x", "vector")
sign = unary("sign", np.sign, "-1, 0 or 1")

average = alu.Operator("average")
prelu = alu.Operator("prelu")
bypass = alu.Operator("bypass")


def invert(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """~x of integers."""
    tile = _tile(x, "invert")
    _integers("invert", tile)
    dst = _result(tile, dtype)
    write(dst, alu.bitwise("invert", rows(tile), None))
    record("invert", "vector", dst, (tile,))
    return dst


invert.nki_op = "invert"  # type: ignore[attr-defined]


def copy(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with x's values; bit for bit when the dtypes match."""
    from neuron_lab.nki.isa.movement import tensor_copy

    dst = _result(_tile(x, "copy"), dtype)
    tensor_copy(dst, x)
    return dst


copy.nki_op = "copy"  # type: ignore[attr-defined]


def where(condition: NkiTensor, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """x where the condition is not zero, else y."""
    like, _ = (
        _both(x, y, "where") if isinstance(x, NkiTensor) or isinstance(y, NkiTensor) else (condition, None)
    )
    _both(condition, like, "where")
    dst = _result(like, dtype)
    write(dst, np.where(rows(condition) != 0, _operand(x), _operand(y)))
    record("where", "vector", dst, (condition, x, y))
    return dst


def dropout(x: NkiTensor, rate: Any, dtype: Any = None) -> NkiTensor:
    """Zero with probability `rate`."""
    from neuron_lab.nki.isa.randomness import dropout as instruction

    dst = _result(_tile(x, "dropout"), x.dtype)
    instruction(dst, x, rate)
    return dst if dtype is None or dtypes.dtype_of(dtype) == dst.dtype else copy(dst, dtype)
