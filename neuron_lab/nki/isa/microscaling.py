"""MX formats (trn3): quantising to packed 8-bit floats with shared scales, and multiplying them.

A scale byte covers 8 partitions × the 4 packed values; the four scales of a quadrant of 32 partitions lie in
its first rows, or in one of the groups of four rows of a packed scale tile.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array, DType
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.isa.matrix import accumulate_into, check_psum_dtype, moving_limit
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read, rows, rows_float32

_QUANTIZE = Opcode("quantize_mx")
_MATMUL = Opcode("nc_matmul_mx")

_PACKED = frozenset({dtypes.float8_e5m2_x4, dtypes.float8_e4m3fn_x4, dtypes.float4_e2m1fn_x4})
_SCALES = frozenset({dtypes.float8_e8m0fnu, dtypes.uint8})
_LARGEST_EXPONENT = {dtypes.float8_e4m3fn_x4: 8, dtypes.float8_e5m2_x4: 15}
_BLOCK = 8  # partitions under one scale
_QUADRANT = 32
_BIAS = 127
_FP4_SIZES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_FP4 = np.concatenate([_FP4_SIZES, -_FP4_SIZES])


def unpacked(values: Array, dtype: DType) -> Array:
    """(P, F) packed elements as (P, F, 4) float32."""
    if dtype == dtypes.float4_e2m1fn_x4:
        nibbles = (values[..., None] >> np.array([0, 4, 8, 12], np.uint16)) & 0xF
        return np.asarray(_FP4[nibbles])
    kind: Any = ml_dtypes.float8_e5m2 if dtype == dtypes.float8_e5m2_x4 else ml_dtypes.float8_e4m3fn
    parts = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, 4)
    return parts.view(kind).astype(np.float32)


def packed(values: Array, dtype: DType) -> Array:
    """(P, F, 4) float32 as (P, F) packed 8-bit elements."""
    kind: Any = ml_dtypes.float8_e5m2 if dtype == dtypes.float8_e5m2_x4 else ml_dtypes.float8_e4m3fn
    return np.ascontiguousarray(values.astype(kind)).view(np.uint32)[..., 0]


def _scale_rows(partitions: int) -> Array:
    """The scale row of each block of 8 partitions."""
    block = np.arange(partitions // _BLOCK)
    if partitions <= _QUADRANT:
        return block
    return (block // 4) * _QUADRANT + block % 4


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Groups of 8 partitions × 4 elements share a power of two."""
    core = _QUANTIZE.begin(dst=dst, src=src, dst_scale=dst_scale)
    _check_quantize(dst, src, dst_scale)
    partitions = src.shape[0]
    groups = rows_float32(src).reshape(partitions // _BLOCK, _BLOCK, -1, 4)
    largest = np.abs(groups).max(axis=(1, 3))
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(largest)) - (_LARGEST_EXPONENT[dst.dtype] - 1)
    exponent = np.clip(np.where(largest == 0, -_BIAS, exponent), -_BIAS, _BIAS)
    scaled = groups / np.exp2(exponent)[:, None, :, None]
    dst.array.reshape(partitions, -1)[...] = packed(scaled.reshape(partitions, -1, 4), dst.dtype)
    target: Any = dst_scale.array.reshape(dst_scale.shape[0], -1)
    target.view(np.uint8)[_scale_rows(partitions)] = (exponent + _BIAS).astype(np.uint8)
    return _QUANTIZE.end(core, "vector", (dst, dst_scale), (src,), name)


def _check_quantize(dst: NkiTensor, src: NkiTensor, scale: NkiTensor) -> None:
    if dst.dtype not in _LARGEST_EXPONENT:
        raise _QUANTIZE.refuse(f"dst is {dst.dtype}", f"use {dtypes.names(_LARGEST_EXPONENT)}")
    if src.dtype not in {dtypes.bfloat16, dtypes.float16}:
        raise _QUANTIZE.refuse(f"src is {src.dtype}", "use bfloat16 or float16")
    if scale.dtype not in _SCALES:
        raise _QUANTIZE.refuse(f"dst_scale is {scale.dtype}", f"use {dtypes.names(_SCALES)}")
    if src.shape[0] % _QUADRANT or src.free_size % 4:
        raise _QUANTIZE.refuse(
            f"src is {list(src.shape)}; partitions must be a multiple of 32, elements a multiple of 4", "pad it"
        )
    if (dst.shape[0], dst.free_size) != (src.shape[0], src.free_size // 4):
        raise _QUANTIZE.refuse(f"dst is {list(dst.shape)} for src {list(src.shape)}", "use [P, F / 4]")
    _check_scale(_QUANTIZE, "dst_scale", scale, dst)


def _check_scale(opcode: Opcode, label: str, scale: NkiTensor, data: NkiTensor) -> None:
    least = int(_scale_rows(data.shape[0])[-1]) + 1
    if scale.shape[0] < least or scale.free_size != data.free_size:
        raise opcode.refuse(
            f"{label} is {list(scale.shape)}; {data.shape[0]} partitions of data need {least} rows and "
            f"{data.free_size} columns",
            "allocate a scale tile of that size",
            value=scale.shape,
            limit=(least, data.free_size),
        )


def dequantized(data: NkiTensor, scale: NkiTensor) -> Array:
    """(P, F, 4) float32 values."""
    values = unpacked(rows(data), data.dtype)
    stored = np.ascontiguousarray(read(scale).reshape(scale.shape[0], -1)).view(np.uint8)
    bytes_ = stored[_scale_rows(data.shape[0])].astype(np.float32)
    factors = np.exp2(np.repeat(bytes_, _BLOCK, axis=0) - _BIAS)
    return values * factors[..., None]


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: tuple[int, ...] | None = None,
    tile_size: tuple[int, ...] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Matrix multiply of packed values with scales: the contraction is four times the partitions."""
    core = _MATMUL.begin(
        dst=dst,
        stationary=stationary,
        moving=moving,
        stationary_scale=stationary_scale,
        moving_scale=moving_scale,
    )
    check_psum_dtype(core, _MATMUL, dst.dtype)
    _check_mx_operands(stationary, moving, stationary_scale, moving_scale)
    if bool(tile_position) != bool(tile_size):
        raise _MATMUL.refuse("only one of tile_position and tile_size", "give both")
    limit = moving_limit(core, dst)
    if moving.free_size > limit:
        raise _MATMUL.over("moving free size", moving.free_size, limit, "tile_size.gemm_moving_fmax", "tile it")
    if (dst.shape[0], dst.free_size) != (stationary.free_size, moving.free_size):
        raise _MATMUL.refuse(
            f"dst is {list(dst.shape)}, the product is [{stationary.free_size}, {moving.free_size}]",
            "slice dst",
        )
    left = dequantized(stationary, stationary_scale).transpose(0, 2, 1).reshape(-1, stationary.free_size)
    right = dequantized(moving, moving_scale).transpose(0, 2, 1).reshape(-1, moving.free_size)
    accumulate_into(core, _MATMUL, dst, left.T @ right, accumulate)
    reads = (stationary, moving, stationary_scale, moving_scale)
    return _MATMUL.end(core, "tensor", (dst,), reads, name)


def _check_mx_operands(
    stationary: NkiTensor, moving: NkiTensor, stationary_scale: NkiTensor, moving_scale: NkiTensor
) -> None:
    pairs = (("stationary", stationary, stationary_scale), ("moving", moving, moving_scale))
    for label, data, scale in pairs:
        if data.dtype not in _PACKED:
            raise _MATMUL.refuse(f"{label} is {data.dtype}", f"use {dtypes.names(_PACKED)}")
        if scale.dtype not in _SCALES:
            raise _MATMUL.refuse(f"{label}_scale is {scale.dtype}", f"use {dtypes.names(_SCALES)}")
        if data.is_indirect() != scale.is_indirect():
            raise _MATMUL.refuse(f"only one of {label} and its scale is indirect", "make both indirect")
        if data.shape[0] % _QUADRANT or data.shape[0] > 128:
            raise _MATMUL.refuse(
                f"{label} has {data.shape[0]} partitions", "use 32, 64, 96 or 128", data.shape[0], 128
            )
        _check_scale(_MATMUL, f"{label}_scale", scale, data)
    if stationary.shape[0] != moving.shape[0]:
        raise _MATMUL.refuse(f"contractions {stationary.shape[0]} and {moving.shape[0]}", "slice both alike")
    if stationary.free_size > 128 or stationary.free_size % 2:
        raise _MATMUL.refuse(
            f"stationary has {stationary.free_size} columns",
            "use an even number up to 128",
            stationary.free_size,
            128,
        )
