"""Give PyTorch's slot for an out-of-tree device the name `neuron`, and install `torch.neuron`.

The slot (dispatch key PrivateUse1) exists once per process, so this also finds out who has taken it. Every
private torch name the device side needs for that is in this module.
"""

from __future__ import annotations

import sys
from types import ModuleType

import torch

from neuron_lab.device import core
from neuron_lab.errors import ActivationError

NAME = "neuron"
_UNNAMED = "privateuseone"
_FIRST_KERNEL = "aten::empty.memory_format"  # no device is of use without it


def is_registered(module: ModuleType) -> bool:
    """Whether the slot is already ours."""
    return getattr(torch, NAME, None) is module


def check_free() -> None:
    """Raise ActivationError, naming the taker, when another backend holds the slot."""
    taker = _taker()
    if taker is not None:
        raise ActivationError(
            f"the emulated neuron device needs PrivateUse1, PyTorch's one slot for an out-of-tree device, "
            f"and in this process it is taken by {taker}; start a fresh process that does not load it "
            "(TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps installed backends from loading by themselves)"
        )


def _taker() -> str | None:
    name = torch._C._get_privateuse1_backend_name()
    if name != _UNNAMED:
        module = getattr(torch, name, None)
        if module is None:
            return f"a device named {name!r} that installed no torch.{name}"
        return f"a device named {name!r} ({module.__name__}, {getattr(module, '__file__', None) or 'built in'})"
    if not core.loaded() and torch._C._dispatch_has_kernel_for_dispatch_key(_FIRST_KERNEL, "PrivateUse1"):
        return "an extension that registered kernels without naming its device"
    return None


def register(module: ModuleType) -> None:
    """Name the device, install `torch.neuron`, `.neuron()` and `.is_neuron`. Once per process."""
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, module)
    sys.modules[f"torch.{NAME}"] = module
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)


def device_type_number() -> int:
    """What PyTorch stores in a stream for our device type."""
    return int(torch._C._autograd.DeviceType.PrivateUse1.value)
