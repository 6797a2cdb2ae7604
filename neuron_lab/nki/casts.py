"""Conversions between stored values and the engines' float32, one rounding each way.

Floats round to nearest even; float to integer rounds to nearest even and saturates at the type's range
(Neuron SDK 2.32 release notes). Stochastic rounding, which hardware can do, is not modelled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array, DType

_BF16 = dtypes.STORED[dtypes.bfloat16]
_F32 = np.dtype(np.float32)


def to_float32(values: Array) -> Array:
    """The values as float32; the same array when they are float32 already."""
    if values.dtype == _F32:
        return values
    if values.dtype == _BF16:  # three times faster than the general conversion
        wide = values.view(np.uint16).astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    return values.astype(np.float32)


def convert(values: Array, dtype: DType, stored: np.dtype[Any]) -> Array:
    """`values` as the dtype, in its stored form; the same array when nothing changes."""
    if dtype == dtypes.tfloat32:
        return round_to_tfloat32(to_float32(values))
    if values.dtype == stored:
        return values
    if stored.kind in "iu":
        return _to_integer(values, stored)
    if stored.kind == "b":
        return values != 0
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(stored)


def _to_integer(values: Array, stored: np.dtype[Any]) -> Array:
    if values.dtype.kind == "b":
        return values.astype(stored)
    limits = np.iinfo(stored.name)
    if values.dtype.kind in "iu":
        return np.clip(values.astype(np.int64), limits.min, limits.max).astype(stored)
    rounded = np.rint(values.astype(np.float64))
    return np.clip(np.nan_to_num(rounded, nan=0.0), limits.min, limits.max).astype(stored)


def round_to_tfloat32(values: Array) -> Array:
    """float32 with the mantissa rounded to 10 bits, nearest even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values).astype(np.float32)
