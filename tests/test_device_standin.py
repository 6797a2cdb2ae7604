"""The stand-in package, seen by `importlib` as libraries see it. Needs no active device."""

import importlib.metadata
import importlib.util
import sys

import pytest

from neuron_lab.device import native
from neuron_lab.device.standin import finder


@pytest.fixture
def standin():
    """The stand-in served during one test, whatever was served before."""
    was_active = finder._FINDER in sys.meta_path
    finder.install()
    yield
    finder.install() if was_active else finder.remove()


@pytest.fixture
def no_standin():
    was_active = finder._FINDER in sys.meta_path
    finder.remove()
    yield
    if was_active:
        finder.install()


def test_it_is_absent_until_installed(no_standin):
    assert importlib.util.find_spec("torch_neuronx") is None
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("torch_neuronx")


def test_its_spec_and_its_distribution_are_found(standin):
    assert importlib.util.find_spec("torch_neuronx") is not None
    assert importlib.metadata.version("torch_neuronx") == "2.13.3.0+emulated"
    assert importlib.metadata.version("torch-neuronx") == "2.13.3.0+emulated"
    assert importlib.metadata.metadata("torch-neuronx")["Name"] == "torch-neuronx"


def test_installing_twice_serves_one_distribution(standin):
    finder.install()
    names = [distribution.name for distribution in importlib.metadata.distributions(name="torch-neuronx")]
    assert names == ["torch-neuronx"]


def test_it_offers_the_compile_backend_under_the_real_name(standin):
    points = importlib.metadata.entry_points(group="torch_dynamo_backends", name="neuron")
    assert [point.value for point in points] == ["torch_neuronx.neuron_dynamo_backend.backend:neuron_backend"]


def test_other_distributions_stay_visible(standin):
    assert importlib.metadata.version("torch")
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("a-distribution-nobody-has")


def test_removing_it_makes_the_package_absent_again(standin):
    finder.remove()
    assert finder._FINDER not in sys.meta_path
    assert "torch_neuronx" not in sys.modules


def test_the_probe_for_the_real_package_does_not_see_the_standin(standin):
    assert native.installed_spec() is None
