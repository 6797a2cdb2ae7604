"""Lanes: where overlapping work on one track goes.

A trace viewer draws a row of slices that are disjoint or nested; slices that *cross* are dropped or distorted.
`assign_lanes` keeps a track whole when it nests and otherwise spreads it over as few further lanes as it takes
greedily. It knows only numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def nesting_order(track: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
    """Row numbers by track, then start, the longer slice first: an enclosing slice precedes its content."""
    return np.lexsort((-end_ns, start_ns, track)).astype(np.int64)


def assign_lanes(track: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
    """Lane number per row: 0 for everything on a track that nests, more where slices cross."""
    lanes = np.zeros(len(track), dtype=np.int64)
    order = nesting_order(track, start_ns, end_ns)
    for rows in _rows_by_track(track[order], order):
        if _simply_disjoint(start_ns[rows], end_ns[rows]):
            continue
        lanes[rows] = _lanes_of_one_track(start_ns[rows].tolist(), end_ns[rows].tolist())
    return lanes


def _rows_by_track(sorted_track: Ints, order: Ints) -> list[Ints]:
    if not len(order):
        return []
    edges = np.flatnonzero(np.diff(sorted_track)) + 1
    return list(np.split(order, edges))


def _simply_disjoint(start_ns: Ints, end_ns: Ints) -> bool:
    return bool(np.all(start_ns[1:] >= end_ns[:-1]))


def _lanes_of_one_track(starts: list[int], ends: list[int]) -> list[int]:
    """Greedy: the first lane on which the slice is inside the open one, or after it."""
    open_ends: list[list[int]] = [[]]  # per lane, ends of the open slices, outermost first
    lanes = []
    for start, end in zip(starts, ends, strict=True):
        lane = _first_lane_for(open_ends, start, end)
        open_ends[lane].append(end)
        lanes.append(lane)
    return lanes


def _first_lane_for(open_ends: list[list[int]], start: int, end: int) -> int:
    for lane, stack in enumerate(open_ends):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or end <= stack[-1]:
            return lane
    open_ends.append([])
    return len(open_ends) - 1
