"""What Dynamo must know of the device: its interface class.

The backend is found through the stand-in's entry points. Nothing here imports Dynamo: `register_when_imported`
waits until somebody else does, because that import takes about a second.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from neuron_lab.device.default_compiler import route_when_imported
from neuron_lab.device.post_import import when_imported
from neuron_lab.device.registration import NAME
from neuron_lab.device.runtime import neuron
from neuron_lab.device.runtime.streams import NeuronEvent, NeuronStream

_waiting = False


def register_when_imported() -> None:
    """Register with Dynamo now if it is imported, else as soon as it is."""
    global _waiting
    if not _waiting:
        _waiting = True
        when_imported("torch._dynamo.device_interface", _register)
        route_when_imported()


def _register(device_interface: ModuleType) -> None:
    interface = _interface_class(device_interface.DeviceInterface)
    device_interface.register_interface_for_device(NAME, interface)
    for index in range(neuron.device_count()):
        device_interface.register_interface_for_device(f"{NAME}:{index}", interface)


def _interface_class(base: type) -> type:
    """The class is made here because its base lives in Dynamo."""

    class NeuronInterface(base):
        device = staticmethod(neuron.device)
        Event = NeuronEvent
        Stream = NeuronStream
        current_device = staticmethod(neuron.current_device)
        set_device = staticmethod(neuron.set_device)
        exchange_device = staticmethod(neuron._exchange_device)
        maybe_exchange_device = staticmethod(neuron._maybe_exchange_device)
        device_count = staticmethod(neuron.device_count)
        is_available = staticmethod(neuron.is_available)
        stream = staticmethod(neuron.stream)
        current_stream = staticmethod(neuron.current_stream)
        set_stream = staticmethod(neuron.set_stream)
        synchronize = staticmethod(neuron.synchronize)
        get_device_properties = staticmethod(neuron.get_device_properties)
        memory_allocated = staticmethod(neuron.memory_allocated)

        class Worker:
            set_device = staticmethod(neuron.set_device)
            current_device = staticmethod(neuron.current_device)
            get_device_properties = staticmethod(neuron.get_device_properties)

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            neuron.set_stream(
                torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
            )

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return int(neuron.current_stream(device_idx).stream_id)

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            return str(neuron.get_device_properties(device).name)

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return True

    return NeuronInterface
