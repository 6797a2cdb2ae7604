"""Index patterns and selection by pattern, range or predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuron_lab.nki import alu, dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.enums import reduce_cmd
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.isa.accumulators import accumulate, read_out, vector_use
from neuron_lab.nki.storage import MemoryRegion
from neuron_lab.nki.target import PARTITIONS
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows, rows_float32, scalar_or_column, write

_IOTA = Opcode("iota")
_AFFINE_SELECT = Opcode("affine_select")
_RANGE_SELECT = Opcode("range_select")
_SELECT_REDUCE = Opcode("select_reduce")

FP32_MIN = -3.4028234663852886e38
_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_RANGE_COMPARE = ("equal", "less", "less_equal", "greater", "greater_equal")
_PREDICATES = frozenset({dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16})


_EQUAL = alu.Operator("equal")
_MAXIMUM = alu.Operator("maximum")


def iota(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """`dst[p, i…] = offset + p * channel_multiplier + sum(i_k * step_k)` in int32."""
    core = _IOTA.begin(dst=dst)
    write(dst, _pattern(_IOTA, dst, pattern, offset, channel_multiplier))
    return _IOTA.end(core, "gpsimd", (dst,), (), name)


def _pattern(
    opcode: Opcode, dst: NkiTensor, pattern: Sequence[Sequence[int]], offset: int, multiplier: int
) -> Array:
    if len(pattern) > 4:
        raise opcode.over("pattern rank", len(pattern), 4, "access pattern", "merge axes")
    if dst.shape[0] > PARTITIONS:
        raise opcode.over("partitions", dst.shape[0], PARTITIONS, "tile_size.pmax", "tile over partitions")
    counts = [int(count) for _, count in pattern]
    if int(np.prod(counts)) != dst.free_size:
        raise opcode.refuse(
            f"the pattern has {int(np.prod(counts))} elements, dst {dst.free_size} per partition",
            "make their product equal",
            value=int(np.prod(counts)),
            limit=dst.free_size,
        )
    free: Any = np.int64(int(offset))
    for axis, (step, count) in enumerate(pattern):
        free = free + (np.arange(count) * int(step)).reshape(
            [-1 if k == axis else 1 for k in range(len(pattern))]
        )
    lanes = np.arange(dst.shape[0]) * int(multiplier)
    grid = lanes[:, None] + np.broadcast_to(free, counts).reshape(1, -1)
    return grid.astype(np.int32)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = _EQUAL,
    offset: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """`on_true_tile` where the index pattern compares true with 0, else a constant."""
    core = _AFFINE_SELECT.begin(dst=dst, on_true_tile=on_true_tile)
    _AFFINE_SELECT.same_rows(dst=dst, on_true_tile=on_true_tile)
    compare = alu.op_name(cmp_op, "nisa.affine_select", _COMPARE)
    index = _pattern(_AFFINE_SELECT, dst, pattern, offset, channel_multiplier)
    keep = alu.ARITHMETIC[compare](index, 0) != 0
    if dst.dtype == on_true_tile.dtype and dst.dtype.is_integer:
        values = np.where(keep, rows(on_true_tile).astype(np.int64), int(on_false_value))
    else:
        values = np.where(keep, rows_float32(on_true_tile), np.float32(on_false_value))
    write(dst, values)
    return _AFFINE_SELECT.end(core, "gpsimd", (dst,), (on_true_tile,), name)


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = _MAXIMUM,
    range_start: int = 0,
    on_false_value: float = FP32_MIN,
    name: str | None = None,
) -> NkiInstruction:
    """Keep elements whose index passes both comparisons with per-partition bounds."""
    where = "nisa.range_select"
    core = _RANGE_SELECT.begin(dst=dst, on_true_tile=on_true_tile, bound0=bound0, bound1=bound1)
    _RANGE_SELECT.same_rows(dst=dst, on_true_tile=on_true_tile)
    if not np.isclose(on_false_value, FP32_MIN, rtol=1e-6):
        raise _RANGE_SELECT.refuse(
            f"on_false_value={on_false_value}", f"use {FP32_MIN}", on_false_value, FP32_MIN
        )
    if not on_true_tile.dtype.is_float:
        raise _RANGE_SELECT.refuse(f"on_true_tile is {on_true_tile.dtype}", "use a float dtype")
    alu.op_name(reduce_op, where, ("maximum",))
    index = np.float32(range_start) + np.arange(dst.free_size, dtype=np.float32)[None, :]
    keep = np.ones((dst.shape[0], dst.free_size), np.bool_)
    for op, bound in ((comp_op0, bound0), (comp_op1, bound1)):
        compare = alu.ARITHMETIC[alu.op_name(op, where, _RANGE_COMPARE)]
        keep &= compare(index, scalar_or_column(bound, dst.shape[0], where, "a bound")) != 0
    values = np.where(keep, rows_float32(on_true_tile), np.float32(FP32_MIN))
    register = vector_use(core, reduce_cmd, where)
    accumulate(register, reduce_cmd, "maximum", values, where)
    write(dst, values)
    read_out(register, reduce_res)
    return _RANGE_SELECT.end(core, "vector", (dst, reduce_res), (on_true_tile, bound0, bound1), name)


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Any,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_op: Any = _MAXIMUM,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """`on_true` where the predicate is not zero, else `on_false`; the register keeps the maximum."""
    where = "nisa.select_reduce"
    core = _SELECT_REDUCE.begin(dst=dst, predicate=predicate, on_true=on_true)
    _SELECT_REDUCE.same_rows(dst=dst, predicate=predicate, on_true=on_true)
    if predicate.dtype not in _PREDICATES:
        raise _SELECT_REDUCE.refuse(f"predicate is {predicate.dtype}", f"use {dtypes.names(_PREDICATES)}")
    if on_true.dtype in {dtypes.tfloat32, dtypes.int32, dtypes.uint32}:
        raise _SELECT_REDUCE.refuse(f"on_true is {on_true.dtype}", "use float32 or a 16-bit dtype")
    if on_true.buffer is predicate.buffer is MemoryRegion.psum:
        raise _SELECT_REDUCE.refuse("on_true and predicate are both in PSUM", "copy one to SBUF")
    alu.op_name(reduce_op, where, ("maximum",))
    chosen = (rows(predicate) != 0) != reverse_pred
    values = np.where(
        chosen, rows_float32(on_true), scalar_or_column(on_false, dst.shape[0], where, "on_false")
    ).astype(np.float32)
    register = vector_use(core, reduce_cmd, where)
    accumulate(register, reduce_cmd, "maximum", values, where)
    write(dst, values)
    read_out(register, reduce_res)
    return _SELECT_REDUCE.end(core, "vector", (dst, reduce_res), (predicate, on_true, on_false), name)
