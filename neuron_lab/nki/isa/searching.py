"""Largest values, their positions, and runs of equal ids."""

from __future__ import annotations

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows, rows_float32, write

_MAX8 = Opcode("max8")
_FIND8 = Opcode("nc_find_index8")
_REPLACE8 = Opcode("nc_match_replace8")
_BOUNDS = Opcode("sequence_bounds")
_NONZERO = Opcode("nonzero_with_count")
_TOPK = Opcode("topk")

_EIGHT = 8
_MOST = 16384
_GROUP = 16


def _check_search(opcode: Opcode, data: NkiTensor, eight: NkiTensor, label: str) -> None:
    if not _EIGHT <= data.free_size <= _MOST:
        raise opcode.refuse(
            f"{data.free_size} elements per partition; between {_EIGHT} and {_MOST} are searched",
            "split the free axis",
            value=data.free_size,
            limit=_MOST,
        )
    if data.ndim > 3:
        raise opcode.over("rank", data.ndim, 3, "access pattern", "flatten free axes")
    if eight.free_size != _EIGHT or eight.shape[0] != data.shape[0]:
        raise opcode.refuse(
            f"{label} is {list(eight.shape)}, expected [{data.shape[0]}, 8]",
            "allocate eight columns",
            eight.shape,
        )


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """The eight largest of each partition, descending."""
    core = _MAX8.begin(dst=dst, src=src)
    _check_search(_MAX8, src, dst, "dst")
    values = rows_float32(src)
    write(dst, -np.sort(-values, axis=1)[:, :_EIGHT])
    return _MAX8.end(core, "vector", (dst,), (src,), name)


def nc_find_index8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Position of each of eight values; equal values take successive occurrences; all ones when absent."""
    core = _FIND8.begin(dst=dst, data=data, vals=vals)
    _check_search(_FIND8, data, vals, "vals")
    _check_search(_FIND8, data, dst, "dst")
    if dst.dtype not in {dtypes.uint16, dtypes.uint32}:
        raise _FIND8.refuse(f"dst is {dst.dtype}", "use uint16 or uint32")
    found = _occurrences(rows_float32(data), rows_float32(vals), range(_EIGHT))
    missing = np.iinfo(dtypes.STORED[dst.dtype]).max
    write(dst, np.where(found < 0, missing, found))
    return _FIND8.end(core, "vector", (dst,), (data, vals), name)


def _occurrences(data: Array, values: Array, order: range) -> Array:
    """[P, 8] positions, each used once, taken in the column order given; -1 when absent."""
    free = np.ones(data.shape, np.bool_)
    found = np.full(values.shape, -1, np.int64)
    lanes = np.arange(len(data))
    for column in order:
        match = (data == values[:, column : column + 1]) & free
        position = match.argmax(axis=1)
        hit = match[lanes, position]
        found[hit, column] = position[hit]
        free[lanes[hit], position[hit]] = False
    return found


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """`data` with the first unused occurrence of each value replaced, values taken from column 7 down."""
    core = _REPLACE8.begin(dst=dst, data=data, vals=vals)
    _REPLACE8.same_rows(dst=dst, data=data)
    if vals.free_size != _EIGHT or vals.shape[0] != data.shape[0]:
        raise _REPLACE8.refuse(
            f"vals is {list(vals.shape)}, expected [{data.shape[0]}, 8]", "pass what max8 wrote"
        )
    values = rows_float32(data)
    found = _occurrences(values, rows_float32(vals), range(_EIGHT - 1, -1, -1))
    replaced = values.copy()
    lanes, columns = np.nonzero(found >= 0)
    replaced[lanes, found[lanes, columns]] = np.float32(imm)
    write(dst, replaced)
    if dst_idx is not None:
        missing = np.iinfo(dtypes.STORED[dst_idx.dtype]).max
        write(dst_idx, np.where(found < 0, missing, found))
    return _REPLACE8.end(core, "vector", (dst, dst_idx), (data, vals), name)


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Start and end (exclusive) of the run of equal ids of each element; id 0 is padding: n and -1."""
    core = _BOUNDS.begin(dst=dst, segment_ids=segment_ids)
    for label, tensor in (("dst", dst), ("segment_ids", segment_ids)):
        if tensor.dtype not in {dtypes.float32, dtypes.int32}:
            raise _BOUNDS.refuse(f"{label} is {tensor.dtype}", "use float32 or int32")
    ids = rows(segment_ids)
    count = ids.shape[1]
    if ids.shape[0] != 1 or dst.size != 2 * count:
        raise _BOUNDS.refuse(
            f"dst is {list(dst.shape)} for ids {list(segment_ids.shape)}", "use [1, 2, n] for [1, n]", dst.shape
        )
    write(dst, _runs(ids[0], count))
    return _BOUNDS.end(core, "gpsimd", (dst,), (segment_ids,), name)


def _runs(ids: Array, count: int) -> Array:
    edges = np.flatnonzero(np.diff(ids)) + 1
    starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [count]])
    lengths = ends - starts
    bounds = np.stack([np.repeat(starts, lengths), np.repeat(ends, lengths)])
    return np.where(ids[None, :] == 0, np.array([[count], [-1]]), bounds)


def nonzero_with_count(
    dst: NkiTensor, src: NkiTensor, index_offset: int = 0, padding_val: int = -1, name: str | None = None
) -> NkiInstruction:
    """On partitions 0, 16, … 112: positions of non-zeros, padding, and the count in the last column."""
    core = _NONZERO.begin(dst=dst, src=src)
    if dst.dtype != dtypes.int32 or src.dtype not in {dtypes.float32, dtypes.int32}:
        raise _NONZERO.refuse(
            f"dst is {dst.dtype}, src {src.dtype}", "use int32 for dst, float32 or int32 for src"
        )
    if dst.free_size != src.free_size + 1 or dst.shape[0] != src.shape[0]:
        raise _NONZERO.refuse(
            f"dst is {list(dst.shape)}, expected [{src.shape[0]}, {src.free_size + 1}]",
            "add one column for the count",
        )
    source, result = rows(src), rows(dst).copy()
    for lane in range(0, len(source), _GROUP):
        found = np.flatnonzero(source[lane])
        result[lane] = padding_val
        result[lane, : len(found)] = found + index_offset
        result[lane, -1] = len(found)
    write(dst, result)
    return _NONZERO.end(core, "gpsimd", (dst,), (src,), name)


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, name: str | None = None
) -> NkiInstruction:
    """The K largest of n elements in each group of 16 partitions, ascending, with their indices."""
    core = _TOPK.begin(val_dst=val_dst, idx_dst=idx_dst, src=src)
    k = val_dst.free_size
    _check_topk(val_dst, idx_dst, src, n, k)
    source = rows_float32(src)
    values, indices = np.empty((src.shape[0], k), np.float32), np.empty((src.shape[0], k), np.int64)
    for first in range(0, src.shape[0], _GROUP):
        group = slice(first, first + _GROUP)
        snake = source[group].T.reshape(-1)[:n]
        order = np.argsort(snake, kind="stable")[n - k :]
        values[group], indices[group] = snake[order], order
    write(val_dst, values)
    write(idx_dst, indices)
    return _TOPK.end(core, "gpsimd", (val_dst, idx_dst), (src,), name, {"n": n, "k": k})


def _check_topk(values: NkiTensor, indices: NkiTensor, src: NkiTensor, n: int, k: int) -> None:
    if (values.dtype, indices.dtype, src.dtype) != (dtypes.bfloat16, dtypes.uint32, dtypes.bfloat16):
        raise _TOPK.refuse(
            f"dtypes {values.dtype}, {indices.dtype}, {src.dtype}", "use bfloat16 values and uint32 indices"
        )
    if src.shape[0] % _GROUP:
        raise _TOPK.refuse(f"{src.shape[0]} partitions", "use a multiple of 16", src.shape[0], _GROUP)
    if not 8 <= n < 65536:
        raise _TOPK.refuse(f"n is {n}", "use 8 to 65535", n, 65535)
    if not 1 <= k < 32768 or k > n:
        raise _TOPK.refuse(f"K is {k} of n {n}", "use 1 to min(n, 32767)", k, min(n, 32767))
    if src.free_size < -(-n // _GROUP):
        raise _TOPK.refuse(
            f"src holds {src.free_size} elements per partition, n={n} needs {-(-n // _GROUP)}", "widen src"
        )
    if indices.shape != values.shape:
        raise _TOPK.refuse(f"idx_dst is {list(indices.shape)}, val_dst {list(values.shape)}", "make them equal")
