"""Which parts of a returned tensor no instruction has written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuron_lab.nki.dtypes import Array, DType
from neuron_lab.nki.storage import Storage
from neuron_lab.nki.tensor import NkiTensor


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What of one result holds sentinels instead of values."""

    result: str
    shape: tuple[int, ...]
    elements: int
    rows: tuple[tuple[int, int], ...]  # [first, last] along axis 0, where a whole row is unwritten
    text: str


def unwritten_part(tensor: NkiTensor, label: str) -> Unwritten | None:
    """None when every element was written."""
    storage = tensor.storage
    if storage.given:
        return None
    if tensor.dtype.itemsize != storage.dtype.itemsize:
        tensor = NkiTensor(storage.shape, storage.dtype, storage)  # what was allocated, seen as itself
    missing = ~_written(storage)
    window = np.ndarray(tensor.shape, np.bool_, missing.data, tensor.offset, tensor.strides)
    count = int(np.count_nonzero(window))
    if not count:
        return None
    rows = _ranges(np.all(window.reshape(tensor.shape[0], -1), axis=1))
    return Unwritten(label, tensor.shape, count, rows, _text(tensor, label, count, rows))


def _written(storage: Storage) -> Array:
    """Per element of the storage; counted by bytes when it was also written as a dtype of another size."""
    size = storage.dtype.itemsize
    sizes = {DType(dtype).itemsize for _, _, _, dtype in storage.written_views}
    unit = size if sizes <= {size} else 1
    mask = np.zeros((storage.row_elements, size // unit), np.bool_)
    for offset, shape, strides, dtype in storage.written_views:
        each = DType(dtype).itemsize // unit
        steps = (*(stride * each for stride in strides), 1)
        np.ndarray((*shape, each), np.bool_, mask.data, offset * each, steps)[...] = True
    for positions in storage.written_positions:
        mask[positions] = True
    return mask[:, 0] if unit == size else np.ascontiguousarray(mask.all(axis=1))


def _ranges(flags: Any) -> tuple[tuple[int, int], ...]:
    """[first, last] of the runs of true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return tuple((int(start), int(end) - 1) for start, end in edges.reshape(-1, 2))


def _text(tensor: NkiTensor, label: str, count: int, rows: tuple[tuple[int, int], ...]) -> str:
    whole = ", ".join(f"{first}–{last}" if first != last else str(first) for first, last in rows[:4])
    more = ", …" if len(rows) > 4 else ""
    share = f"{count} of {tensor.size} elements were never written"
    part = f"rows {whole}{more} of axis 0; " if rows else ""
    return f"{label} {list(tensor.shape)} {tensor.dtype}: {part}{share} and hold no result"
