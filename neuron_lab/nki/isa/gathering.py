"""Gathers by index inside SBUF, and shuffles between partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows, write

_LOCAL_GATHER = Opcode("local_gather")
_N_GATHER = Opcode("nc_n_gather")
_SHUFFLE = Opcode("nc_stream_shuffle")

_GROUP = 16  # partitions of one GpSimd processor
_MAX_INDICES = 4096
_PER_INDEX = (1, 2, 4, 8, 16, 32)
_QUADRANT = 32
_LEAVE = 255


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Every group of 16 partitions gathers runs of elements by its own list of indices."""
    core = _LOCAL_GATHER.begin(dst=dst, src_buffer=src_buffer, index=index)
    count = _check_local_gather(dst, src_buffer, index, num_elem_per_idx, num_valid_indices)
    source, numbers = rows(src_buffer), rows(index).astype(np.int64)
    result = rows(dst).copy()
    run = np.arange(num_elem_per_idx)
    for first in range(0, dst.shape[0], _GROUP):
        lanes = slice(first, first + _GROUP)
        starts = numbers[lanes].T.reshape(-1)[:count]
        columns = (starts[:, None] + run).reshape(-1)
        _check_columns(columns, source.shape[1])
        result[lanes, : len(columns)] = source[lanes][:, columns]
    write(dst, result)
    extra = {"num_elem_per_idx": num_elem_per_idx, "valid": count}
    return _LOCAL_GATHER.end(core, "gpsimd", (dst,), (src_buffer, index), name, extra)


def _check_local_gather(
    dst: NkiTensor, source: NkiTensor, index: NkiTensor, per_index: int, valid: int | None
) -> int:
    partitions = dst.shape[0]
    if partitions % _GROUP or source.shape[0] != partitions or index.shape[0] != partitions:
        raise _LOCAL_GATHER.refuse(
            f"partitions {partitions}, {source.shape[0]} and {index.shape[0]}; all equal, a multiple of 16",
            "pad to a multiple of 16",
            value=partitions,
            limit=_GROUP,
        )
    if index.dtype != dtypes.uint16:
        raise _LOCAL_GATHER.refuse(f"index is {index.dtype}", "use uint16", index.dtype, dtypes.uint16)
    if dst.dtype != source.dtype:
        raise _LOCAL_GATHER.refuse(f"dst is {dst.dtype}, src_buffer {source.dtype}", "give both one dtype")
    if per_index not in _PER_INDEX:
        raise _LOCAL_GATHER.refuse(
            f"num_elem_per_idx={per_index}", "use 1, 2, 4, 8, 16 or 32", per_index, _PER_INDEX
        )
    available = index.free_size * _GROUP
    count = available if valid is None else valid
    if count > min(available, _MAX_INDICES):
        limit = min(available, _MAX_INDICES)
        raise _LOCAL_GATHER.over(
            "number of indices", count, limit, "index tile, 4096 a core", "gather in parts"
        )
    if count * per_index > dst.free_size:
        raise _LOCAL_GATHER.over(
            "elements gathered", count * per_index, dst.free_size, "dst per partition", "grow dst"
        )
    return count


def _check_columns(columns: Array, limit: int) -> None:
    if columns.size and (columns.max() >= limit or columns.min() < 0):
        wrong = int(columns.max())
        raise _LOCAL_GATHER.over(
            "an element index", wrong, limit - 1, "elements per partition", "correct the index"
        )


def nc_n_gather(dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None) -> NkiInstruction:
    """`dst[p, j] = data[p, indices[p, j]]` over flattened free axes."""
    core = _N_GATHER.begin(dst=dst, data=data, indices=indices)
    _N_GATHER.same_rows(dst=dst, indices=indices)
    if data.shape[0] != dst.shape[0]:
        raise _N_GATHER.refuse(f"data has {data.shape[0]} partitions, dst {dst.shape[0]}", "slice both alike")
    if indices.dtype != dtypes.uint32:
        raise _N_GATHER.refuse(f"indices are {indices.dtype}", "use uint32", indices.dtype, dtypes.uint32)
    numbers = rows(indices).astype(np.int64)
    if numbers.size and numbers.max() >= data.free_size:
        raise _N_GATHER.over(
            "an index", int(numbers.max()), data.free_size - 1, "data per partition", "correct it"
        )
    write(dst, np.take_along_axis(rows(data), numbers, axis=1))
    return _N_GATHER.end(core, "gpsimd", (dst,), (data, indices), name)


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int], name: str | None = None
) -> NkiInstruction:
    """In each quadrant of 32 partitions `dst[i] = src[mask[i]]`; 255 leaves a row as it is."""
    core = _SHUFFLE.begin(dst=dst, src=src)
    mask = [int(entry) for entry in shuffle_mask]
    _check_shuffle(dst, src, mask)
    source, result = rows(src).copy(), rows(dst).copy()
    for row in range(len(result)):
        entry = mask[row % _QUADRANT]
        if entry != _LEAVE:
            result[row] = source[_shuffle_source(row - row % _QUADRANT + entry, len(source))]
    write(dst, result)
    kept = (dst,) if _LEAVE in mask else ()
    return _SHUFFLE.end(core, "vector", (dst,), (src, *kept), name)


def _shuffle_source(row: int, available: int) -> int:
    if row >= available:
        raise _SHUFFLE.over("a source row", row, available - 1, "partitions of src", "correct the mask")
    return row


def _check_shuffle(dst: NkiTensor, src: NkiTensor, mask: list[int]) -> None:
    if len(mask) != _QUADRANT:
        raise _SHUFFLE.refuse(f"a mask of {len(mask)} entries", "give 32", value=len(mask), limit=_QUADRANT)
    wrong = [entry for entry in mask if not (0 <= entry < _QUADRANT or entry == _LEAVE)]
    if wrong:
        raise _SHUFFLE.refuse(
            f"mask entry {wrong[0]}", "use 0–31, or 255 to leave a row", wrong[0], _QUADRANT - 1
        )
    if dst.dtype != src.dtype or dst.free_size != src.free_size:
        raise _SHUFFLE.refuse(
            f"dst is {list(dst.shape)} {dst.dtype}, src {list(src.shape)} {src.dtype}",
            "give both one dtype and equal elements per partition",
        )
