"""Tells the core which operators the real device computes on the host, from the dated operator list."""

from __future__ import annotations

from neuron_lab.device.core import load_core
from neuron_lab.hardware.op_support import fallback_ops


def install() -> None:
    load_core().set_fallback_ops(sorted(fallback_ops()))
