"""Interval algebra against brute force: an operation's interval is what its operands' values can give."""

from hypothesis import given
from hypothesis import strategies as st

from neuron_lab.hardware.interval import Interval, total

ENDS = st.integers(-1000, 1000)
FACTORS = st.integers(0, 50)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    one, other = draw(ENDS), draw(ENDS)
    return Interval(min(one, other), max(one, other))


def values(interval: Interval) -> list[float]:
    """Ends and some values between."""
    width = interval.high - interval.low
    return [interval.low + width * step / 8 for step in range(9)]


@given(intervals(), intervals())
def test_a_sum_holds_exactly_what_sums_of_values_reach(one: Interval, other: Interval) -> None:
    reached = [a + b for a in values(one) for b in values(other)]
    assert one + other == Interval(min(reached), max(reached))


@given(intervals(), intervals())
def test_side_by_side_holds_exactly_what_maxima_of_values_reach(one: Interval, other: Interval) -> None:
    reached = [max(a, b) for a in values(one) for b in values(other)]
    assert one.max(other) == Interval(min(reached), max(reached))


@given(intervals(), FACTORS)
def test_a_scaled_interval_holds_exactly_what_scaled_values_reach(one: Interval, factor: int) -> None:
    reached = [value * factor for value in values(one)]
    assert one.scale(factor) == Interval(min(reached), max(reached))


@given(st.lists(intervals(), max_size=6))
def test_a_total_is_the_sum_of_the_ends(several: list[Interval]) -> None:
    found = total(several)
    assert (found.low, found.high) == (sum(each.low for each in several), sum(each.high for each in several))


@given(intervals(), ENDS)
def test_containing_is_lying_between_the_ends(one: Interval, value: int) -> None:
    assert one.contains(value) == (min(one.low, value) == one.low and max(one.high, value) == one.high)
