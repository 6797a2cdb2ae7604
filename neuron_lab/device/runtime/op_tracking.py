"""Which operators the device served and which the host computed, as the real package tracks them.

Which belongs where follows the April 2026 operator list, not how the emulator computes it.
"""

from __future__ import annotations

from neuron_lab.device.core import load_core


def get_executed_ops() -> list[str]:
    """Operators that ran on the device since the start or the last `clear_op_tracking`; no order."""
    return list(load_core().executed_ops())


def get_fallback_ops() -> list[str]:
    """Operators that the real device computes on the host; no order."""
    return list(load_core().fallback_counts())


def clear_op_tracking() -> None:
    load_core().clear_op_tracking()
