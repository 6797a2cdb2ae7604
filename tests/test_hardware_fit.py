"""Does it fit: exact bytes by category, and the three answers."""

import pytest

from neuron_lab.errors import UsageError
from neuron_lab.hardware.fit import Plan, does_it_fit, where_it_fits
from neuron_lab.hardware.instances import instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.transformer import LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B

ONE = instance("trn2.3xlarge")


def test_weights_and_cache_are_exact() -> None:
    need = does_it_fit(LLAMA_2_7B, Plan(batch=2, length=1024), ONE)
    cache = 2 * 32 * 32 * 128 * 2 * 2 * 1024
    assert need.by_category["parameters"] == Interval(2 * LLAMA_2_7B.parameters, 2 * LLAMA_2_7B.parameters)
    assert need.by_category["cache"] == Interval(cache, cache)


def test_a_7b_model_fits_one_core_of_24_gib_for_inference() -> None:
    assert does_it_fit(LLAMA_2_7B, Plan(length=1024), ONE).fits == "yes"


def test_training_it_there_does_not() -> None:
    need = does_it_fit(LLAMA_2_7B, Plan(length=1024, training=True), ONE)
    assert (need.fits, list(need.by_category)) == (
        "no",
        ["parameters", "gradients", "optimizer", "activations", "reserved"],
    )


def test_a_limit_inside_the_interval_is_perhaps() -> None:
    assert does_it_fit(LLAMA_2_7B, Plan(length=16_384), ONE).fits == "perhaps"


def test_a_long_cache_does_not_fit_any_more() -> None:
    assert does_it_fit(LLAMA_2_7B, Plan(length=32_768), ONE).fits == "no"


def test_fewer_key_heads_than_ranks_are_kept_on_every_rank() -> None:
    need = does_it_fit(LLAMA_3_8B, Plan(ranks=32, length=100), instance("trn1.32xlarge"))
    assert need.by_category["cache"].low == 2 * 32 * 1 * 128 * 2 * 100


def test_replicas_share_the_optimizer_state() -> None:
    alone = does_it_fit(LLAMA_2_7B, Plan(ranks=4, training=True), ONE).by_category["optimizer"].low
    shared = does_it_fit(LLAMA_2_7B, Plan(ranks=4, training=True, replicas=4), ONE).by_category["optimizer"].low
    assert shared == pytest.approx(alone / 4, abs=12)


def test_at_lnc_1_two_cores_share_the_limit() -> None:
    assert does_it_fit(LLAMA_2_7B, Plan(), ONE, lnc=1).limit_bytes == 12 * 2**30


def test_more_ranks_than_cores_are_refused() -> None:
    with pytest.raises(UsageError, match=r"8 ranks do not fit trn2\.3xlarge, which has 4 cores"):
        does_it_fit(LLAMA_3_70B, Plan(ranks=8), ONE)


def test_a_70b_model_fits_the_machines_with_enough_cores() -> None:
    answers = {need.instance: need.fits for need in where_it_fits(LLAMA_3_70B, Plan(ranks=32, length=4096))}
    assert answers == {
        "trn2.48xlarge": "yes",
        "trn2u.48xlarge": "yes",
        "trn1.32xlarge": "yes",
        "trn1n.32xlarge": "yes",
        "trn3.48xlarge": "yes",
    }


def test_the_answer_reads_with_its_figures() -> None:
    text = str(does_it_fit(LLAMA_2_7B, Plan(length=1024), ONE))
    assert text.startswith("trn2.3xlarge, LNC 2: 13.")
    assert text.endswith("of 24 GiB per core, fits: yes")
