"""Every breaking snippet of the corpus is reported once, at the marked line; look-alikes are not reported."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from corpus import breaks, near_misses

from neuron_lab.analysis.compile_health import CompileHealth, compile_health
from neuron_lab.compiler.observer import CompileObserver
from neuron_lab.trace.events import TraceHeader
from neuron_lab.trace.recorder import Recorder

NOT_ENTRIES = {"Inner", "not_compiled"}  # called by others
MARK = re.compile(r"# breaks: (.+)$")
CALLED = {"Nested": breaks.Inner, "branches_on_an_object": breaks.Sign}  # the marked line is there


def entries(module: ModuleType) -> list[str]:
    def is_entry(value: Any) -> bool:
        if inspect.isclass(value):
            return issubclass(value, torch.nn.Module)
        return inspect.isfunction(value)

    return [
        name
        for name, value in vars(module).items()
        if is_entry(value) and value.__module__ == module.__name__ and name not in NOT_ENTRIES
    ]


def marked(name: str) -> set[tuple[str, str]]:
    """Places and ids that the snippet's comments announce."""
    found = set()
    lines, first = inspect.getsourcelines(CALLED.get(name, getattr(breaks, name)))
    for number, line in enumerate(lines, first):
        if match := MARK.search(line.rstrip()):
            found |= {(f"{breaks.__file__}:{number}", break_id) for break_id in match[1].split()}
    return found


def observed(target: Callable[..., Any], x: torch.Tensor) -> tuple[CompileHealth, int]:
    """What was reported, and what torch counted."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    recorder = Recorder()
    observer = CompileObserver()
    recorder.add_source(observer)
    recording = recorder.open()
    with contextlib.suppress(KeyError):  # one snippet raises it, and the user's error is not ours
        torch.compile(target, backend="eager")(x)
    health = compile_health(recording.close(TraceHeader()))
    recorder.remove_source(observer)
    assert observer.notices == []
    counters = torch._dynamo.utils.counters
    return health, sum(sum(counters[category].values()) for category in ("graph_break", "unimplemented"))


def made(name: str, module: ModuleType) -> Callable[..., Any]:
    value = getattr(module, name)
    return value() if inspect.isclass(value) else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", entries(breaks))
def test_a_break_is_reported_once_at_its_line(name: str) -> None:
    needs_gradient = name in ("runs_backward", "retains_gradients", "reads_grad_fn")
    health, counted = observed(made(name, breaks), torch.ones(4, requires_grad=needs_gradient))
    assert sorted((found.place, found.break_id) for found in health.breaks) == sorted(marked(name))
    assert health.break_count == counted
    for found in health.breaks:
        assert MARK.search(found.source)
        assert "; " in found.reason  # a change to make is named
        assert " at 0x" not in found.reason


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", entries(near_misses))
def test_a_near_miss_is_one_graph_without_breaks(name: str) -> None:
    health, counted = observed(made(name, near_misses), torch.ones(4))
    assert (health.breaks, health.break_count, counted) == ((), 0, 0)
    assert health.compile_count == 1


def test_the_corpus_is_as_large_as_it_claims() -> None:
    ids = {
        break_id for line in Path(breaks.__file__).read_text().splitlines()[5:] for break_id in mark_ids(line)
    }
    assert len(entries(breaks)) >= 40
    assert len(ids) >= 25
    assert len(entries(near_misses)) >= 20


def mark_ids(line: str) -> list[str]:
    match = MARK.search(line)
    return match[1].split() if match else []
