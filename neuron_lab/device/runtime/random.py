"""Seeds and generator states of the device.

A draw without `generator=` uses and advances PyTorch's *CPU* default generator, as on the real device
(TorchNeuron source of April 2026): seeding here changes no numbers, `torch.manual_seed` does. A state is 16
bytes: seed as uint64, then offset as int64, little-endian; 8 bytes (the seed alone) are accepted with offset 0.
"""

from __future__ import annotations

import torch

from neuron_lab.device.core import load_core
from neuron_lab.device.runtime.indices import DeviceLike, device_index

_SEED_BYTES = 8


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for index in range(load_core().device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """A random seed for the current device."""
    _generator().seed()


def seed_all() -> None:
    """One random seed for all devices."""
    manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    return int(_generator().initial_seed())


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(load_core().device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    state = new_state.detach().cpu().contiguous()
    if state.dtype == torch.uint8 and state.numel() == _SEED_BYTES:
        state = torch.cat([state, torch.zeros(_SEED_BYTES, dtype=torch.uint8)])
    _generator(device).set_state(state)


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _generator(device: DeviceLike = None) -> torch.Generator:
    return load_core().default_generator(device_index(device))
