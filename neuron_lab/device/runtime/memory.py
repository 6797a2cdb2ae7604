"""Memory statistics of a core: what its tensors hold in the emulated HBM.

`reserved` equals `allocated`: the emulated device gives freed blocks back at once, so nothing is held in
reserve.
"""

from __future__ import annotations

from typing import Any

from neuron_lab.device.core import load_core
from neuron_lab.device.runtime.indices import DeviceLike, device_index

_RULE = "=" * 75
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Nested, as the real device has it; not CUDA's flat names."""
    stats = load_core().memory_stats(device_index(device))
    held = {
        "current": stats["current"],
        "peak": stats["peak"],
        "allocated": stats["allocated"],
        "freed": stats["freed"],
    }
    return {
        "allocated_bytes": dict(held),
        "reserved_bytes": dict(held),
        "active_bytes": dict(held),
        "num_alloc_retries": 0,  # nothing is cached, so there is nothing to release before a retry
        "num_ooms": stats["num_ooms"],
        "num_tensor_frees": stats["num_frees"],
        "allocation_requests": stats["num_allocs"],
    }


def memory_allocated(device: DeviceLike = None) -> int:
    return int(load_core().memory_stats(device_index(device))["current"])


def max_memory_allocated(device: DeviceLike = None) -> int:
    return int(load_core().memory_stats(device_index(device))["peak"])


def memory_reserved(device: DeviceLike = None) -> int:
    return memory_allocated(device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    return max_memory_allocated(device)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the HBM stack behind a core; at LNC 1 its neighbour's tensors count too."""
    from neuron_lab.device.runtime.devices import get_device_properties

    index = device_index(device)
    return int(load_core().pool_free_bytes(index)), get_device_properties(index).total_memory


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    load_core().reset_peak(device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    load_core().reset_accumulated(device_index(device))


def empty_cache() -> None:
    """Safe before the first tensor; live tensors are untouched."""
    load_core().empty_cache()


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a text table. `abbreviated` has no effect, as on the real device."""
    index = device_index(device)
    stats = memory_stats(index)
    lines = [_RULE, f"  Neuron Memory Summary, Device {index}", _RULE]
    for name in ("num_alloc_retries", "num_ooms", "num_tensor_frees", "allocation_requests"):
        lines.append(f"  {name:<28}{stats[name]:>12}")
    lines += [_RULE, f"  {'Metric':<20}{'Current':>12}{'Peak':>12}{'Allocated':>12}{'Freed':>12}"]
    for title, key in (
        ("Allocated", "allocated_bytes"),
        ("Reserved", "reserved_bytes"),
        ("Active", "active_bytes"),
    ):
        figures = "".join(
            f"{_binary(stats[key][column]):>12}" for column in ("current", "peak", "allocated", "freed")
        )
        lines.append(f"  {title + ' Memory':<20}{figures}")
    return "\n".join([*lines, _RULE])


def _binary(size_bytes: int) -> str:
    """Whole binary units, without decimals."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_UNITS) - 1:
        size_bytes //= 1024
        unit += 1
    return f"{size_bytes} {_UNITS[unit]}"
