"""The DMA engines of one core: a transfer takes the ones that are free first, and may use a gap left earlier.

Transfers wait in several queues, so one that waits for its data does not hold up another that is ready.
"""

from __future__ import annotations

MOST_GAPS = 8  # the latest of each lane; older ones are forgotten


class DmaLanes:
    """`lanes` groups of equally many DMA engines each."""

    def __init__(self, engines: int, smallest: int) -> None:
        """`smallest`: the fewest engines any transfer uses; groups are as large as that allows."""
        self.width = 1
        while self.width * 2 <= smallest and engines % (self.width * 2) == 0:
            self.width *= 2
        self.lanes = engines // self.width
        self.free = [0.0] * self.lanes
        self.gaps: list[list[tuple[float, float]]] = [[] for _ in range(self.lanes)]

    def place(self, ready: float, busy: float, engines: int) -> tuple[float, float]:
        """(first start, last end) on as many lanes as it needs."""
        count = min(self.lanes, -(-engines // self.width))
        if count == 1:
            return self._on(self.free.index(min(self.free)) if self.lanes > 1 else 0, ready, busy)
        if count == self.lanes:
            chosen = list(range(self.lanes))
        else:
            chosen = sorted(range(self.lanes), key=self.free.__getitem__)[:count]
        placed = [self._on(lane, ready, busy) for lane in chosen]
        return min(start for start, _ in placed), max(end for _, end in placed)

    def _on(self, lane: int, ready: float, busy: float) -> tuple[float, float]:
        gaps = self.gaps[lane]
        for position, (start, stop) in enumerate(gaps):
            begin = ready if ready > start else start
            if begin + busy <= stop:
                gaps[position : position + 1] = [
                    gap for gap in ((start, begin), (begin + busy, stop)) if gap[1] - gap[0] > 1
                ]
                return begin, begin + busy
        free = self.free[lane]
        begin = ready
        if free >= ready:
            begin = free
        elif ready - free > 1:
            gaps.append((free, ready))
            if len(gaps) > MOST_GAPS:
                del gaps[0]
        self.free[lane] = begin + busy
        return begin, begin + busy
