"""Collectives: steps and bytes of each algorithm, the documented choice by size, exact intervals."""

import pytest

from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import DEFAULT, Assumption
from neuron_lab.hardware.collectives import Route, collective_cost, route
from neuron_lab.hardware.instances import instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.links import MIB, NEURONLINK_V2, by_size

TRN1, TRN2 = instance("trn1.32xlarge"), instance("trn2.48xlarge")


@pytest.mark.parametrize(
    ("algorithm", "steps"), [("ring", 14), ("mesh", 2), ("recursive", 6), ("kangaring", 8)]
)
def test_an_all_reduce_of_eight_ranks_takes_two_phases(algorithm: str, steps: int) -> None:
    assert route("all_reduce", 800, 8, algorithm) == Route(algorithm, steps, 2 * 7 / 8 * 800)


def test_an_all_gather_is_one_phase() -> None:
    assert route("all_gather", 800, 8, "ring") == Route("ring", 7, 700.0)


def test_one_rank_sends_nothing() -> None:
    assert route("all_reduce", 800, 1, "ring") == Route("ring", 0, 0.0)


@pytest.mark.parametrize(
    ("size_bytes", "algorithm"),
    [(MIB - 1, "mesh"), (MIB, "recursive"), (56 * MIB - 1, "recursive"), (56 * MIB, "kangaring")],
)
def test_trn2_chooses_by_size(size_bytes: int, algorithm: str) -> None:
    assert by_size(size_bytes) == algorithm


def test_a_ring_on_trn1_takes_62_hops_of_one_to_two_microseconds() -> None:
    cost = collective_cost("all_reduce", 0, 32, TRN1)
    assert (cost.interval_ns, cost.bound) == (Interval(62_000, 124_000), "collective")


def test_bytes_go_at_half_a_chips_links_at_best_and_one_link_one_way_at_worst() -> None:
    assert NEURONLINK_V2.rate() == Interval(48, 192)
    sent = 2 * 31 / 32 * 96e6
    cost = collective_cost("all_reduce", 96e6, 32, TRN1)
    assert cost.low_ns == pytest.approx(62_000 + sent / 192, abs=1)
    assert cost.high_ns == pytest.approx(124_000 + sent / 48, abs=1)


def test_the_assumed_fixed_cost_counts_where_hops_explain_less() -> None:
    assert collective_cost("all_reduce", 0, 64, TRN2).interval_ns == Interval(5_000, 120_000)


def test_a_calibrated_fixed_cost_replaces_the_assumed_one() -> None:
    read = DEFAULT.replace(all_reduce_ns=Assumption(40_000, 39_000, 41_000, "ns", "read", "2026-01-01"))
    assert collective_cost("all_reduce", 0, 64, TRN2, assumptions=read).interval_ns == Interval(39_000, 41_000)


def test_machines_are_joined_by_the_network() -> None:
    inside = collective_cost("all_reduce", 1e9, 32, TRN1)
    across = collective_cost("all_reduce", 1e9, 64, TRN1)
    more = 2 * 1 / 2 * (1e9 / 32) / (100 / 32)
    assert across.low_ns - inside.low_ns == pytest.approx(2 * 15_000 + more, abs=2)


def test_more_machines_than_a_document_covers_are_refused() -> None:
    with pytest.raises(UsageError, match=r"2 machines of trn3\.48xlarge: no document gives its network"):
        collective_cost("all_reduce", 1, 128, instance("trn3.48xlarge"))


def test_an_unknown_collective_is_named() -> None:
    with pytest.raises(UsageError, match="unknown collective 'all_sum'"):
        route("all_sum", 1, 2, "ring")
