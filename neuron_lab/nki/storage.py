"""One allocation on the simulated core: raw bytes in a memory, and what is known of its use.

Rows are partitions on chip; a tensor in HBM is one row. Elements are row-major.
"""

from __future__ import annotations

import enum
import math
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array, DType
from neuron_lab.nki.places import Place


class MemoryRegion(enum.Enum):
    """The memories a tensor can be in."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"


SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
HBM = (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)  # tuples: members compare by identity, unhashed
ON_CHIP = (SBUF, PSUM)


class Access(NamedTuple):
    """What one operand touches: a box of partitions × bytes of one allocation."""

    storage: int
    buffer: MemoryRegion
    dtype: DType
    partition: int
    partitions: int
    start_byte: int  # within a partition; within the allocation for HBM
    stop_byte: int
    elements: int  # per partition; in all for HBM
    inner_stride_bytes: int
    runs: int  # contiguous pieces, in all partitions together: at least one DMA descriptor each


@dataclass(slots=True, eq=False)
class Lifetime:
    """When an allocation was in use; it outlives the data."""

    number: int
    buffer: MemoryRegion
    partition_bytes: int
    label: str
    place: Place
    address: tuple[int, int] | None
    first_use: int = -1  # instruction numbers
    last_use: int = -1


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Which bytes of a placed tensor another one has destroyed, and where."""

    label: str
    address: tuple[int, int]
    box: tuple[int, int, int, int]
    place: Place


ViewKey = tuple[int, tuple[int, ...], tuple[int, ...], str]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Storage:
    life: Lifetime
    data: Array  # uint8, flat
    shape: tuple[int, ...]
    dtype: DType
    buffer: MemoryRegion
    name: str
    place: Place
    precise: bool = True
    address: tuple[int, int] | None = None
    version: int = 0  # grows with every write
    given: bool = False  # an argument of the kernel, or a constant: written from the start
    written_views: set[ViewKey] = field(default_factory=set)
    written_positions: list[Array] = field(default_factory=list)
    float32_views: dict[ViewKey, tuple[int, Array]] = field(default_factory=dict)
    matmul_views: set[ViewKey] = field(default_factory=set)  # views wholly written by matmuls
    accesses: dict[ViewKey, Access] = field(default_factory=dict)
    neighbours: list[weakref.ref[Storage]] = field(default_factory=list)  # placed at overlapping addresses
    overwritten_by: Overwritten | None = None
    on_chip: bool = field(init=False)
    row_elements: int = field(init=False)  # from one partition to the next; in all, for HBM
    partition_bytes: int = field(init=False)  # device bytes, likewise

    @property
    def number(self) -> int:
        return self.life.number

    @property
    def partitions(self) -> int:
        return self.shape[0] if self.on_chip else 1

    def __post_init__(self) -> None:
        self.on_chip = self.buffer in ON_CHIP
        self.row_elements = math.prod(self.shape[1:]) if self.on_chip else math.prod(self.shape)
        self.partition_bytes = self.row_elements * self.dtype.itemsize

    def array(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: DType) -> Array:
        """A numpy view; shape, strides and offset count elements of `dtype`."""
        stored = dtypes.stored_as(dtype, self.precise)
        size = stored.itemsize
        return np.ndarray(
            shape, stored, self.data.data, offset * size, tuple(stride * size for stride in strides)
        )

    def flat(self, dtype: DType) -> Array:
        """All elements in order."""
        return self.data.view(dtypes.stored_as(dtype, self.precise))

    def fill_unwritten(self) -> None:
        flat: Any = self.flat(self.dtype)
        flat[...] = dtypes.sentinel(self.dtype)


def blank(
    number: int,
    shape: tuple[int, ...],
    dtype: DType,
    buffer: MemoryRegion,
    name: str,
    place: Place,
    *,
    precise: bool = True,
    address: tuple[int, int] | None = None,
) -> Storage:
    """A new allocation, full of sentinels."""
    size = math.prod(shape) * dtypes.stored_as(dtype, precise).itemsize
    made = around(number, np.empty(size, np.uint8), shape, dtype, buffer, name, place, precise, address)
    made.fill_unwritten()
    return made


def around(
    number: int,
    data: Array,
    shape: tuple[int, ...],
    dtype: DType,
    buffer: MemoryRegion,
    name: str,
    place: Place,
    precise: bool,
    address: tuple[int, int] | None = None,
) -> Storage:
    """An allocation that owns these bytes."""
    free = math.prod(shape[1:]) if buffer in ON_CHIP else math.prod(shape)
    label = name or f"{list(shape)} {dtype}"
    life = Lifetime(number, buffer, free * dtype.itemsize, label, place, address)
    return Storage(life, data, shape, dtype, buffer, name, place, precise=precise, address=address)
