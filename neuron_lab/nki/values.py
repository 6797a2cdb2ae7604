"""Reading operands as numpy arrays and writing results back with one cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki import casts, dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.indirection import Indirection
from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.tensor import NkiTensor

_KEPT_FLOAT32_VIEWS = 64


def read(tensor: NkiTensor, skip_outside: bool = False) -> Array:
    """The elements in the tensor's shape, as stored: a view when direct, a copy when indirect."""
    if tensor.indirection is None:
        return tensor.array
    where, inside = resolved(tensor)
    _check_inside(tensor, inside, skip_outside)
    return tensor.storage.flat(tensor.dtype)[where]


def read_float32(tensor: NkiTensor) -> Array:
    return casts.to_float32(read(tensor))


def rows_float32(tensor: NkiTensor) -> Array:
    """(partitions, elements per partition) as float32."""
    values = casts.to_float32(read(tensor))
    return values if values.ndim == 2 else values.reshape(values.shape[0], -1)


def rows(tensor: NkiTensor) -> Array:
    """(partitions, elements per partition) as stored."""
    values = read(tensor)
    return values if values.ndim == 2 else values.reshape(values.shape[0], -1)


def kept_rows_float32(tensor: NkiTensor) -> Array:
    """As `rows_float32`, remembered until the storage is written again: matrix operands are read many times."""
    if tensor.indirection is not None or tensor.dtype == dtypes.float32:
        return rows_float32(tensor)
    storage, key = tensor.storage, tensor.key
    kept = storage.float32_views.get(key)
    if kept is not None and kept[0] == storage.version:
        return kept[1]
    if len(storage.float32_views) >= _KEPT_FLOAT32_VIEWS:
        storage.float32_views.clear()
    values = rows_float32(tensor)
    storage.float32_views[key] = (storage.version, values)
    return values


def resolved(tensor: NkiTensor) -> tuple[Array, Array]:
    """Element positions of an indirect view, and which are inside."""
    indirection = _indirection(tensor)
    index = indirection.index
    numbers = rows(index) if isinstance(index, NkiTensor) else np.array([[int(index)]])
    return indirection.positions(tensor, numbers)


def _indirection(tensor: NkiTensor) -> Indirection:
    assert tensor.indirection is not None
    return tensor.indirection


def _check_inside(tensor: NkiTensor, inside: Array, skip_outside: bool) -> None:
    if skip_outside or inside.all():
        return
    indirection = _indirection(tensor)
    first = np.argwhere(~inside)[0].tolist()
    raise refusal(
        "indirect access",
        f"an index outside 0–{indirection.limit - 1} at {first} of {tensor!r}",
        cure="correct the index, or pass oob_mode=oob_mode.skip to a DMA",
        limit=indirection.limit,
    )


def write(tensor: NkiTensor, values: Array, skip: Array | None = None, skip_outside: bool = False) -> None:
    """Store with one cast; `values` need only have as many elements. Where `skip` is true nothing is stored."""
    storage = tensor.storage
    stored = casts.convert(values, tensor.dtype, dtypes.stored_as(tensor.dtype, storage.precise))
    if stored.shape != tensor.shape:
        stored = _in_shape(tensor, stored)
    if tensor.indirection is not None:
        _scatter(tensor, stored, skip, skip_outside)
    elif skip is None:
        tensor.array[...] = stored
    else:
        np.copyto(tensor.array, stored, where=~skip.reshape(tensor.shape))


def _in_shape(tensor: NkiTensor, values: Array) -> Array:
    if values.size != tensor.size:
        raise refusal(
            "write",
            f"{tensor!r} has {tensor.size} elements, the result {values.size}",
            cure="slice the destination to the result's size",
            value=tensor.size,
            limit=values.size,
        )
    return values.reshape(tensor.shape)


def _scatter(tensor: NkiTensor, stored: Array, skip: Array | None, skip_outside: bool) -> None:
    where, inside = resolved(tensor)
    _check_inside(tensor, inside, skip_outside)
    keep = inside if skip is None else inside & ~skip.reshape(tensor.shape)
    flat: Any = tensor.storage.flat(tensor.dtype)
    flat[where[keep]] = stored[keep]
    tensor.storage.written_positions.append(where[keep])


def scalar_or_column(operand: Any, partitions: int, operation: str, label: str) -> Any:
    """A number, or a [P, 1] tensor as a float32 column that broadcasts along the free axes."""
    if not isinstance(operand, NkiTensor):
        return np.float32(operand)
    column = rows_float32(operand)
    if column.shape != (partitions, 1):
        raise refusal(
            operation,
            f"{label} is {list(operand.shape)}, expected [{partitions}, 1] or a number",
            cure="slice one column for the partitions of the data",
            value=operand.shape,
            limit=(partitions, 1),
        )
    return column
