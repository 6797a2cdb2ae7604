"""Turning what users write for a device into its index."""

from __future__ import annotations

from typing import TypeAlias

import torch

from neuron_lab.device.core import load_core
from neuron_lab.device.registration import NAME

DeviceLike: TypeAlias = int | str | torch.device | None


def device_index(device: DeviceLike) -> int:
    """None and an index-less device mean the current one. The range is checked."""
    index = _parse(device)
    if index is None:
        return int(load_core().current_device())
    check_range(index)
    return index


def check_range(index: int) -> None:
    count = load_core().device_count()
    if not 0 <= index < count:
        raise ValueError(
            f"Device index {index} is out of range. Valid range is 0 to {count - 1} for this process"
        )


def _parse(device: DeviceLike) -> int | None:
    if device is None:
        return None
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        raise ValueError(f"Invalid device specification: {device!r}")
    if device.type != NAME:
        raise ValueError(f"Expected neuron device, got {device.type}")
    return device.index
