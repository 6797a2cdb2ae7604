"""What makes Dynamo compile again, what only looks as if it did: each once, with variable and values."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from builders import rows

from neuron_lab.compiler.observer import CompileObserver
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.recorder import Recorder
from neuron_lab.trace.table import Trace

Tensor = torch.Tensor
Call = Callable[[Callable[..., Any]], Any]
ones = torch.ones
FACTOR = 3


class Settings:
    scale = 2


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.factor = 1

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor


def times(x: Tensor, k: Any) -> Tensor:
    return x * k


def optional(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


def by_mode(x: Tensor, mode: str) -> Tensor:
    return x + 1 if mode == "plus" else x - 1


def uses_a_global(x: Tensor) -> Tensor:
    return x * FACTOR


def total(items: list[Tensor]) -> Tensor:
    return sum(items, ones(2))


def total_of(items: dict[str, Tensor]) -> Tensor:
    return sum(items.values(), ones(2))


def applied(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return function(x)


def added(a: Tensor, b: Tensor) -> Tensor:
    return a.add_(b)


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.reshape(shape)


def scaled_by(x: Tensor, settings: Settings) -> Tensor:
    return x * settings.scale


def call(*args: Any) -> Call:
    return lambda compiled: compiled(*args)


def inside(context: Callable[[], Any], *args: Any) -> Call:
    def run(compiled: Callable[..., Any]) -> None:
        with context():
            compiled(*args)

    return run


def changed_global(compiled: Callable[..., Any]) -> None:
    global FACTOR
    FACTOR += 1
    compiled(ones(2))


@contextlib.contextmanager
def float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def autocast() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


def plus_one(x: Tensor) -> Tensor:
    return x + 1


def plus_two(x: Tensor) -> Tensor:
    return x + 2


class Mutable(Layer):
    """`factor` becomes 4 between the calls."""


def changed_factor(compiled: Any) -> None:
    compiled.factor = 4
    compiled(ones(4))


def shared(compiled: Callable[..., Any]) -> None:
    x = ones(2)
    compiled(x, x)


# The line named is the guarded expression's, or the function's (empty text) for tensors and settings.
# name: (code, text of the line named, calls, recompiles as (variable, old, new))
RECOMPILES: dict[str, tuple[Callable[..., Any], str, list[Call], list[tuple[str, str, str]]]] = {
    "size": (times, "", [call(ones(2), 2), call(ones(3), 2)], [("x", "2", "3")]),
    "size of one": (times, "", [call(ones(2), 2), call(ones(1), 2)], [("x", "2", "1")]),
    "several sizes": (
        times,
        "",
        [call(ones(n), 2) for n in (2, 3, 4, 5)],
        [("x", "2", "3"), ("x", "3", "4"), ("x", "4", "5")],
    ),
    "second dimension": (times, "", [call(ones(2, 2), 2), call(ones(2, 5), 2)], [("x", "2", "5")]),
    "dtype": (times, "", [call(ones(2), 2), call(ones(2).half(), 2)], [("x", "Float", "Half")]),
    "rank": (times, "", [call(ones(2), 2), call(ones(2, 2), 2)], [("x", "1", "2")]),
    "gradient": (times, "", [call(ones(2), 2), call(ones(2, requires_grad=True), 2)], [("x", "0", "1")]),
    "stride": (times, "", [call(ones(2, 3), 2), call(ones(3, 2).t(), 2)], [("x", "3", "1")]),
    "integer": (times, "x * k", [call(ones(2), 2), call(ones(2), 3)], [("k", "2", "3")]),
    "float": (times, "x * k", [call(ones(2), 2.5), call(ones(2), 3.5)], [("k", "2.5", "3.5")]),
    "bool": (times, "x * k", [call(ones(2), True), call(ones(2), False)], [("k", "True", "False")]),
    "type": (times, "x * k", [call(ones(2), 2), call(ones(2), ones(2))], [("k", "2", "a Tensor")]),
    "string": (
        by_mode,
        'mode == "plus"',
        [call(ones(2), "plus"), call(ones(2), "minus")],
        [("mode", "'plus'", "'minus'")],
    ),
    "global": (uses_a_global, "x * FACTOR", [call(ones(2)), changed_global], [("FACTOR", "3", "4")]),
    "attribute of a module": (
        Mutable,
        "self.linear(x) * self.factor",
        [call(ones(4)), changed_factor],
        [("self.factor", "1", "4")],
    ),
    "length of a list": (
        total,
        "sum(items",
        [call([ones(2)]), call([ones(2), ones(2)])],
        [("len(items)", "1", "2")],
    ),
    "length of a dict": (
        total_of,
        "",
        [call({"a": ones(2)}), call({"a": ones(2), "b": ones(2)})],
        [("len(items)", "1", "2")],
    ),
    "item of a tuple": (
        reshaped,
        "x.reshape",
        [call(ones(4), (2, 2)), call(ones(4), (4, 1))],
        [("shape[0]", "2", "4")],
    ),
    "function": (
        applied,
        "function(x)",
        [call(ones(2), plus_one), call(ones(2), plus_two)],
        [("function", "of type function", "a function")],
    ),
    "same tensor twice": (
        added,
        "",
        [call(ones(2), ones(2)), shared],
        [("a, b", "different tensors", "the same tensor")],
    ),
    "gradient mode": (
        times,
        "",
        [call(ones(2), 2), inside(torch.no_grad, ones(2), 2)],
        [("grad_mode", "", "")],
    ),
    "autocast": (
        times,
        "",
        [call(ones(2), 2), inside(autocast, ones(2), 2)],
        [("autocast(cpu)_enabled", "", "")],
    ),
    "default dtype": (
        times,
        "",
        [call(ones(2), 2), inside(float64_by_default, ones(2), 2)],
        [("default_dtype", "", "")],
    ),
}

NO_RECOMPILE: dict[str, tuple[Callable[..., Any], list[Call]]] = {
    "same shape": (times, [call(ones(3), 2), call(ones(3) * 5, 2)]),
    "other values": (times, [call(ones(3), 2), call(torch.zeros(3), 2)]),
    "a number as a tensor": (times, [call(ones(3), torch.tensor(k)) for k in (2.0, 3.0, 4.0)]),
    "an unused argument": (lambda x, unused: x + 1, [call(ones(3), 2), call(ones(3), 3)]),
    "an equal string": (by_mode, [call(ones(2), "plus"), call(ones(2), "".join(["pl", "us"]))]),
    "the same function": (applied, [call(ones(2), plus_one), call(ones(2), plus_one)]),
    "an equal object": (scaled_by, [call(ones(2), Settings()), call(ones(2), Settings())]),
    "the same gradient mode": (times, [inside(torch.no_grad, ones(2), 2), inside(torch.no_grad, ones(2), 2)]),
    "a list of equal length": (total, [call([ones(2), ones(2)]), call([ones(2), ones(2)])]),
    "a version compiled before": (times, [call(ones(2), 2)] * 2),
}


def observed(target: Any, calls: list[Call]) -> Trace:
    global FACTOR
    FACTOR = 3
    torch._dynamo.reset()
    recorder, observer = Recorder(), CompileObserver()
    recorder.add_source(observer)
    recording = recorder.open()
    compiled = torch.compile(target, backend="eager", dynamic=False)
    for each in calls:
        each(compiled)
    trace = recording.close(TraceHeader())
    recorder.remove_source(observer)
    assert observer.notices == []
    return trace


@pytest.mark.parametrize("name", RECOMPILES)
def test_a_recompile_names_variable_values_and_line(name: str) -> None:
    target, text, calls, expected = RECOMPILES[name]
    trace = observed(target() if inspect.isclass(target) else target, calls)
    assert rows(trace, Kind.RECOMPILE, "variable", "old", "new") == expected
    assert len(trace.table(Kind.COMPILE)) == 1 + len(expected)
    assert len(trace.table(Kind.GRAPH_BREAK)) == 0
    body = Layer.forward if inspect.isclass(target) else target
    lines, first = inspect.getsourcelines(body)
    line = next(number for number, line in enumerate(lines, first) if text in line)
    assert set(trace.table(Kind.RECOMPILE).strings("place")) == {f"{__file__}:{line}"}


@pytest.mark.parametrize("name", NO_RECOMPILE)
def test_a_call_that_fits_is_no_recompile(name: str) -> None:
    target, calls = NO_RECOMPILE[name]
    trace = observed(target, calls)
    assert rows(trace, Kind.RECOMPILE, "reason") == []
    assert len(trace.table(Kind.COMPILE)) == 1
