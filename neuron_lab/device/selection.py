"""The one rule that decides which `neuron` device a process uses.

1. `NEURON_LAB_DEVICE` or the `mode` argument names it; an explicit argument other than "auto" wins.
2. With "auto": the native `torch_neuronx` when it is importable and reports cores, else the emulated device.

It decides and says why; it switches nothing on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from neuron_lab.device import native
from neuron_lab.errors import ActivationError, unknown_choice

VARIABLE = "NEURON_LAB_DEVICE"
MODES = ("auto", "hardware", "emulated", "off")


@dataclass(frozen=True, slots=True)
class Selection:
    """`kind` is "hardware", "emulated" or "off"; `why` is one clause for people."""

    kind: str
    why: str


def select(
    mode: str, environ: Mapping[str, str], probe: Callable[[], native.NativeProbe] = native.probe
) -> Selection:
    """Apply the rule. Raises UsageError for an unknown mode, ActivationError for hardware that is not there."""
    wanted, asked_by = _wanted(mode, environ)
    if wanted == "off":
        return Selection("off", f"{asked_by} asks for no device")
    if wanted == "emulated":
        return Selection("emulated", f"{asked_by} asks for it")
    found = probe()
    if found.cores > 0:
        return Selection("hardware", found.reason)
    if wanted == "hardware":
        raise ActivationError(
            f"{asked_by} asks for real Neuron hardware, but {found.reason}; "
            f"use mode='auto' or 'emulated' (or unset {VARIABLE}) for the emulated device"
        )
    return Selection("emulated", found.reason)


def _wanted(mode: str, environ: Mapping[str, str]) -> tuple[str, str]:
    if mode not in MODES:
        raise unknown_choice("mode", mode, MODES)
    if mode != "auto":
        return mode, f"mode={mode!r}"
    value = environ.get(VARIABLE, "").strip().lower() or "auto"
    if value not in MODES:
        raise unknown_choice(VARIABLE, environ[VARIABLE], MODES)
    return value, f"{VARIABLE}={value}"
