"""`nl` reductions over the last free axes, softmax and RMS norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.isa.reduction import last_axes
from neuron_lab.nki.language.elementwise import _result, _tile, record
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read_float32, write

Axes = int | Sequence[int]


def _store(like: NkiTensor, values: Array, axes: tuple[int, ...], dtype: Any, keep: bool) -> NkiTensor:
    """A new tile; without kept axes at least one free axis of size 1 stays."""
    from neuron_lab.nki.language.allocation import ndarray

    kept = values.shape if keep else tuple(n for axis, n in enumerate(values.shape) if axis not in axes)
    dst = ndarray(kept if len(kept) >= 2 else (*kept, 1), dtype or like.dtype)
    write(dst, values)
    return dst


def _reduction(
    name: str, compute: Callable[..., Any], doc: str, always_keep: bool = False
) -> Callable[..., NkiTensor]:
    def function(x: NkiTensor, axis: Axes, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
        tile = _tile(x, name)
        axes = last_axes(tile.ndim, axis, f"nl.{name}")
        values = np.asarray(compute(read_float32(tile), axis=axes, keepdims=True), np.float32)
        dst = _store(tile, values, axes, dtype, keepdims or always_keep)
        record(name, "vector", dst, (tile,))
        return dst

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.nki_op = name  # type: ignore[attr-defined]
    return function


sum = _reduction("sum", np.sum, "Sum over the last free axes.")
max = _reduction("max", np.max, "Largest over the last free axes.")
min = _reduction("min", np.min, "Smallest over the last free axes.")
mean = _reduction("mean", np.mean, "Mean over the last free axes.")
prod = _reduction("prod", np.prod, "Product over the last free axes.")
var = _reduction("var", np.var, "Population variance; the axes are always kept.", always_keep=True)


def all(x: NkiTensor, axis: Axes, dtype: Any = None) -> NkiTensor:
    """1 where every element over the axes is not zero."""
    tile = _tile(x, "all")
    axes = last_axes(tile.ndim, axis, "nl.all")
    values = np.all(read_float32(tile) != 0, axis=axes, keepdims=True).astype(np.float32)
    dst = _store(tile, values, axes, dtype, False)
    record("all", "vector", dst, (tile,))
    return dst


def softmax(x: NkiTensor, axis: Axes = -1, dtype: Any = None) -> NkiTensor:
    """e ** (x - max) over its sum."""
    tile = _tile(x, "softmax")
    axes = last_axes(tile.ndim, axis, "nl.softmax")
    values = read_float32(tile)
    raised = np.exp(values - values.max(axis=axes, keepdims=True))
    dst = _result(tile, dtype)
    write(dst, raised / raised.sum(axis=axes, keepdims=True))
    record("softmax", "vector", dst, (tile,))
    return dst


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axes,
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """x / sqrt(sum(x²) / n + epsilon) * w."""
    tile = _tile(x, "rms_norm")
    axes = last_axes(tile.ndim, axis, "nl.rms_norm")
    values = read_float32(tile)
    scale = np.sqrt(np.square(values).sum(axis=axes, keepdims=True) / np.float32(n) + np.float32(epsilon))
    normed = values / scale
    if compute_dtype is not None:
        stored = dtypes.STORED[dtypes.dtype_of(compute_dtype)]
        normed = normed.astype(stored).astype(np.float32)
    dst = _result(tile, dtype)
    write(dst, normed * read_float32(w))
    record("rms_norm", "vector", dst, (tile, w))
    return dst
