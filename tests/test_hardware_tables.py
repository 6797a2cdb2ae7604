"""Chips, instances, assumptions: the figures, their sources and what a wrong name is told."""

import pytest

from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import DEFAULT, Assumption
from neuron_lab.hardware.chips import CHIPS, Chip, chip
from neuron_lab.hardware.facts import Fact, weakest
from neuron_lab.hardware.instances import INSTANCES, instance
from neuron_lab.hardware.interval import Interval, total


@pytest.mark.parametrize(
    ("name", "lnc", "cores"),
    [
        ("trn2.3xlarge", 2, 4),
        ("trn2.3xlarge", 1, 8),
        ("trn2.48xlarge", 2, 64),
        ("trn2u.48xlarge", 1, 128),
        ("trn1.2xlarge", 1, 2),
        ("trn1.32xlarge", 1, 32),
        ("inf2.24xlarge", 1, 12),
        ("inf2.48xlarge", 1, 24),
        ("trn3pd98.3xlarge", 2, 4),
        ("trn3pd98.3xlarge", 1, 8),
        ("trn3.48xlarge", 2, 64),
    ],
)
def test_the_number_of_cores_follows_from_the_grouping(name: str, lnc: int, cores: int) -> None:
    assert instance(name).cores(lnc) == cores


def test_a_core_has_one_24_gib_stack() -> None:
    assert instance("trn2.3xlarge").hbm_per_core_bytes() == 25_769_803_776


def test_at_lnc_1_two_cores_share_a_stack() -> None:
    assert [instance("trn2.3xlarge").pool_of_core(core, lnc=1) for core in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_at_lnc_2_every_core_has_its_own_stack() -> None:
    assert [instance("trn2.3xlarge").pool_of_core(core, lnc=2) for core in range(4)] == [0, 1, 2, 3]


def test_an_unknown_instance_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        instance("trn9.huge")
    assert str(caught.value) == (
        "unknown instance 'trn9.huge'; valid: trn2.3xlarge, trn2.48xlarge, trn2u.48xlarge, trn1.2xlarge, "
        "trn1.32xlarge, trn1n.32xlarge, inf2.xlarge, inf2.8xlarge, inf2.24xlarge, inf2.48xlarge, "
        "trn3pd98.3xlarge, trn3.48xlarge"
    )


def test_an_unknown_chip_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown chip 'gpu'; valid: trn1, inf2, trn2, trn3"):
        chip("gpu")


def test_a_wrong_grouping_is_refused_with_the_limit() -> None:
    with pytest.raises(UsageError, match="lnc=3: physical cores per logical core must be 1 or 2"):
        instance("trn2.3xlarge").cores(3)


def test_host_figures_nobody_documents_are_none() -> None:
    assert [(each.host_vcpus, each.host_memory) for each in INSTANCES.values()] == [(None, None)] * 12


def test_every_chip_figure_has_a_unit_and_a_source() -> None:
    assert [
        name
        for each in CHIPS.values()
        for name, fact in each.facts().items()
        if not (fact.unit and fact.source)
    ] == []


@pytest.mark.parametrize("each", CHIPS.values(), ids=list(CHIPS))
def test_the_array_and_the_clock_agree_with_the_published_peak(each: Chip) -> None:
    from_array = each.array_rows.value * each.array_columns.value * 2 * each.tensor_clock.value / 1e3
    assert from_array == pytest.approx(each.tensor_rate["bfloat16"].value, rel=0.01)


def test_trn1_cores_are_not_grouped() -> None:
    with pytest.raises(UsageError, match="lnc=2: physical cores per logical core must be 1 on trn1"):
        instance("trn1.32xlarge").cores(2)


@pytest.mark.parametrize(
    ("name", "gib"), [("trn1.2xlarge", 16), ("inf2.xlarge", 16), ("trn2.3xlarge", 24), ("trn3.48xlarge", 36)]
)
def test_a_core_has_one_stack_of_its_chip(name: str, gib: int) -> None:
    assert instance(name).hbm_per_core_bytes() == gib * 2**30


def test_a_machine_of_one_chip_has_no_links_and_a_torus_has_them() -> None:
    assert instance("trn1.2xlarge").link is None
    assert instance("trn1.32xlarge").facts()["link_bandwidth"] is not None


def test_every_instance_figure_has_a_unit_and_a_source() -> None:
    figures = [fact for each in INSTANCES.values() for fact in each.facts().values() if fact is not None]
    assert [fact for fact in figures if not (fact.unit and fact.source)] == []


def test_a_fact_prints_its_confidence_and_source() -> None:
    assert str(Fact(79, "TFLOP/s", "a guide")) == "79 TFLOP/s (documented: a guide)"


def test_a_result_is_as_trustworthy_as_its_weakest_part() -> None:
    assert weakest(["measured", "assumed", "documented"]) == "assumed"


def test_an_assumption_prints_value_range_and_reason() -> None:
    assert str(DEFAULT.compile_s) == "5 s (1–30), assumed: compiling one graph or one eager kernel"


def test_one_assumption_can_be_overridden_without_touching_the_default() -> None:
    mine = DEFAULT.replace(launch_ns=Assumption(7, 7, 7, "ns", "read on an instance"))
    assert (mine.launch_ns.interval, DEFAULT.launch_ns.interval) == (Interval(7, 7), Interval(5_000, 50_000))


def test_an_assumption_outside_its_own_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"9 ns lies outside its range 1–2"):
        Assumption(9, 1, 2, "ns", "")


def test_intervals_add_end_by_end() -> None:
    assert total([Interval(1, 2), Interval(3, 5)]) == Interval(4, 7)


def test_intervals_side_by_side_take_the_longer_of_each_end() -> None:
    assert Interval(1, 9).max(Interval(4, 5)) == Interval(4, 9)


def test_an_interval_scales_both_ends() -> None:
    assert Interval(1, 3).scale(2) == Interval(2, 6)


def test_an_interval_that_is_upside_down_is_refused() -> None:
    with pytest.raises(ValueError, match="from 3 to 1"):
        Interval(3, 1)
