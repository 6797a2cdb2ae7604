"""Two ends between which a modelled quantity lies. A modelled time is never a bare point."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= high`, both in the unit the name of the variable ends with."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"interval from {self.low} to {self.high}: the low end is above the high end")

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def scale(self, factor: float) -> Interval:
        """Both ends times a factor that is not negative."""
        if factor < 0:
            raise ValueError(f"scale an interval by {factor}: the factor must not be negative")
        return Interval(self.low * factor, self.high * factor)

    def max(self, other: Interval) -> Interval:
        """What two things take that run side by side."""
        return Interval(max(self.low, other.low), max(self.high, other.high))

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g}–{self.high:g}"


ZERO = Interval(0, 0)


def total(intervals: Iterable[Interval]) -> Interval:
    """What several things take one after another."""
    return sum(intervals, start=ZERO)
