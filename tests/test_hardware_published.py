"""The modelled clock against published times, and the page that says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from neuron_lab.hardware.instances import instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.published import PublishedRow, agreement, leave_one_out, published_rows
from neuron_lab.hardware.transformer import DECODERS, decode_step, prompt_pass, training_step

REPOSITORY = Path(__file__).resolve().parent.parent


def test_at_least_four_of_five_published_times_are_inside() -> None:
    assert agreement(published_rows()).inside_share >= 0.8


def test_at_least_nine_of_ten_pairs_are_ranked_right() -> None:
    assert agreement(published_rows()).ranked_share >= 0.9


def test_the_intervals_are_not_wide_for_the_sake_of_containing() -> None:
    assert agreement(published_rows()).median_width <= 6


def test_every_time_per_token_is_inside() -> None:
    rows = [row for row in published_rows() if row.table.startswith("time per output token")]
    assert [row.inside for row in rows] == [True] * 6


def test_what_is_not_inside_says_why() -> None:
    assert [row.name for row in published_rows() if not row.inside and not row.remark] == []


def test_agreement_counts_pairs_of_one_table_that_differ() -> None:
    rows = [
        PublishedRow("a", "1", 10, Interval(5, 20)),
        PublishedRow("a", "2", 20, Interval(6, 18)),  # outside, ranked right
        PublishedRow("a", "3", 10.5, Interval(1, 2)),  # as good as the first; outside; ranked right below 2
        PublishedRow("b", "4", 99, Interval(90, 100)),
    ]
    found = agreement(rows)
    assert (found.inside, found.pairs, found.ranked_right) == (2, 2, 2)


def test_a_time_per_all_reduce_fitted_to_the_other_rows_predicts_most_left_out_rows() -> None:
    errors = sorted(abs(each.error) for each in leave_one_out())
    assert errors[-2] < 0.1  # all but the one with the longest context


def test_the_page_of_timings_is_current() -> None:
    done = subprocess.run([sys.executable, "scripts/timings.py", "--check"], cwd=REPOSITORY, env=_environment())
    assert done.returncode == 0


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@pytest.mark.parametrize(
    ("name", "billions"),
    [("Llama-3-8B", 8.03), ("Llama-2-7b", 6.74), ("Llama-3-70B", 70.55), ("Llama-2-13b", 13.02)],
)
def test_dimensions_give_the_published_number_of_parameters(name: str, billions: float) -> None:
    assert DECODERS[name].parameters == pytest.approx(billions * 1e9, rel=0.001)


def test_the_low_end_of_a_decode_step_reads_the_weights_once_and_hops_the_rings() -> None:
    model, machine = DECODERS["Llama-2-7b"], instance("trn1.32xlarge")
    step = decode_step(model, machine, ranks=32, length=2048)
    weights_ns = 2 * model.layers * model.layer_parameters / 32 / 435.2
    assert step.compute_ns.low == pytest.approx(weights_ns, rel=0.03)
    assert step.collectives == 64
    assert step.collective_ns.low == pytest.approx(64 * 62_000, rel=0.01)


def test_one_rank_has_no_collectives() -> None:
    step = decode_step(DECODERS["Llama-2-7b"], instance("trn2.3xlarge"), ranks=1, length=128)
    assert (step.collectives, step.collective_ns) == (0, Interval(0, 0))


def test_a_prompt_needs_two_flops_per_parameter_and_token() -> None:
    model = DECODERS["Llama-2-7b"]
    found = prompt_pass(model, instance("trn2.3xlarge"), ranks=1, length=128).flops
    assert found == pytest.approx(2 * model.layers * model.layer_parameters * 128, rel=0.03)


def test_training_takes_three_forward_passes_at_best() -> None:
    model, machine = DECODERS["Llama-2-7b"], instance("trn2.3xlarge")
    forward = prompt_pass(model, machine, ranks=1, length=512)
    step = training_step(model, machine, ranks=1, batch=4, length=512)
    assert step.compute_ns.low == pytest.approx(12 * forward.compute_ns.low)
    assert step.flops == 12 * forward.flops
