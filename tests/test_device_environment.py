"""The variables that children inherit."""

import os

import pytest

from neuron_lab.device import environment


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Start from nothing exported, whatever another test activated."""
    monkeypatch.setattr(environment, "_before", {})
    for name in environment.NAMES:
        monkeypatch.delenv(name, raising=False)
    yield
    environment.restore()


def test_restore_puts_back_what_the_user_had(monkeypatch):
    monkeypatch.setenv("NEURON_LAB_DEVICE", "auto")
    environment.export({"NEURON_LAB_DEVICE": "emulated", "NEURON_LAB_CORES": "4"})
    assert os.environ["NEURON_LAB_DEVICE"] == "emulated"
    environment.restore()
    assert os.environ["NEURON_LAB_DEVICE"] == "auto"
    assert "NEURON_LAB_CORES" not in os.environ


def test_a_second_export_does_not_hide_what_the_user_had():
    environment.export({"NEURON_LAB_CORES": "4"})
    environment.export({"NEURON_LAB_CORES": "2"})
    environment.restore()
    assert "NEURON_LAB_CORES" not in os.environ


def test_our_own_exports_are_not_read_as_the_users_wish():
    environment.export({"NEURON_LAB_CORES": "4"})
    assert "NEURON_LAB_CORES" not in environment.as_the_user_set_it()
