"""What `check` is given, something to call and examples, made into one function without arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from neuron_lab.errors import UsageError


def checked_target(target: Any) -> Callable[..., Any]:
    if not callable(target):
        raise UsageError(
            f"check needs a module or a function to call, got {type(target).__name__}; "
            "for a statement use %neuron_check, for a file `neuron-lab check script.py`"
        )
    return target


def calls_of(examples: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Positional and named arguments of each call: one per item of a list, else one in all."""
    each = examples if isinstance(examples, list) else [examples]
    if examples is None or not each:
        raise UsageError(
            "check needs examples to call it with: a tensor, a tuple of arguments, a dict of named arguments, "
            "or a list of these, one per call; [()] calls it without arguments"
        )
    return [_call(example) for example in each]


def _call(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple):
        return example, {}
    return (example,), {}


def body_of(target: Callable[..., Any], examples: Sequence[Any], compile: bool) -> Callable[[], None]:
    """Moves module and tensors to the device, compiles unless told not to, and calls it with every example."""
    calls = calls_of(examples)

    def body() -> None:
        import torch

        called = target
        if isinstance(target, torch.nn.Module):
            called = target.to("neuron")
        if compile and not hasattr(called, "_torchdynamo_orig_callable") and not hasattr(called, "_orig_mod"):
            called = torch.compile(called, backend="neuron")
        for args, kwargs in calls:
            called(*_on_device(args), **_on_device(kwargs))
        torch.neuron.synchronize()

    return body


def _on_device(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.to("neuron")
    if isinstance(value, Mapping):
        return {key: _on_device(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_device(item) for item in value)
    return value
