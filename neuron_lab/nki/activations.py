"""The scalar engine's function table, computed in float32.

Outside the documented input range the hardware's result is undefined; only `sin` is reproduced there, with the
cubic that the official simulator extrapolates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neuron_lab.nki.dtypes import Array

_F32 = np.float32
_ERF_STEP = 1 / 256
_ERF_END = 6.0  # erf is 1 in float64 from here on
_SQRT_HALF = 0.7071067811865476
_TANH_SCALE = 0.7978845608028654  # sqrt(2 / pi)
_CUBE = 0.044715


@functools.cache
def _erf_nodes() -> Array:
    count = int(_ERF_END / _ERF_STEP) + 2
    return np.array([math.erf(i * _ERF_STEP) for i in range(count)])


def _erf_slope(x: Array) -> Array:
    return (2 / math.sqrt(math.pi)) * np.exp(-x * x)


def erf(x: Any) -> Array:
    """Cubic Hermite interpolation between exact values: within one unit of float32's last place."""
    wide = np.asarray(x, np.float64)
    size = np.minimum(np.abs(wide), _ERF_END)
    at = np.nan_to_num(size / _ERF_STEP).astype(np.int64)
    nodes = _erf_nodes()
    t = size / _ERF_STEP - at
    left, right = nodes[at], nodes[at + 1]
    slope_left = _erf_slope(at * _ERF_STEP) * _ERF_STEP
    slope_right = _erf_slope((at + 1) * _ERF_STEP) * _ERF_STEP
    rise = right - left
    value = left + t * (
        slope_left + t * (3 * rise - 2 * slope_left - slope_right + t * (slope_left + slope_right - 2 * rise))
    )
    return np.copysign(value, wide).astype(_F32)


def erf_dx(x: Array) -> Array:
    return _erf_slope(x.astype(np.float64)).astype(_F32)


def sigmoid(x: Array) -> Array:
    return _F32(0.5) * (_F32(1) + np.tanh(_F32(0.5) * x))


def softplus(x: Array) -> Array:
    return np.logaddexp(x, _F32(0))


def gelu(x: Array) -> Array:
    return _F32(0.5) * x * (_F32(1) + erf(x * _F32(_SQRT_HALF)))


def gelu_dx(x: Array) -> Array:
    density = np.exp(_F32(-0.5) * x * x) * _F32(1 / math.sqrt(2 * math.pi))
    return _F32(0.5) * (_F32(1) + erf(x * _F32(_SQRT_HALF))) + x * density


def gelu_apprx_tanh(x: Array) -> Array:
    return _F32(0.5) * x * (_F32(1) + np.tanh(_F32(_TANH_SCALE) * (x + _F32(_CUBE) * x * x * x)))


def gelu_apprx_sigmoid(x: Array) -> Array:
    return x * sigmoid(_F32(1.702) * x)


def gelu_apprx_sigmoid_dx(x: Array) -> Array:
    s = sigmoid(_F32(1.702) * x)
    return s + _F32(1.702) * x * s * (_F32(1) - s)


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def silu_dx(x: Array) -> Array:
    s = sigmoid(x)
    return s + x * s * (_F32(1) - s)


def mish(x: Array) -> Array:
    return x * np.tanh(softplus(x))


def table_sin(x: Array) -> Array:
    """The table's sine: exact inside [-pi, pi], the cubic of the end point outside."""
    beyond = np.abs(x) - _F32(math.pi)
    outside = np.copysign(beyond * beyond * beyond / _F32(6) - beyond, x)
    return np.where(beyond > 0, outside, np.sin(x)).astype(_F32)


TABLE: dict[str, Callable[[Array], Array]] = {
    "copy": lambda x: x,
    "square": np.square,
    "sigmoid": sigmoid,
    "relu": lambda x: np.maximum(x, _F32(0)),
    "gelu": gelu,
    "gelu_dx": gelu_dx,
    "gelu_apprx_tanh": gelu_apprx_tanh,
    "gelu_apprx_sigmoid": gelu_apprx_sigmoid,
    "gelu_apprx_sigmoid_dx": gelu_apprx_sigmoid_dx,
    "silu": silu,
    "silu_dx": silu_dx,
    "tanh": np.tanh,
    "softplus": softplus,
    "mish": mish,
    "erf": erf,
    "erf_dx": erf_dx,
    "exp": np.exp,
    "sign": np.sign,
    "abs": np.abs,
    "log": np.log,
    "sin": table_sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: _F32(1) / np.sqrt(x),
    "reciprocal": lambda x: _F32(1) / x,
}
NAMES = (*TABLE, "prelu")
RANGES: dict[str, tuple[float, float]] = {
    "log": (2.0**-64, 2.0**64),
    "sin": (0.0, math.pi),
    "arctan": (0.0, math.pi / 2),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
}
"""Smallest and largest magnitude a function is documented for; zero is let pass."""


def outside_range(name: str, x: Array) -> float | None:
    """An input the function is not documented for, if there is one."""
    if name not in RANGES:
        return None
    low, high = RANGES[name]
    size = np.abs(x)
    wrong = (size > high) | ((size < low) & (size != 0))
    return float(x[wrong][0]) if wrong.any() else None


def apply(name: str, x: Array, slope: Any = 0.0) -> Array:
    """Function `name` of the table; `slope` is prelu's for negative inputs."""
    with np.errstate(all="ignore"):
        if name == "prelu":
            return np.where(x > 0, x, x * np.asarray(slope, np.float32))
        return TABLE[name](x)
