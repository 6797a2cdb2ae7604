"""Whether the real `torch_neuronx` is here and has cores.

It probes features, never versions: an older product built on XLA has the same distribution name. Importing the
real package takes PyTorch's only slot for an out-of-tree device, so it is imported only where the Neuron driver
is present.
"""

from __future__ import annotations

import glob
import importlib
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE = "torch_neuronx"
NATIVE_FEATURE = "neuron_dynamo_backend"
"""A sub-package of the native product that the XLA one never had (TorchNeuron source of April 2026)."""


@dataclass(frozen=True, slots=True)
class NativeProbe:
    """`cores` > 0 means usable; `reason` is one clause that says what was found."""

    cores: int
    reason: str


def device_nodes() -> list[str]:
    """The Neuron driver's device files, `/dev/neuron0` and so on (Neuron SDK documentation)."""
    return sorted(glob.glob("/dev/neuron[0-9]*"))


def is_standin(module: ModuleType) -> bool:
    return bool(getattr(module, "__neuron_lab_standin__", False))


def installed_spec() -> ModuleSpec | None:
    """The spec of the real package, found without importing it and past our own finder."""
    for finder in sys.meta_path:
        if getattr(finder, "serves_standin", False) or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(PACKAGE, None, None)
        if spec is not None:
            return spec
    return None


def probe() -> NativeProbe:
    """Ask for the real device. Imports the real package only where it is the native one and the driver is
    present.
    """
    loaded = sys.modules.get(PACKAGE)
    if loaded is not None and not is_standin(loaded):
        return _ask_for_cores()
    spec = installed_spec()
    if spec is None:
        return NativeProbe(0, "torch_neuronx is not installed")
    if not _is_native(spec):
        return NativeProbe(0, f"the torch_neuronx at {spec.origin} is the older XLA product")
    if not device_nodes():
        return NativeProbe(
            0, "torch_neuronx is installed, but there is no Neuron driver here (no /dev/neuron*)"
        )
    return _ask_for_cores()


def _is_native(spec: ModuleSpec) -> bool:
    return any((Path(place) / NATIVE_FEATURE).is_dir() for place in spec.submodule_search_locations or ())


def _ask_for_cores() -> NativeProbe:
    try:
        importlib.import_module(PACKAGE)
    except Exception as error:
        return NativeProbe(
            0, f"torch_neuronx is installed but does not import: {type(error).__name__}: {error}"
        )
    import torch

    device_module = getattr(torch, "neuron", None)
    if device_module is None:
        return NativeProbe(0, "torch_neuronx is importable but brings no torch.neuron (an older XLA product)")
    cores = int(device_module.device_count())
    if cores == 0:
        return NativeProbe(0, "torch_neuronx is installed but reports no cores")
    return NativeProbe(cores, f"torch_neuronx reports {cores} cores")
