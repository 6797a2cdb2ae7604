"""Which instruction waits for which: from overlapping bytes, kept registers, and explicit edges.

Bytes that two accesses both touch make the later one wait if either writes (read after write, write after read,
write after write). An engine is in order, so on one engine only reads of what it has written wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from neuron_lab.nki import api
from neuron_lab.nki.launching import CoreRun
from neuron_lab.nki.run import Recorded
from neuron_lab.nki.timing.operands import Accesses, Ints, Mask

MOST_CELLS_PER_ACCESS = 64  # finer overlaps of one tensor are joined: a dependency too many, never one too few

Schedule = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class Edges:
    """`sources[first[i]:first[i + 1]]` are the instructions that instruction i waits for."""

    first: Ints
    sources: Ints

    def of(self, instruction: int) -> list[int]:
        return self.sources[self.first[instruction] : self.first[instruction + 1]].tolist()


def edges_of(
    core: CoreRun, accesses: Accesses, engine: Ints, unordered: Ints, schedule: Schedule = ()
) -> Edges:
    """`engine`: a code per instruction; `unordered`: the codes of resources that are not in order (DMA)."""
    log = core.log or ()
    pairs = [*_byte_pairs(accesses, engine, unordered), *_state_pairs(log)]
    explicit = [*core.edges, *_scheduled(log, schedule), *_in_order(core)]
    if explicit:
        pairs.append(np.array(explicit, np.int64).T)
    earlier, later = np.concatenate(pairs, axis=1) if pairs else np.empty((2, 0), np.int64)
    keep = (earlier < later) & (earlier >= 0)
    key = np.unique(later[keep] * len(log) + earlier[keep]) if len(log) else np.empty(0, np.int64)
    later, earlier = np.divmod(key, max(len(log), 1))
    return Edges(np.searchsorted(later, np.arange(len(log) + 1)), earlier)


def _byte_pairs(accesses: Accesses, engine: Ints, unordered: Ints) -> list[Ints]:
    if not len(accesses):
        return []
    row, cell = _cells(accesses)
    moment = accesses.instruction[row] * 2 + accesses.writes[row]  # an instruction reads before it writes
    order = np.lexsort((moment, cell))
    row, cell = row[order], cell[order]
    writes, instruction = accesses.writes[row], accesses.instruction[row]
    before = _last_write(writes, cell)
    has = before >= 0
    raw_or_waw = np.stack([instruction[before[has]], instruction[has.nonzero()[0]]])
    plain_read = ~writes[has]
    keep = plain_read | _crosses(raw_or_waw, engine, unordered)
    after = _next_write(writes, cell)
    reads = ~writes & (after >= 0)
    war = np.stack([instruction[reads.nonzero()[0]], instruction[after[reads]]])
    return [raw_or_waw[:, keep], war[:, _crosses(war, engine, unordered)]]


def _crosses(pairs: Ints, engine: Ints, unordered: Ints) -> Mask:
    """Pairs that the order within an engine does not already keep."""
    earlier, later = engine[pairs[0]], engine[pairs[1]]
    return (earlier != later) | np.isin(earlier, unordered)


def _last_write(writes: Mask, cell: Ints) -> Ints:
    """For each position the last write before it in the same cell, or -1."""
    position = np.arange(len(cell))
    latest = np.maximum.accumulate(np.where(writes, position, -1))
    found = np.concatenate([[-1], latest[:-1]])
    found[(found >= 0) & (cell[found] != cell)] = -1
    return found


def _next_write(writes: Mask, cell: Ints) -> Ints:
    """For each position the next write after it in the same cell, or -1."""
    count = len(cell)
    coming = np.minimum.accumulate(np.where(writes, np.arange(count), count)[::-1])[::-1]
    found = np.concatenate([coming[1:], [count]])
    outside = found >= count
    found[outside] = 0
    found[outside | (cell[found] != cell)] = -1
    return found


def _cells(accesses: Accesses) -> tuple[Ints, Ints]:
    """(access, cell) pairs: each tensor is cut at every edge of a rectangle; an access covers whole cells."""
    top, height, row_count = _ranks(accesses.storage, accesses.first_row, accesses.stop_row, accesses)
    left, width, column_count = _ranks(accesses.storage, accesses.first_byte, accesses.stop_byte, accesses)
    cells = height * width
    storage_first = np.zeros(len(row_count) + 1, np.int64)
    np.cumsum(row_count * column_count, out=storage_first[1:])
    place = _dense(accesses.storage)
    row = np.repeat(np.arange(len(accesses)), cells)
    within = np.arange(len(row)) - np.repeat(np.cumsum(cells) - cells, cells)
    down, across = np.divmod(within, width[row])
    number = (top[row] + down) * column_count[place[row]] + left[row] + across
    return row, storage_first[place[row]] + number


def _dense(storage: Ints) -> Ints:
    return np.unique(storage, return_inverse=True)[1]


def _ranks(storage: Ints, first: Ints, stop: Ints, accesses: Accesses) -> tuple[Ints, Ints, Ints]:
    """Where each access begins among its tensor's cuts, over how many pieces it goes, and pieces per tensor."""
    place = _dense(storage)
    base = int(max(stop.max(), 1)) + 1
    cuts = np.unique(np.concatenate([place * base + first, place * base + stop]))
    owner = cuts // base
    begin = np.searchsorted(owner, np.arange(int(place.max()) + 1))
    pieces = np.diff(np.append(begin, len(cuts))) - 1
    low = np.searchsorted(cuts, place * base + first) - begin[place]
    high = np.searchsorted(cuts, place * base + stop) - begin[place]
    shift = _coarsening(place, high - low, len(pieces))
    low >>= shift[place]
    high = ((high - 1) >> shift[place]) + 1
    return low, high - low, np.maximum(pieces >> shift, 0) + 1


def _coarsening(place: Ints, pieces: Ints, tensors: int) -> Ints:
    """By how many powers of two the cuts of a tensor are joined, so that an access has few cells on average."""
    total, count = np.zeros(tensors, np.int64), np.bincount(place, minlength=tensors)
    np.add.at(total, place, pieces)
    side = MOST_CELLS_PER_ACCESS**0.5
    mean = np.maximum(total / np.maximum(count, 1) / (side * 8), 1)
    return np.ceil(np.log2(mean)).astype(np.int64)


def _state_pairs(log: Sequence[Recorded]) -> list[Ints]:
    """Accumulators and generators that an opcode keeps from one instruction to the next."""
    states = {opcode: api.instruction_facts(opcode).get("state") for opcode in {one[0] for one in log}}
    keeping = {opcode: state for opcode, state in states.items() if state is not None}
    holders: dict[tuple[str, str], int] = {}
    pairs: list[tuple[int, int]] = []
    for number in [number for number, one in enumerate(log) if one[0] in keeping] if keeping else ():
        one = log[number]
        key = (keeping[one.opcode], one.engine)
        if key in holders:
            pairs.append((holders[key], number))
        holders[key] = number
    return [np.array(pairs, np.int64).T] if pairs else []


def _scheduled(log: Sequence[Recorded], schedule: Schedule) -> Iterable[tuple[int, int]]:
    """`with_schedule` names instructions; each name means its first and every later one."""
    if not schedule:
        return []
    named: dict[str, list[int]] = {}
    for number, one in enumerate(log):
        if one.name:
            named.setdefault(one.name, []).append(number)
    return [
        (earlier, later)
        for later_name, earlier_names in schedule
        for later in named.get(later_name, ())
        for name in earlier_names
        for earlier in named.get(name, ())
        if earlier < later
    ]


def _in_order(core: CoreRun) -> Iterable[tuple[int, int]]:
    return ((number - 1, number) for first, end in core.order_blocks for number in range(first + 1, end))
