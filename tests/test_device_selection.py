"""The rule that picks the device, with the machine replaced by a given probe."""

import pytest

from neuron_lab.device.native import NativeProbe
from neuron_lab.device.selection import Selection, select
from neuron_lab.errors import ActivationError, UsageError


def absent() -> NativeProbe:
    return NativeProbe(0, "torch_neuronx is not installed")


def present() -> NativeProbe:
    return NativeProbe(4, "torch_neuronx reports 4 cores")


def must_not_be_asked() -> NativeProbe:
    raise AssertionError("the machine was probed")


def test_auto_takes_the_hardware_when_it_reports_cores():
    assert select("auto", {}, present) == Selection("hardware", "torch_neuronx reports 4 cores")


def test_auto_emulates_when_there_is_no_hardware_and_says_why():
    assert select("auto", {}, absent) == Selection("emulated", "torch_neuronx is not installed")


def test_the_variable_decides_when_the_mode_is_auto():
    found = select("auto", {"NEURON_LAB_DEVICE": "emulated"}, must_not_be_asked)
    assert found == Selection("emulated", "NEURON_LAB_DEVICE=emulated asks for it")


def test_an_explicit_mode_wins_over_the_variable():
    found = select("emulated", {"NEURON_LAB_DEVICE": "off"}, must_not_be_asked)
    assert found == Selection("emulated", "mode='emulated' asks for it")


def test_off_asks_for_no_device():
    assert select("auto", {"NEURON_LAB_DEVICE": "OFF"}, must_not_be_asked).kind == "off"


def test_hardware_that_is_not_there_is_an_error_with_the_reason_and_the_cure():
    with pytest.raises(ActivationError) as caught:
        select("hardware", {}, absent)
    assert str(caught.value) == (
        "mode='hardware' asks for real Neuron hardware, but torch_neuronx is not installed; use mode='auto' or "
        "'emulated' (or unset NEURON_LAB_DEVICE) for the emulated device"
    )


@pytest.mark.parametrize(
    ("mode", "environ", "message"),
    [
        ("fast", {}, "unknown mode 'fast'; valid: auto, hardware, emulated, off"),
        (
            "auto",
            {"NEURON_LAB_DEVICE": "gpu"},
            "unknown NEURON_LAB_DEVICE 'gpu'; valid: auto, hardware, emulated, off",
        ),
    ],
    ids=["argument", "variable"],
)
def test_an_unknown_mode_is_one_line_with_the_valid_ones(mode, environ, message):
    with pytest.raises(UsageError) as caught:
        select(mode, environ, absent)
    assert str(caught.value) == message
