"""A core's log as columns: one row per instruction, one row per access, for arithmetic over millions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.nki.run import Recorded
from neuron_lab.nki.storage import HBM

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Accesses:
    """Rectangles of bytes: rows of a memory × bytes of a row. Rows of HBM are the pitch of strided tiles."""

    instruction: Ints
    writes: Mask
    storage: Ints
    first_row: Ints
    stop_row: Ints
    first_byte: Ints
    stop_byte: Ints
    on_chip: Mask
    kind: Ints  # equal numbers: equal memory, dtype, sizes and strides

    def __len__(self) -> int:
        return len(self.instruction)


def accesses_of(log: Sequence[Recorded]) -> Accesses:
    reads, writes = [one.reads for one in log], [one.writes for one in log]
    number = np.arange(len(log))
    lengths = [np.fromiter(map(len, each), np.int64, len(log)) for each in (reads, writes)]
    instruction = np.concatenate([np.repeat(number, length) for length in lengths])
    is_write = np.repeat([False, True], [int(length.sum()) for length in lengths])
    flat = [*chain.from_iterable(reads), *chain.from_iterable(writes)]
    if not flat:
        empty = np.empty(0, np.int64)
        no, none = empty.astype(bool), empty
        return Accesses(none, no, none, none, none, none, none, no, none)
    count = len(flat)
    storage, partition, partitions, start, stop, elements, stride, runs = (
        np.fromiter(map(itemgetter(index), flat), np.int64, count) for index in (0, 3, 4, 5, 6, 7, 8, 9)
    )
    hbm_ids = [id(region) for region in HBM]
    buffer, dtype = (np.fromiter(map(id, map(itemgetter(index), flat)), np.int64, count) for index in (1, 2))
    kind = _numbered([buffer, dtype, partitions, elements, stride, runs])
    in_hbm = np.isin(buffer, hbm_ids)
    first_row, stop_row = partition.copy(), partition + partitions
    if in_hbm.any():
        size = elements[in_hbm] * _item_sizes([flat[row].dtype for row in np.flatnonzero(in_hbm).tolist()])
        rectangles = _hbm_rectangles(storage[in_hbm], start[in_hbm], stop[in_hbm], runs[in_hbm], size)
        first_row[in_hbm], stop_row[in_hbm], start[in_hbm], stop[in_hbm] = rectangles
    return Accesses(instruction, is_write, storage, first_row, stop_row, start, stop, ~in_hbm, kind)


def _item_sizes(dtypes: list[Any]) -> Ints:
    sizes = {dtype: dtype.itemsize for dtype in set(dtypes)}
    return np.array([sizes[dtype] for dtype in dtypes], np.int64)


def _hbm_rectangles(
    storage: Ints, start: Ints, stop: Ints, runs: Ints, size: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """A tile of a matrix touches rows × columns, not everything between its first and last byte.

    The pitch is what lies between the rows of strided tiles; where tiles of one tensor disagree, or a row would
    wrap, the plain span stands.
    """
    run = size // runs
    strided = (runs > 1) & (size % runs == 0) & ((stop - start - run) % np.maximum(runs - 1, 1) == 0)
    own_pitch = np.where(strided, (stop - start - run) // np.maximum(runs - 1, 1), 0)
    ids, place = np.unique(storage, return_inverse=True)
    largest, smallest = np.zeros(len(ids), np.int64), np.full(len(ids), np.iinfo(np.int64).max)
    np.maximum.at(largest, place, own_pitch)
    np.minimum.at(smallest, place[strided], own_pitch[strided])
    wraps = strided & (own_pitch > 0) & (start % np.maximum(own_pitch, 1) + run > own_pitch)
    irregular = (runs > 1) & ~strided | wraps | (strided & (own_pitch < run))
    usable = (largest > 0) & (largest == smallest)
    usable[place[irregular]] = False
    pitch = np.where(usable, largest, np.iinfo(np.int64).max)[place]
    first_row, stop_row = start // pitch, (stop - 1) // pitch + 1
    one_row = stop_row - first_row == 1
    narrow = one_row | strided & usable[place]
    left = np.where(narrow, start % pitch, 0)
    right = np.where(one_row, left + stop - start, np.where(narrow, left + run, pitch))
    return first_row, stop_row, left, right


def instruction_kinds(log: Sequence[Recorded], accesses: Accesses) -> tuple[Ints, Ints]:
    """(an example of each kind, the kind of each instruction): equal kinds take equally long."""
    order = np.lexsort((accesses.writes, accesses.instruction))
    first = np.searchsorted(accesses.instruction[order], np.arange(len(log)))
    position = np.arange(len(accesses)) - first[accesses.instruction[order]]
    mixed = np.zeros(len(log), np.uint64)
    parts = _mix(
        accesses.kind[order].astype(np.uint64) + (position.astype(np.uint64) + np.uint64(1) << np.uint64(40))
    )
    np.add.at(mixed, accesses.instruction[order], parts)
    names: dict[Any, int] = {}
    codes = [
        names.setdefault((opcode, engine, extra if extra is None else tuple(extra.values())), len(names))
        for opcode, engine, _, _, _, _, _, extra in log
    ]
    mixed += _mix(np.array(codes, np.uint64) + (np.uint64(1) << np.uint64(60)))
    _, example, kind = np.unique(mixed, return_index=True, return_inverse=True)
    return example, kind


def _numbered(columns: list[Ints]) -> Ints:
    """Rows equal in every column get the same number."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = _mix(mixed + column.astype(np.uint64))
    return np.unique(mixed, return_inverse=True)[1]


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A 64-bit permutation (splitmix64), so that sums of different rows do not meet by chance."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
