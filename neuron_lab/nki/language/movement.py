"""`nl` functions that move or rearrange: load, store, transpose, matmul, broadcast, gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuron_lab.nki.dtypes import float32
from neuron_lab.nki.isa.matrix import nc_matmul, nc_transpose
from neuron_lab.nki.isa.movement import dma_copy, dma_transpose
from neuron_lab.nki.isa.randomness import set_rng_seed
from neuron_lab.nki.language.allocation import ndarray
from neuron_lab.nki.language.elementwise import _tile, copy, record
from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.run import current
from neuron_lab.nki.storage import HBM, PSUM, SBUF
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read, rows, write


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """HBM to a new SBUF tile."""
    if src.buffer not in HBM:
        raise refusal("nl.load", f"src is in {src.buffer.value}", cure="use nl.copy for on-chip tiles")
    shape = src.shape if src.ndim > 1 else (src.shape[0], 1)
    dst = ndarray(shape, dtype or src.dtype)
    dma_copy(dst, src)
    return dst


def store(dst: NkiTensor, value: Any) -> None:
    """An SBUF tile to HBM."""
    if dst.buffer not in HBM:
        raise refusal(
            "nl.store", f"dst is in {dst.buffer.value}", cure="use nisa.tensor_copy for on-chip tiles"
        )
    if isinstance(value, NkiTensor) and value.buffer is PSUM:
        raise refusal(
            "nl.store", "value is in PSUM, which DMA cannot read", cure="copy it to SBUF with nl.copy"
        )
    dma_copy(dst, _tile(value, "store"))


def load_transpose2d(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """HBM rows become columns of a new SBUF tile."""
    if src.ndim != 2:
        raise refusal("nl.load_transpose2d", f"src has {src.ndim} axes", cure="pass a 2-D view")
    dst = ndarray((src.shape[1], src.shape[0]), src.dtype)
    dma_transpose(dst, src)
    return dst if dtype is None else copy(dst, dtype)


def transpose(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A 2-D tile transposed by the tensor engine into PSUM."""
    if x.ndim != 2:
        raise refusal("nl.transpose", f"x has {x.ndim} axes", cure="flatten the free axes first")
    dst = ndarray((x.shape[1], x.shape[0]), x.dtype, PSUM)
    nc_transpose(dst, x)
    return dst if dtype is None else copy(dst, dtype)


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """x.T @ y into PSUM with transpose_x=True; without it x is transposed first, which does not compile."""
    if not transpose_x:
        current().find(
            "does not compile", "nl.matmul without transpose_x=True simulates, but the real compiler refuses it"
        )
        x = copy(transpose(x))
    dst = ndarray((x.free_size, y.free_size), float32, PSUM)
    nc_matmul(dst, x, y)
    return dst


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with one more axis of size 1."""
    return x.expand_dim(axis)


def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: Any = None) -> NkiTensor:
    """A new tile with size-1 axes expanded; a (1, F) tile spreads over partitions."""
    tile = _tile(x, "broadcast_to")
    wanted = tuple(int(size) for size in shape)
    fits = len(wanted) == tile.ndim and all(a in {1, b} for a, b in zip(tile.shape, wanted, strict=True))
    if not fits:
        raise refusal(
            "nl.broadcast_to",
            f"{list(tile.shape)} to {list(wanted)}",
            cure="keep the rank and expand only axes of size 1",
            value=tile.shape,
            limit=wanted,
        )
    dst = ndarray(wanted, dtype or tile.dtype)
    write(dst, np.broadcast_to(read(tile), wanted))
    record("broadcast_to", "tensor" if tile.shape[0] != wanted[0] else "vector", dst, (tile,))
    return dst


def gather_flattened(data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """Per partition: elements of the flattened free axis at the indices."""
    if axis != 0:
        raise refusal("nl.gather_flattened", f"axis={axis}", cure="axis 0 is the flattened free axis")
    tile, index = _tile(data, "gather_flattened"), _tile(indices, "gather_flattened")
    numbers = rows(index).astype(np.int64)
    if numbers.size and (numbers.max() >= tile.free_size or numbers.min() < 0):
        raise refusal(
            "nl.gather_flattened",
            f"index {int(numbers.max())} of {tile.free_size} elements per partition",
            cure="correct the indices",
            value=int(numbers.max()),
            limit=tile.free_size - 1,
        )
    dst = ndarray(index.shape, dtype or tile.dtype, SBUF)
    write(dst, np.take_along_axis(rows(tile), numbers, axis=1))
    record("gather_flattened", "gpsimd", dst, (tile, index))
    return dst


def random_seed(seed: NkiTensor) -> None:
    """Seed the generator from a [1, 1] tile."""
    if not isinstance(seed, NkiTensor):
        raise refusal("nl.random_seed", f"{seed!r} is no tile", cure="store the number in a [1, 1] uint32 tile")
    set_rng_seed(seed)


def device_print(print_prefix: str, tensor: Any) -> None:
    """Print the prefix and the value now."""
    print(print_prefix, read(tensor) if isinstance(tensor, NkiTensor) else tensor)
