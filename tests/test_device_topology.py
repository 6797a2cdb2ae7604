"""Instance, cores and LNC from arguments and variables."""

import pytest

from neuron_lab.device.topology import resolve
from neuron_lab.errors import UsageError
from neuron_lab.hardware.instances import INSTANCES

HBM_BYTES = 25_769_803_776


def test_the_default_is_one_trn2_chip_with_four_cores_of_24_gib():
    topology = resolve(None, None, None, {})
    assert (topology.instance, topology.lnc, topology.cores) == ("trn2.3xlarge", 2, (0, 1, 2, 3))
    assert topology.pool_of_core == (0, 1, 2, 3)
    assert topology.pool_bytes == (HBM_BYTES,) * 4


def test_at_lnc_1_two_neighbours_share_one_memory():
    topology = resolve(None, None, 1, {})
    assert topology.cores == tuple(range(8))
    assert topology.pool_of_core == (0, 0, 1, 1, 2, 2, 3, 3)
    assert topology.pool_bytes == (HBM_BYTES,) * 4


def test_the_largest_machine_has_64_cores_at_lnc_2_and_128_at_lnc_1():
    assert len(resolve("trn2.48xlarge", None, 2, {}).cores) == 64
    assert len(resolve("trn2.48xlarge", None, 1, {}).cores) == 128


def test_the_family_is_the_instance_name_before_the_dot():
    assert resolve("trn2u.48xlarge", None, None, {}).family == "trn2u"


def test_arguments_win_over_our_variables():
    environ = {"NEURON_LAB_INSTANCE": "trn2.48xlarge", "NEURON_LAB_CORES": "8", "NEURON_LAB_LNC": "1"}
    assert len(resolve(None, None, None, environ).cores) == 8
    topology = resolve("trn2.3xlarge", 2, 2, environ)
    assert (topology.instance, topology.lnc, topology.cores) == ("trn2.3xlarge", 2, (0, 1))


def test_the_runtimes_lnc_variable_counts_when_ours_is_unset():
    assert resolve(None, None, None, {"NEURON_LOGICAL_NC_CONFIG": "1"}).lnc == 1
    assert resolve(None, None, None, {"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_LAB_LNC": "2"}).lnc == 2


@pytest.mark.parametrize(
    ("text", "cores"), [("2", (2,)), ("1-3", (1, 2, 3)), ("0,2", (0, 2)), ("0,2-3", (0, 2, 3))]
)
def test_visible_cores_takes_an_index_a_range_or_a_list(text, cores):
    assert resolve(None, None, None, {"NEURON_RT_VISIBLE_CORES": text}).cores == cores


def test_visible_cores_keep_the_memories_they_share():
    topology = resolve(None, None, 1, {"NEURON_RT_VISIBLE_CORES": "1-2"})
    assert topology.pool_of_core == (0, 1)
    assert len(topology.pool_bytes) == 2


def test_num_cores_takes_the_first_ones_and_zero_means_all():
    assert resolve(None, None, None, {"NEURON_RT_NUM_CORES": "1"}).cores == (0,)
    assert resolve(None, None, None, {"NEURON_RT_NUM_CORES": "0"}).cores == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (
            ("trn9.big", None, None),
            {},
            f"unknown instance 'trn9.big'; valid: {', '.join(INSTANCES)}",
        ),
        ((None, None, 3), {}, "unknown lnc 3; valid: 1, 2"),
        ((None, 5, None), {}, "cores 5 is not possible; valid: 1 to 4 (trn2.3xlarge at LNC 2)"),
        ((None, 0, None), {}, "cores 0 is not possible; valid: 1 to 4 (trn2.3xlarge at LNC 2)"),
        (
            (None, None, None),
            {"NEURON_LAB_CORES": "many"},
            "NEURON_LAB_CORES 'many' is not a whole number",
        ),
        ((None, None, None), {"NEURON_LAB_LNC": "4"}, "unknown NEURON_LAB_LNC '4'; valid: 1, 2"),
        (
            (None, None, None),
            {"NEURON_RT_VISIBLE_CORES": "0,9"},
            "NEURON_RT_VISIBLE_CORES '0,9' names core 9; valid: 0 to 3",
        ),
        (
            (None, None, None),
            {"NEURON_RT_NUM_CORES": "9"},
            "NEURON_RT_NUM_CORES 9 is not possible; valid: 0 (all) to 4",
        ),
    ],
)
def test_an_impossible_machine_is_one_line_with_the_valid_values(arguments, environ, message):
    with pytest.raises(UsageError) as caught:
        resolve(*arguments, environ)
    assert str(caught.value) == message
