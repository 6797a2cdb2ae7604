"""Reductions over free axes and over partitions, batch-norm statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuron_lab.nki import alu
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read, read_float32, rows, rows_float32, write

_REDUCE = Opcode("tensor_reduce")
_PARTITION_REDUCE = Opcode("tensor_partition_reduce")
_BN_STATS = Opcode("bn_stats")
_BN_AGGR = Opcode("bn_aggr")

BN_STATS_ELEMENTS = 512
_REDUCIBLE = tuple(alu.REDUCERS)


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Reduce the last free axes."""
    core = _REDUCE.begin(dst=dst, data=data)
    op_ = alu.op_name(op, "nisa.tensor_reduce", _REDUCIBLE)
    axes = last_axes(data.ndim, axis, "nisa.tensor_reduce")
    bits = alu.is_bitwise(op_)
    if bits and not data.dtype.is_integer:
        raise _REDUCE.refuse(f"nl.{op_} of {data.dtype}", "view it as an integer dtype")
    if bits and negate:
        raise _REDUCE.refuse("negate with a bit-pattern operator", "negate in a second instruction")
    values = alu.reduce_rows(op_, read(data) if bits else read_float32(data), axes)
    if values.size != dst.size or dst.shape[0] != data.shape[0]:
        raise _REDUCE.refuse(
            f"dst is {list(dst.shape)}, the result has {data.shape[0]} partitions and {values.size} elements",
            "slice dst to that size",
            value=dst.shape,
            limit=values.shape,
        )
    write(dst, -values if negate else values)
    return _REDUCE.end(core, "vector", (dst,), (data,), name, {"op": op_})


def last_axes(rank: int, axis: int | Sequence[int], operation: str) -> tuple[int, ...]:
    """Contiguous free axes that end at the last one, else an error."""
    given = [axis] if isinstance(axis, int) else list(axis)
    axes = tuple(sorted(each % rank if -rank <= each < rank else rank for each in given))
    if not axes or axes != tuple(range(rank - len(axes), rank)) or axes[0] == 0:
        from neuron_lab.nki.refusal import refusal

        raise refusal(
            operation,
            f"axis {axis} of a tensor with {rank} axes; only the last free axes reduce, never axis 0",
            cure="permute the free axes, or reduce partitions with a matmul or tensor_partition_reduce",
            value=axis,
        )
    return axes


def tensor_partition_reduce(
    dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Reduce over the partitions into one."""
    core = _PARTITION_REDUCE.begin(dst=dst, data=data)
    op_ = alu.op_name(
        op, "nisa.tensor_partition_reduce", ("add", "average", "max", "maximum", "bitwise_or", "bitwise_and")
    )
    if dst.shape[0] != 1 or dst.free_size != data.free_size:
        raise _PARTITION_REDUCE.refuse(
            f"dst is {list(dst.shape)}, the result is [1, {data.free_size}]", "slice dst to that shape"
        )
    if alu.is_bitwise(op_):
        values: Array = alu.BITWISE[op_].reduce(rows(data), axis=0, keepdims=True)  # type: ignore[attr-defined]
    elif op_ == "average":
        values = rows_float32(data).mean(axis=0, keepdims=True, dtype=np.float32)
    else:
        reducer = "maximum" if op_ == "max" else op_
        values = alu.REDUCERS[reducer][0].reduce(rows_float32(data), axis=0, keepdims=True)
    write(dst, values)
    return _PARTITION_REDUCE.end(core, "gpsimd", (dst,), (data,), name, {"op": op_})


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Count, mean and variance × count of the even-position elements, then of the odd ones."""
    core = _BN_STATS.begin(dst=dst, data=data)
    if data.free_size > BN_STATS_ELEMENTS:
        raise _BN_STATS.over(
            "elements per partition",
            data.free_size,
            BN_STATS_ELEMENTS,
            "tile_size.bn_stats_fmax",
            "split the free axis",
        )
    if dst.free_size != 6 or dst.shape[0] != data.shape[0]:
        raise _BN_STATS.refuse(
            f"dst is {list(dst.shape)}, expected [{data.shape[0]}, 6]", "allocate six columns"
        )
    values = rows_float32(data)
    write(dst, np.concatenate([_moments(values[:, 0::2]), _moments(values[:, 1::2])], axis=1))
    return _BN_STATS.end(core, "vector", (dst,), (data,), name)


def _moments(values: Array) -> Array:
    count = values.shape[1]
    if not count:
        return np.zeros((len(values), 3), np.float32)
    mean = values.mean(axis=1, dtype=np.float32)
    spread = np.square(values - mean[:, None]).sum(axis=1, dtype=np.float32)
    return np.stack([np.full_like(mean, count), mean, spread], axis=1)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Mean and population variance from (count, mean, variance × count) triples."""
    core = _BN_AGGR.begin(dst=dst, data=data)
    if data.free_size % 3:
        raise _BN_AGGR.refuse(
            f"{data.free_size} elements per partition are not triples", "pass what bn_stats wrote"
        )
    if dst.free_size != 2 or dst.shape[0] != data.shape[0]:
        raise _BN_AGGR.refuse(
            f"dst is {list(dst.shape)}, expected [{data.shape[0]}, 2]", "allocate two columns"
        )
    count, mean, spread = np.moveaxis(rows_float32(data).reshape(data.shape[0], -1, 3), 2, 0)
    with np.errstate(all="ignore"):
        total = count.sum(axis=1, keepdims=True)
        centre = (count * mean).sum(axis=1, keepdims=True) / total
        variance = (spread + count * np.square(mean - centre)).sum(axis=1, keepdims=True) / total
    write(dst, np.concatenate([centre, variance], axis=1))
    return _BN_AGGR.end(core, "vector", (dst,), (data,), name)
