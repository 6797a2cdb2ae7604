"""New tensors: `ndarray` and its filled forms, constants, and the capacity rules of a single allocation."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import DType
from neuron_lab.nki.instruction import placed_overlap
from neuron_lab.nki.isa.movement import memset
from neuron_lab.nki.refusal import over_limit, refusal
from neuron_lab.nki.registers import integer
from neuron_lab.nki.run import Core, current
from neuron_lab.nki.storage import ON_CHIP, PSUM, SBUF, MemoryRegion, Storage
from neuron_lab.nki.target import PARTITIONS, PSUM_BANK_BYTES, psum_banks
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import write

_WHERE = "nl.ndarray"
_MAX_RANK = 12


def ndarray(
    shape: Sequence[int],
    dtype: Any,
    buffer: MemoryRegion = SBUF,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor full of sentinels (NaN, or 4 for integers), so that unwritten values show.

    `address=(partition, byte offset)` places it; without one the allocator chooses.
    """
    core = current()
    dims = _shape(shape)
    kind = dtypes.dtype_of(dtype)
    if not isinstance(buffer, MemoryRegion):
        raise refusal(
            _WHERE, f"buffer={buffer!r} is no memory", cure="use nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm"
        )
    if buffer in ON_CHIP:
        _check_on_chip(core, name, dims, kind, buffer, address)
    elif address is not None:
        raise refusal(_WHERE, "an address in HBM", cure="place only sbuf and psum tensors")
    storage = core.allocate(
        dims, kind, buffer, name, None if address is None else (int(address[0]), int(address[1]))
    )
    if address is not None:
        _meet_neighbours(core, storage)
    return NkiTensor(dims, kind, storage, buffer)


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)) or not all(hasattr(size, "__index__") for size in shape):
        raise refusal(_WHERE, f"shape={shape!r}", cure="pass a tuple of integers", value=shape)
    dims = tuple(integer(size) for size in shape)
    if not dims or any(size < 1 for size in dims) or len(dims) > _MAX_RANK:
        raise refusal(_WHERE, f"shape {dims}", cure="give every axis at least one element", value=dims)
    return dims


def _check_on_chip(
    core: Core,
    name: str,
    shape: tuple[int, ...],
    dtype: DType,
    buffer: MemoryRegion,
    address: tuple[int, int] | None,
) -> None:
    label = f"{name or 'a tensor'} {list(shape)} {dtype} in {buffer.value}"
    if len(shape) < 2:
        raise refusal(_WHERE, label, cure="on-chip tensors have a partition axis and a free axis", value=shape)
    first = address[0] if address else 0
    if shape[0] + first > PARTITIONS:
        raise over_limit(
            _WHERE,
            f"axis 0 (partitions) of {label}" + (" plus its start" if first else ""),
            shape[0] + first,
            PARTITIONS,
            "tile_size.pmax",
            "loop over tiles of 128 partitions, or put that axis on a free axis",
        )
    size = math.prod(shape[1:]) * dtype.itemsize
    start = address[1] if address else 0
    limit = psum_banks() * PSUM_BANK_BYTES if buffer is PSUM else core.target.sbuf_partition_bytes
    if size + start > limit:
        raise over_limit(
            _WHERE,
            f"bytes per partition of {label}" + (" plus its offset" if start else ""),
            size + start,
            limit,
            f"{buffer.value} of {core.target.chip}",
            "split the free axis into smaller tiles",
        )
    if buffer is PSUM and start % PSUM_BANK_BYTES:
        raise refusal(
            _WHERE,
            f"a PSUM tensor at byte {start}; it must start on a bank boundary",
            cure=f"use a multiple of {PSUM_BANK_BYTES}",
            value=start,
            limit=PSUM_BANK_BYTES,
        )


def _meet_neighbours(core: Core, storage: Storage) -> None:
    """Placed tensors that share bytes know one another, so that a lost value is noticed."""
    own = weakref.ref(storage)
    for reference in core.placed:
        other = reference()
        if other is not None and placed_overlap(storage, other):
            storage.neighbours.append(reference)
            other.neighbours.append(own)
    core.placed.append(own)


def full(
    shape: Sequence[int], fill_value: Any, dtype: Any, buffer: MemoryRegion = SBUF, name: str = ""
) -> NkiTensor:
    made = ndarray(shape, dtype, buffer, name)
    if buffer in ON_CHIP:
        kind = made.dtype
        memset(made, int(fill_value) if kind.is_integer and float(fill_value).is_integer() else fill_value)
    else:
        write(made, np.full(made.shape, fill_value))
        made.storage.given = True
    return made


def zeros(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = SBUF, name: str = "") -> NkiTensor:
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = SBUF, name: str = "") -> NkiTensor:
    return full(shape, 1, dtype, buffer, name)


def zeros_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def rand(shape: Sequence[int], dtype: Any, buffer: MemoryRegion = SBUF, name: str = "") -> NkiTensor:
    """Uniform in [0, 1)."""
    from neuron_lab.nki.language.elementwise import RANDOM

    made = ndarray(shape, dtype, buffer, name)
    core = current()
    write(made, core.random.uniform(made.shape))
    RANDOM.end(core, "vector", (made,), ())
    return made


def shared_constant(constant: Any) -> NkiTensor:
    """A shared HBM tensor from a numpy array or the path of an `.npy` file."""
    core = current()
    array = np.load(constant) if isinstance(constant, (str, Path)) else np.asarray(constant)
    kind = dtypes.dtype_of(array.dtype)
    shape = array.shape or (1,)
    storage = core.allocate(tuple(shape), kind, MemoryRegion.shared_hbm, "constant")
    storage.given = True
    made = NkiTensor(shape, kind, storage)
    write(made, array)
    return made


def shared_identity_matrix(n: int, dtype: Any = dtypes.uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """The n × n identity in SBUF, one per size and dtype."""
    core = current()
    kind = dtypes.dtype_of(dtype)
    if dst is None:
        kept = core.constants.get(("identity", n, kind))
        if kept is not None:
            return kept
        dst = core.constants[("identity", n, kind)] = ndarray((n, n), kind, SBUF, "identity")
        dst.storage.given = True
    write(dst, np.eye(n, dtype=np.float32))
    dst.storage.version += 1
    return dst
