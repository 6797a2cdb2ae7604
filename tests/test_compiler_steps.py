"""Marks of generated tokens and optimizer steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from builders import rows

from neuron_lab.compiler.steps import StepMarks
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.recorder import Recorder
from neuron_lab.trace.table import Trace

GENERATION = "transformers.generation.utils"


def observe(body: Callable[[], object]) -> Trace:
    recorder = Recorder()
    recorder.add_source(StepMarks(recorder))
    recording = recorder.open()
    body()
    return recording.close(TraceHeader())


def train(steps: int) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(steps):
        weight.sum().backward()
        optimizer.step()


@pytest.fixture
def generation(monkeypatch: pytest.MonkeyPatch) -> type:
    """A stand-in with the two methods of transformers' mixin that are wrapped."""

    class GenerationMixin:
        def generate(self, tokens: int) -> str:
            for _ in range(tokens):
                self._update_model_kwargs_for_generation()
            return "done"

        def _update_model_kwargs_for_generation(self) -> None:
            pass

    module = ModuleType(GENERATION)
    module.GenerationMixin = GenerationMixin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, GENERATION, module)
    return GenerationMixin


def test_each_optimizer_step_is_one_mark() -> None:
    trace = observe(lambda: train(3))
    assert rows(trace, Kind.STEP, "name", "index") == [("optimizer step", index) for index in range(3)]


def test_steps_follow_each_other_without_gaps() -> None:
    table = observe(lambda: train(3)).table(Kind.STEP)
    starts, durations = table.column("start_ns").tolist(), table.column("duration_ns").tolist()
    assert starts[1:] == [start + duration for start, duration in zip(starts[:2], durations[:2], strict=True)]


def test_each_token_is_one_mark_counted_from_its_generate_call(generation: type) -> None:
    model = generation()

    def body() -> None:
        assert model.generate(2) == "done"
        assert model.generate(3) == "done"

    trace = observe(body)
    assert rows(trace, Kind.STEP, "name", "index") == [("token", index) for index in (0, 1, 0, 1, 2)]


def test_the_first_token_starts_with_its_generate_call(generation: type) -> None:
    def body() -> None:
        generation().generate(1)
        train(1)  # takes time between the two calls
        generation().generate(1)

    table = observe(body).table(Kind.STEP)
    ends = (table.column("start_ns") + table.column("duration_ns")).tolist()
    names = table.strings("name")
    second_token = len(names) - 1 - names[::-1].index("token")
    assert table.column("start_ns")[second_token] > ends[names.index("optimizer step")]


def test_the_methods_are_restored(generation: type) -> None:
    before = (generation.generate, generation._update_model_kwargs_for_generation)
    observe(lambda: generation().generate(1))
    assert (generation.generate, generation._update_model_kwargs_for_generation) == before


def test_transformers_imported_later_is_wrapped_and_waiting_ends_with_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, GENERATION, raising=False)
    finders = list(sys.meta_path)
    observe(lambda: None)
    assert sys.meta_path == finders


def test_steps_outside_the_profile_are_not_marked() -> None:
    train(1)
    assert len(observe(lambda: train(1)).table(Kind.STEP)) == 1
    train(1)
