"""`torch.compile(model)` without `backend=`: graphs on the neuron device go to the neuron backend.

torch's default backend, Inductor, has no code generator for the device and would fail with `KeyError:
'neuron'`. The Neuron SDK 2.33 documentation says that its backend is chosen by itself on a neuron device.
Graphs without a device tensor stay with Inductor. Nothing here imports Inductor: it is met when somebody else
does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from neuron_lab.device.post_import import when_imported
from neuron_lab.device.registration import NAME

_INDUCTOR = "torch._inductor.compile_fx"
_waiting = False


def route_when_imported() -> None:
    """Route device graphs from Inductor's entry to the neuron backend, now or once Inductor is imported."""
    global _waiting
    if not _waiting:
        _waiting = True
        when_imported(_INDUCTOR, _route)


def _route(inductor: ModuleType) -> None:
    original = inductor.compile_fx

    @functools.wraps(original)
    def compile_fx(model: Any, example_inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if not any(_on_device(value) for value in (*example_inputs, *_made_inside(model))):
            return original(model, example_inputs, *args, **kwargs)
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(NAME)(model, example_inputs)

    inductor.compile_fx = compile_fx  # type: ignore[attr-defined]


def _on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def _made_inside(model: Any) -> list[Any]:
    """The values of Dynamo's graph: one may make device tensors without having any as input."""
    nodes = getattr(getattr(model, "graph", None), "nodes", ())
    return [node.meta.get("example_value") for node in nodes]
