"""Devices: how many, which is current, what they are, and whether the runtime has started."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

import torch

from neuron_lab.device.core import load_core
from neuron_lab.device.runtime.constants import constant_when_traced
from neuron_lab.device.runtime.indices import DeviceLike, check_range, device_index
from neuron_lab.device.state import STATE


class DeviceProperties(NamedTuple):
    """`name` is the instance family; `total_memory` is the HBM one core may use, in bytes."""

    name: str
    total_memory: int


@constant_when_traced
def device_count() -> int:
    """Cores this process sees."""
    return int(load_core().device_count())


@constant_when_traced
def is_available() -> bool:
    return device_count() > 0


@constant_when_traced
def current_device() -> int:
    """This thread's choice, else the process's first one, else 0."""
    return int(load_core().current_device())


def set_device(device: int | torch.device) -> None:
    """The process's first choice also becomes the default of threads that make none."""
    index = device.index if isinstance(device, torch.device) else device
    if index is None:
        return
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValueError(f"Invalid device specification: {device!r}")
    count = device_count()
    if not 0 <= index < count:
        raise ValueError(f"Invalid device id: {index}. Valid range is 0 to {count - 1}")
    load_core().set_device(index)


class _SwitchDevice:
    """The context manager behind `device`; -1 and None leave the current device alone."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.previous = -1

    def __enter__(self) -> None:
        if self.index is not None:
            self.previous = _exchange_device(self.index)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.index is not None:
            _maybe_exchange_device(self.previous)


def device(device: DeviceLike) -> _SwitchDevice:
    """`with torch.neuron.device(1): …`"""
    if device is None or device == -1:
        return _SwitchDevice(None)
    return _SwitchDevice(device_index(device))


def _exchange_device(index: int) -> int:
    check_range(index)
    return int(load_core().exchange_device(index))


def _maybe_exchange_device(index: int) -> int:
    """A negative index changes nothing."""
    return int(load_core().exchange_device(index)) if index >= 0 else -1


def get_device_name(device: int | torch.device = 0) -> str:
    if isinstance(device, torch.device):
        return str(device)
    if isinstance(device, int):
        return f"neuron:{device}"
    raise ValueError(
        f"Incorrect device argument found, expected torch.device or int type, found {type(device)}"
    )


@constant_when_traced
def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name and memory of a core. `"neuron"` without an index means core 0 here, not the current one."""
    if isinstance(device, str):
        device = int(device) if device.isdigit() else torch.device(device)
        if isinstance(device, torch.device) and device.type == "neuron" and device.index is None:
            device = 0
    topology = STATE.topology
    if topology is None:
        raise RuntimeError("the emulated neuron device is not active; call neuron_lab.activate()")
    index = device_index(device)
    return DeviceProperties(topology.family, topology.pool_bytes[topology.pool_of_core[index]])


def synchronize(device: DeviceLike = None) -> None:
    """Wait for one device's streams. An emulated operator has finished when its call returns."""
    torch.accelerator.synchronize(device_index(device))


def init() -> None:
    """Start the runtime; harmless when it runs already."""
    if STATE.in_bad_fork:
        raise RuntimeError(
            "Cannot re-initialize Neuron runtime in forked subprocess. "
            "To use Neuron with multiprocessing, use the 'spawn' start method"
        )
    STATE.runtime_initialized = True


def is_initialized() -> bool:
    return not STATE.in_bad_fork and (STATE.runtime_initialized or bool(load_core().touched()))


def _is_in_bad_fork() -> bool:
    return STATE.in_bad_fork


def mark_forked_child() -> None:
    """After a fork in the child: an initialised parent leaves it without a usable runtime."""
    if STATE.topology is not None and (STATE.runtime_initialized or load_core().touched()):
        STATE.in_bad_fork = True
        STATE.runtime_initialized = False


@constant_when_traced
def is_bf16_supported() -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float32, torch.float16, torch.bfloat16]


def _sleep(cycles: int) -> None:
    """Accepted and ignored, as on the real device."""
