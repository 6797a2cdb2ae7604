"""neuron_lab: PyTorch's `neuron` device in a notebook, with or without a Trainium chip.

Importing this package does nothing but name things: torch, Jupyter and the device load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuron_lab import nki
    from neuron_lab.checks.calls import check
    from neuron_lab.device import DeviceInfo, activate, deactivate, device_info
    from neuron_lab.session import Profile, last_profile, load, profile
    from neuron_lab.session.calibrated import calibrate

__version__ = "0.1.0"

_HOME = {
    "activate": "neuron_lab.device",
    "deactivate": "neuron_lab.device",
    "device_info": "neuron_lab.device",
    "DeviceInfo": "neuron_lab.device",
    "profile": "neuron_lab.session",
    "calibrate": "neuron_lab.session.calibrated",
    "check": "neuron_lab.checks.calls",
    "last_profile": "neuron_lab.session",
    "load": "neuron_lab.session",
    "Profile": "neuron_lab.session",
}

__all__ = [
    "DeviceInfo",
    "Profile",
    "activate",
    "calibrate",
    "check",
    "deactivate",
    "device_info",
    "last_profile",
    "load",
    "nki",
    "profile",
]


def __getattr__(name: str) -> Any:
    if name == "nki":
        return import_module("neuron_lab.nki")
    if name not in _HOME:
        raise AttributeError(f"module 'neuron_lab' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ip: Any) -> None:
    """`%load_ext neuron_lab`: activate the device and register the magics."""
    from neuron_lab import magics

    magics.load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """`%unload_ext neuron_lab`: remove the magics and every hook."""
    from neuron_lab import magics

    magics.unload(ip)
