"""Paired timing: the two sides alternate, the ratio of each pair is kept, the median is printed with its bound.

Machines are noisy and drift; a pair sees the same drift, so its ratio is steadier than either time. The bound
is the 95 % confidence interval of the median by order statistics (binomial), so it needs no distribution.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


@dataclass(frozen=True)
class Ratio:
    """Median of paired ratios with its 95 % bound, and the median seconds of either side."""

    median: float
    low: float
    high: float
    first_s: float
    second_s: float
    pairs: int

    def __str__(self) -> str:
        return (
            f"ratio {self.median:.3f} (95 % bound {self.low:.3f} to {self.high:.3f}, {self.pairs} pairs; "
            f"medians {self.first_s:.4g} s / {self.second_s:.4g} s, measured)"
        )


def seconds(work: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def paired_ratio(
    first: Callable[[], object],
    second: Callable[[], object],
    *,
    pairs: int,
    warmups: int = 1,
    clock: Clock = time.perf_counter,
) -> Ratio:
    """Time `first` over `second`, alternating and swapping the order from pair to pair.

    `clock=time.process_time` counts this process's processor time, which other work on the machine moves less.
    """
    for _ in range(warmups):
        first()
        second()
    times: list[tuple[float, float]] = []
    for index in range(pairs):
        if index % 2:
            late = seconds(second, clock)
            times.append((seconds(first, clock), late))
        else:
            early = seconds(first, clock)
            times.append((early, seconds(second, clock)))
    return ratio_of(times)


def ratio_of(times: list[tuple[float, float]]) -> Ratio:
    """The paired ratios of (first, second) seconds, reduced to a median with its bound."""
    ratios = sorted(first / second for first, second in times)
    skip = bound_rank(len(ratios))
    return Ratio(
        statistics.median(ratios),
        ratios[skip],
        ratios[-1 - skip],
        statistics.median(first for first, _ in times),
        statistics.median(second for _, second in times),
        len(ratios),
    )


def bound_rank(count: int) -> int:
    """How many values to drop at either end for a 95 % interval of the median; it takes six to have one."""
    tail, rank = 0.5**count, 0
    while tail + math.comb(count, rank + 1) / 2**count <= 0.025:
        rank += 1
        tail += math.comb(count, rank) / 2**count
    return rank
