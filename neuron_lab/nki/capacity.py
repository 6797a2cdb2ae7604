"""SBUF and PSUM demand over a kernel, from when each allocation was first and last used.

The sum of what is live at once is the least any allocator needs; fragmentation is not modelled. Placed tensors
count like others: those that share bytes are caught when a lost value is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from neuron_lab.nki.places import place_text
from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.storage import PSUM, SBUF, Lifetime, MemoryRegion
from neuron_lab.nki.target import Target


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was live at once in one memory of one core."""

    buffer: MemoryRegion
    bytes_per_partition: int
    instruction: int
    live: tuple[Lifetime, ...]


def peak(lifetimes: Iterable[Lifetime], buffer: MemoryRegion) -> Peak:
    used = [life for life in lifetimes if life.buffer is buffer and life.first_use >= 0]
    if not used:
        return Peak(buffer, 0, -1, ())
    first = np.array([life.first_use for life in used])
    last = np.array([life.last_use for life in used])
    size = np.array([life.partition_bytes for life in used])
    unplaced = np.array([life.address is None for life in used])
    change = np.zeros(int(last.max()) + 2, np.int64)
    np.add.at(change, first[unplaced], size[unplaced])
    np.add.at(change, last[unplaced] + 1, -size[unplaced])
    live = np.cumsum(change)
    at = int(live.argmax())
    placed = max((life.address[1] + life.partition_bytes for life in used if life.address), default=0)
    members = tuple(life for life in used if life.first_use <= at <= life.last_use and life.address is None)
    return Peak(buffer, int(live[at]) + placed, at, members)


def check_capacity(lifetimes: list[Lifetime], target: Target) -> tuple[Peak, Peak]:
    """The peaks of SBUF and PSUM, refused when one does not fit."""
    limits = {SBUF: target.sbuf_partition_bytes, PSUM: target.psum_partition_bytes}
    peaks = tuple(peak(lifetimes, buffer) for buffer in limits)
    for found in peaks:
        if found.bytes_per_partition > limits[found.buffer]:
            _refuse(found, limits[found.buffer], target)
    return peaks[0], peaks[1]


def _refuse(found: Peak, limit: int, target: Target) -> None:
    largest = sorted(found.live, key=lambda life: -life.partition_bytes)[:3]
    named = "; ".join(
        f"{life.label} {life.partition_bytes} B from {place_text(life.place)}" for life in largest
    )
    raise refusal(
        f"{found.buffer.value} capacity",
        f"{found.bytes_per_partition} bytes per partition are live at once, the limit is {limit} "
        f"({found.buffer.value} of {target.chip}); {len(found.live)} tensors, the largest: {named}",
        cure="use smaller tiles, or finish with one tile before the next is first written",
        value=found.bytes_per_partition,
        limit=limit,
        place=largest[0].place if largest else None,
    )
