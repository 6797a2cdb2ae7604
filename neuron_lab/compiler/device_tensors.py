"""The bridge between a compiled graph and the emulated device: CPU aliases in, device tensors out.

A graph runs over CPU aliases of its inputs, made once per call and sharing bytes and version counters with
the device tensors. What it returns is labelled as device memory without copying. The core does both; this
module only chooses what to hand it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from neuron_lab.device.core import load_core
from neuron_lab.device.registration import NAME


def is_device(value: Any) -> bool:
    """Whether a value is a tensor on the neuron device."""
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def core_of(values: Sequence[Any]) -> int:
    """The core of the first device tensor, else the current one."""
    for value in values:
        if is_device(value):
            return int(value.device.index)
    return int(load_core().current_device())


def cpu_aliases(values: Sequence[Any]) -> list[Any]:
    """CPU aliases of the device tensors; everything else as it is."""
    return _only_tensors(values, load_core().alias_to_cpu)


def device_tensors(values: Sequence[Any], core: int) -> list[Any]:
    """Device tensors over the same bytes as these CPU tensors; everything else as it is.

    A tensor over memory of a device tensor, which must still exist, becomes a view of it; fresh memory is
    accounted to the core.
    """
    return _only_tensors(values, lambda tensors: load_core().wrap_from_cpu(tensors, core))


def _only_tensors(values: Sequence[Any], convert: Callable[[list[Any]], list[Any]]) -> list[Any]:
    places = [index for index, value in enumerate(values) if isinstance(value, torch.Tensor)]
    if len(places) == len(values):
        return convert(list(values))
    result = list(values)
    for index, converted in zip(places, convert([values[index] for index in places]), strict=True):
        result[index] = converted
    return result


def on_cpu(value: Any) -> Any:
    """A constant as the aliased graph needs it: neuron devices become the CPU, device tensors their alias."""
    if isinstance(value, torch.device) and value.type == NAME:
        return torch.device("cpu")
    if is_device(value):
        alias = cpu_aliases([value])[0]
        alias._device_tensor = (
            value  # a result may be a view of it, so it must live as long as the graph's constant
        )
        return alias
    return value
