"""The tensor engine: matrix multiply with accumulation in PSUM, and transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki import casts, dtypes
from neuron_lab.nki.dtypes import FP8, Array, DType
from neuron_lab.nki.enums import chosen_engine, engine, matmul_perf_mode, member
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.run import Core
from neuron_lab.nki.storage import MemoryRegion
from neuron_lab.nki.target import PARTITIONS, PSUM_BANK_BYTES
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import kept_rows_float32, rows, write

_MATMUL = Opcode("nc_matmul")
_TRANSPOSE = Opcode("nc_transpose")

STATIONARY_COLUMNS = 128
MOVING_COLUMNS = 512
_MOVING_COLUMNS_V4 = {4: 4096, 2: 8192}  # by bytes of a dst element
_VECTOR_TRANSPOSE = 32
_WIDE = frozenset({dtypes.float32, dtypes.tfloat32})
_TAKEN = FP8 | {dtypes.bfloat16, dtypes.float16} | _WIDE


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    perf_mode: Any = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """`dst[M, N] (= | +=) stationary[K, M].T @ moving[K, N]`, products summed in float32."""
    core = _MATMUL.begin(dst=dst, stationary=stationary, moving=moving)
    double = perf_mode is not matmul_perf_mode.none
    if double:
        _check_double_row(core, stationary, moving, perf_mode, tile_size, is_transpose)
    _check_matmul_dtypes(core, dst, stationary, moving, is_transpose)
    _check_matmul_sizes(core, dst, stationary, moving, double)
    if tile_position or tile_size:
        _check_tile(core, stationary, moving, tile_position, tile_size)
    product = _product(stationary, moving, double, is_transpose)
    accumulate_into(core, _MATMUL, dst, product, accumulate)
    extra = None
    if double or is_transpose or is_stationary_onezero or is_moving_onezero:
        extra = {
            "double_row": double,
            "is_transpose": is_transpose,
            "onezero": is_stationary_onezero or is_moving_onezero,
        }
    return _MATMUL.end(core, "tensor", (dst,), (stationary, moving), name, extra)


def _product(stationary: NkiTensor, moving: NkiTensor, double: bool, is_transpose: bool) -> Array:
    left, right = kept_rows_float32(stationary), kept_rows_float32(moving)
    if is_transpose:
        with np.errstate(all="ignore"):
            return _selection(left, right)
    if double:
        half_left, half_right = left.shape[1] // 2, right.shape[1] // 2
        left = np.concatenate([left[:, :half_left], left[:, half_left:]])
        right = np.concatenate([right[:, :half_right], right[:, half_right:]])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.matmul(left.T, right)


def _selection(left: Array, right: Array) -> Array:
    """Transpose mode moves bits when one side is an identity, so that NaN and Inf stay where they are."""
    if right.shape[0] == right.shape[1] and np.array_equal(right, np.eye(len(right), dtype=np.float32)):
        return left.T.copy()
    if left.shape[0] == left.shape[1] and np.array_equal(left, np.eye(len(left), dtype=np.float32)):
        return right.copy()
    return left.T @ right


def _check_matmul_dtypes(
    core: Core, dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, is_transpose: bool
) -> None:
    left, right = stationary.dtype, moving.dtype
    if left not in _TAKEN or right not in _TAKEN:
        wrong = left if left not in _TAKEN else right
        raise _MATMUL.refuse(f"operand dtype {wrong}", f"cast to one of {dtypes.names(_TAKEN)}", value=wrong)
    if (left in _WIDE) != (right in _WIDE):
        raise _MATMUL.refuse(
            f"stationary is {left} and moving is {right}: 32-bit floats mix only with 32-bit floats",
            "cast one of them",
        )
    if {left, right} == {dtypes.float8_e4m3, dtypes.float8_e4m3fn}:
        raise _MATMUL.refuse("float8_e4m3 with float8_e4m3fn", "use one of the two formats on both sides")
    if dtypes.float8_e4m3fn in {left, right} and core.target.generation < 4:
        raise _MATMUL.refuse("float8_e4m3fn needs NeuronCore-v4", "use float8_e4m3")
    if is_transpose:
        if core.target.generation >= 3 and dst.dtype != moving.dtype and dst.dtype != stationary.dtype:
            raise _MATMUL.refuse(f"transposing {moving.dtype} into {dst.dtype}", f"make dst {moving.dtype}")
    else:
        check_psum_dtype(core, _MATMUL, dst.dtype)


def check_psum_dtype(core: Core, opcode: Opcode, dtype: DType) -> None:
    allowed = {dtypes.float32, dtypes.bfloat16} if core.target.generation >= 4 else {dtypes.float32}
    if dtype not in allowed:
        raise opcode.refuse(
            f"dst is {dtype}; {core.target.chip} accumulates in {dtypes.names(allowed)}",
            "allocate dst as nl.float32 and cast with tensor_copy",
            value=dtype,
            limit=dtypes.names(allowed),
        )


def moving_limit(core: Core, dst: NkiTensor) -> int:
    return _MOVING_COLUMNS_V4[max(2, dst.dtype.itemsize)] if core.target.generation >= 4 else MOVING_COLUMNS


def _check_matmul_sizes(
    core: Core, dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, double: bool
) -> None:
    factor = 2 if double else 1
    if stationary.shape[0] != moving.shape[0]:
        raise _MATMUL.refuse(
            f"stationary has {stationary.shape[0]} partitions and moving {moving.shape[0]}; "
            "both hold the contraction",
            "slice both to the same contraction",
            value=moving.shape[0],
            limit=stationary.shape[0],
        )
    m, n = stationary.free_size // factor, moving.free_size // factor
    if m > STATIONARY_COLUMNS:
        raise _MATMUL.over(
            "stationary free size", m, STATIONARY_COLUMNS, "tile_size.gemm_stationary_fmax", "tile over columns"
        )
    if n > moving_limit(core, dst):
        raise _MATMUL.over(
            "moving free size", n, moving_limit(core, dst), "tile_size.gemm_moving_fmax", "tile over columns"
        )
    if core.target.generation < 4:
        _check_one_bank(dst)
    if (dst.shape[0], dst.free_size) != (m, n):
        raise _MATMUL.refuse(
            f"dst is {list(dst.shape)}, the product is [{m}, {n}]",
            f"slice dst to [{m}, {n}]",
            dst.shape,
            (m, n),
        )


def _check_one_bank(dst: NkiTensor) -> None:
    access = dst.access()
    first, last = access.start_byte // PSUM_BANK_BYTES, (access.stop_byte - 1) // PSUM_BANK_BYTES
    if first != last:
        raise _MATMUL.refuse(
            f"dst lies in PSUM banks {first} to {last}; a result stays in one bank of {PSUM_BANK_BYTES} bytes",
            "begin the slice at a multiple of 512 float32 elements",
            value=access.stop_byte,
            limit=(first + 1) * PSUM_BANK_BYTES,
        )


def _check_double_row(
    core: Core, stationary: NkiTensor, moving: NkiTensor, mode: Any, tile_size: Any, is_transpose: bool
) -> None:
    member(mode, matmul_perf_mode, "nisa.nc_matmul", "perf_mode")
    if core.target.generation < 3:
        raise _MATMUL.refuse("perf_mode needs NeuronCore-v3", "leave perf_mode out")
    if stationary.dtype not in FP8 or moving.dtype not in FP8:
        raise _MATMUL.refuse(
            f"double_row with {stationary.dtype} and {moving.dtype}", "cast both to an 8-bit float"
        )
    for label, tensor in (("stationary", stationary), ("moving", moving)):
        if tensor.ndim != 3 or tensor.shape[1] != 2:
            raise _MATMUL.refuse(f"double_row {label} is {list(tensor.shape)}", "shape it [K, 2, free]")
    if is_transpose or (tile_size and tile_size[1] < PARTITIONS):
        raise _MATMUL.refuse("double_row with a transpose or column tiles", "choose one of the two")


def _check_tile(
    core: Core, stationary: NkiTensor, moving: NkiTensor, position: tuple[int, ...], size: tuple[int, ...]
) -> None:
    if not (position and size):
        raise _MATMUL.refuse("only one of tile_position and tile_size", "give both")
    least = 32 if core.target.generation >= 3 else 64
    for label, at, extent in zip(("row", "column"), position, size, strict=True):
        if extent not in {least, 64, PARTITIONS}:
            raise _MATMUL.refuse(
                f"{label} tile of {extent}", f"use {least}, 64 or 128", value=extent, limit=least
            )
        if at % extent:
            raise _MATMUL.refuse(
                f"{label} position {at} of a tile of {extent}", "use a multiple of the tile size"
            )
    if stationary.shape[0] > size[0] or stationary.free_size > size[1]:
        raise _MATMUL.refuse(
            f"stationary {list(stationary.shape)} is larger than the tile {size}",
            "slice it",
            stationary.shape,
            size,
        )
    del moving


def accumulate_into(
    core: Core, opcode: Opcode, dst: NkiTensor, product: Array, accumulate: bool | None
) -> None:
    """Overwrite or add. `None` decides per location: the first matmul overwrites, later ones add."""
    views, key = dst.storage.matmul_views, dst.key
    if accumulate is False or (not views and accumulate is None):
        write(dst, product)
    elif key in views:  # the usual case: this very view has been written before
        _add(dst, product)
    else:
        _accumulate_where_written(core, opcode, dst, product, accumulate)
    views.add(key)


def _accumulate_where_written(
    core: Core, opcode: Opcode, dst: NkiTensor, product: Array, accumulate: bool | None
) -> None:
    mask = _written_mask(dst)
    if accumulate and not mask.all():
        core.find(
            "accumulate on unwritten PSUM",
            f"nisa.{opcode.name}(accumulate=True) adds to {dst!r}, which no matmul has written: the sum is "
            "undefined on trn1 and trn2; let the first matmul of the group overwrite",
        )
    if accumulate or mask.all():
        _add(dst, product)
    else:
        held = casts.to_float32(dst.array)
        write(dst, np.where(mask, held, np.float32(0)) + product.reshape(dst.shape))


def _written_mask(dst: NkiTensor) -> Array:
    """Per element of dst: a matmul has written its first byte."""
    storage = dst.storage
    flags = np.zeros(storage.partitions * storage.partition_bytes, np.bool_)
    for offset, shape, strides, dtype in storage.matmul_views:
        _window(flags, shape, strides, offset, dtypes.DType(dtype).itemsize)[...] = True
    return _window(flags, dst.shape, dst.strides, dst.offset, dst.dtype.itemsize)


def _window(flags: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int) -> Array:
    return np.ndarray(shape, np.bool_, flags.data, offset * size, tuple(stride * size for stride in strides))


def _add(dst: NkiTensor, product: Array) -> None:
    array = dst.array
    if array.dtype == np.float32:
        np.add(array, product.reshape(dst.shape), out=array)
    else:
        write(dst, casts.to_float32(array) + product.reshape(dst.shape))


def nc_transpose(
    dst: NkiTensor, data: NkiTensor, engine: Any = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """`dst = data.T` with free axes flattened: 128 × 128 on the tensor engine, 32 × 32 on the vector engine."""
    core = _TRANSPOSE.begin(dst=dst, data=data)
    rows_, columns = data.shape[0], data.free_size
    default = "tensor" if dst.buffer is MemoryRegion.psum and data.buffer is MemoryRegion.sbuf else "vector"
    where = chosen_engine(engine, default, ("tensor", "vector"), "nisa.nc_transpose")
    limit = PARTITIONS if where == "tensor" else _VECTOR_TRANSPOSE
    largest = max(rows_, columns)
    if largest > limit:
        raise _TRANSPOSE.over(
            "a side", largest, limit, f"transpose on the {where} engine", "transpose smaller tiles"
        )
    if where == "tensor" and (dst.buffer is not MemoryRegion.psum or data.buffer is not MemoryRegion.sbuf):
        raise _TRANSPOSE.refuse(
            "the tensor engine reads SBUF and writes PSUM", "put dst in PSUM and data in SBUF"
        )
    _check_transposed(core, dst, data, where)
    values = rows(data).T
    if where == "tensor" and core.target.generation < 3 and not np.isfinite(values.astype(np.float32)).all():
        core.find("transpose of NaN or Inf", "on trn1 the tensor engine spreads NaN and Inf when it transposes")
    write(dst, _as_16_bit(values, dst) if dst.dtype != data.dtype else values)
    return _TRANSPOSE.end(core, where, (dst,), (data,), name)


def _as_16_bit(values: Array, dst: NkiTensor) -> Array:
    """8-bit floats leave the tensor engine as 16-bit elements with a zero upper byte."""
    wide = np.ascontiguousarray(values).view(np.uint8).astype(np.uint16)
    return wide.view(dtypes.STORED[dst.dtype])


def _check_transposed(core: Core, dst: NkiTensor, data: NkiTensor, where: str) -> None:
    if (dst.shape[0], dst.free_size) != (data.free_size, data.shape[0]):
        raise _TRANSPOSE.refuse(
            f"dst is {list(dst.shape)}, the transpose is [{data.free_size}, {data.shape[0]}]",
            "slice dst to that shape",
        )
    packed_fp8 = where == "tensor" and data.dtype in FP8
    if dst.dtype != data.dtype and not (packed_fp8 and dst.dtype.itemsize == 2):
        raise _TRANSPOSE.refuse(
            f"dst is {dst.dtype}, data is {data.dtype}", f"make dst {data.dtype}", dst.dtype, data.dtype
        )
    del core
