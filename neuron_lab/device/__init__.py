"""The `neuron` device: which one this process uses, how it is switched on, and the emulated one itself.

Knows nothing of Jupyter, of reports, or of how traces are shown. Importing it loads no torch and no C++.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuron_lab.device.activation import activate, deactivate, device_info
    from neuron_lab.device.info import DeviceInfo

__all__ = ["DeviceInfo", "activate", "deactivate", "device_info"]

_HOME = {
    "DeviceInfo": "neuron_lab.device.info",
    "activate": "neuron_lab.device.activation",
    "deactivate": "neuron_lab.device.activation",
    "device_info": "neuron_lab.device.activation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
