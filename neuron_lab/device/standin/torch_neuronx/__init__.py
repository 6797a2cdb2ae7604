"""Stand-in for `torch_neuronx`: the names user code imports from it, served by the device that neuron_lab
emulates.

Only while that device is active. What is not here, the emulated device does not have.
"""

import sys

import torch

__neuron_lab_standin__ = True

if not hasattr(torch, "neuron"):
    raise ImportError("the emulated neuron device is not active; call neuron_lab.activate() first")

from neuron_lab.device.runtime import neuron
from neuron_lab.device.runtime.devices import (
    current_device,
    device,
    device_count,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from neuron_lab.device.runtime.devices import init as _lazy_init
from neuron_lab.device.runtime.devices import is_initialized as is_neuron_runtime_initialized
from neuron_lab.device.runtime.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from neuron_lab.device.runtime.op_tracking import clear_op_tracking, get_executed_ops, get_fallback_ops
from neuron_lab.device.runtime.streams import NeuronEvent as Event
from neuron_lab.device.runtime.streams import NeuronStream as Stream
from neuron_lab.device.runtime.streams import (
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from neuron_lab.device.standin.finder import VERSION

__version__ = VERSION
sys.modules[f"{__name__}.neuron"] = neuron
sys.modules[f"{__name__}.memory"] = neuron.memory

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "__version__",
    "_lazy_init",
    "clear_op_tracking",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_properties",
    "get_executed_ops",
    "get_fallback_ops",
    "is_available",
    "is_neuron_runtime_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "neuron",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]
