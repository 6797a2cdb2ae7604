"""Remembers which graph the backend made during which of Dynamo's compilations, for the observer's events.

Also describes an FX graph as a `GraphSpec`: its operators with dtypes and shapes, from the fake values
AOTAutograd leaves on the nodes. This module knows neither how a graph runs nor what it costs.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_lab.trace.events import GraphSpec, Signature, TensorSpec

if TYPE_CHECKING:
    import torch

_REMEMBERED = 512  # compilations; an observer asks right after each


@dataclass(frozen=True, slots=True)
class Made:
    """What a compilation led to. `deferred`: graphs are made later, one per shape, and report themselves."""

    spec: GraphSpec | None = None
    deferred: bool = False


_made: OrderedDict[str, Made] = OrderedDict()


def remember(compile_id: str, made: Made) -> bool:
    """Called by the backend. True for the compilation's first graph, by which the compilation is known."""
    if compile_id in _made:
        return False
    _made[compile_id] = made
    while len(_made) > _REMEMBERED:
        _made.popitem(last=False)
    return True


def made_by(compile_id: str) -> Made:
    """What was remembered, once."""
    return _made.pop(compile_id, Made())


def forget(compile_id: str) -> None:
    """A compilation begins: ids are used again after `torch._dynamo.reset()`."""
    _made.pop(compile_id, None)


def describe(name: str, graph: torch.fx.Graph) -> GraphSpec:
    """The operators of an ATen graph in execution order."""
    return GraphSpec(name, tuple(_signature(node) for node in graph.nodes if _is_operator(node)))


def _is_operator(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and hasattr(node.target, "_schema")


def _signature(node: torch.fx.Node) -> Signature:
    target: Any = node.target
    inputs = tuple(spec for argument in node.all_input_nodes for spec in _tensors(argument.meta.get("val")))
    return Signature(
        op=operator_name(target),
        inputs=inputs,
        outputs=tuple(_tensors(node.meta.get("val"))),
        static=_static_arguments(node),
        compiles=not target.is_view,
    )


def operator_name(target: Any) -> str:
    """The dispatcher's name: `aten::mm`, `aten::add.Tensor`."""
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _tensors(value: Any) -> list[TensorSpec]:
    import torch

    if isinstance(value, torch.Tensor):
        return [TensorSpec(str(value.dtype).removeprefix("torch."), tuple(int(size) for size in value.shape))]
    if isinstance(value, list | tuple):
        return [spec for item in value for spec in _tensors(item)]
    return []


def _static_arguments(node: torch.fx.Node) -> str:
    """Arguments that are not tensors, as the compiler would bake them in."""
    import torch

    def is_static(value: Any) -> bool:
        if isinstance(value, list | tuple):
            return all(is_static(item) for item in value)
        return not isinstance(value, torch.fx.Node)

    positional = [repr(value) for value in node.args if is_static(value)]
    named = [f"{key}={value!r}" for key, value in node.kwargs.items() if is_static(value) and key != "device"]
    return ", ".join(positional + named)
