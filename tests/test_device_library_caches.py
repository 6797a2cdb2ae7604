"""Libraries that were imported too early are made to ask again."""

import functools
import importlib
import sys
import types

import torch

from neuron_lab.device import library_caches


def module(name, monkeypatch, **members):
    fake = types.ModuleType(name)
    for member, value in members.items():
        setattr(fake, member, value)
    monkeypatch.setitem(sys.modules, name, fake)
    return fake


def test_cached_answers_are_asked_again(monkeypatch):
    answers = [False]
    asked = functools.lru_cache(lambda: answers[0])
    module("transformers.utils.import_utils", monkeypatch, is_torch_neuron_available=asked)
    assert asked() is False
    answers[0] = True
    library_caches.forget_answers()
    assert asked() is True


def test_a_library_without_these_functions_is_left_alone(monkeypatch):
    module("transformers.utils.import_utils", monkeypatch)
    library_caches.forget_answers()


def test_the_names_exist_in_the_installed_libraries():
    for module_name, function_name in library_caches.CACHED_FUNCTIONS:
        function = getattr(importlib.import_module(module_name), function_name)
        assert hasattr(function, "cache_clear"), function_name


def test_diffusers_answer_cannot_be_changed_and_is_named(monkeypatch):
    module("diffusers.utils.import_utils", monkeypatch, _torch_neuronx_available=False)
    assert library_caches.frozen_answers() == [
        (
            "diffusers was imported before the neuron device existed and keeps its answer; "
            "restart the kernel and activate before importing diffusers"
        )
    ]


def test_an_accelerate_state_that_chose_the_cpu_is_named(monkeypatch):
    state = types.SimpleNamespace(_shared_state={"device": torch.device("cpu")})
    module("accelerate.state", monkeypatch, PartialState=state)
    assert library_caches.frozen_answers() == [
        (
            "accelerate has already chosen the device cpu for this process; "
            "call accelerate.state.AcceleratorState._reset_state(True) or restart the kernel"
        )
    ]


def test_nothing_frozen_says_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "diffusers.utils.import_utils", raising=False)
    monkeypatch.delitem(sys.modules, "accelerate.state", raising=False)
    assert library_caches.frozen_answers() == []
