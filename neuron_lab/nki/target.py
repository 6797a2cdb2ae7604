"""Which NeuronCore generation kernels are checked against, and the sizes of its memories.

`NEURON_PLATFORM_TARGET_OVERRIDE` is read whenever a kernel starts. Unset means the chip of the emulated
instance, else trn2 (the real tool takes the local chip, else trn3).
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from neuron_lab.errors import unknown_choice

VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
PARTITIONS = 128
PSUM_BANK_BYTES = 2048
PSUM_BANKS = 8


class nc_version(enum.Enum):  # noqa: N801 - the public name
    """Generations of the core."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


@dataclass(frozen=True, slots=True)
class Target:
    """One generation.

    SBUF sizes are the physical ones (NKI architecture guides); the usable size is not documented.
    """

    version: nc_version
    chip: str
    sbuf_partition_bytes: int
    generation: int
    psum_partition_bytes: int = PSUM_BANK_BYTES * PSUM_BANKS


_TARGETS = (
    Target(nc_version.gen2, "trn1", 192 * 1024, 2),
    Target(nc_version.gen3, "trn2", 224 * 1024, 3),
    Target(nc_version.gen4, "trn3", 256 * 1024, 4),
)
_NAMES = {"trn1": 0, "inf2": 0, "gen2": 0, "trn2": 1, "gen3": 1, "trn3": 2, "gen4": 2}


def current_target() -> Target:
    """The target in force now."""
    name = (
        os.environ.get(VARIABLE, "").strip().lower() or os.environ.get("NEURON_LAB_INSTANCE", "")[:4] or "trn2"
    )
    if name not in _NAMES:
        raise unknown_choice(f"{VARIABLE} value", name, _NAMES)
    return _TARGETS[_NAMES[name]]


def psum_banks() -> int:
    """Banks a kernel may use: one fewer on trn2 and later when DMA transposes run on the tensor engine."""
    reserved = os.environ.get("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "").lower() == "true"
    return PSUM_BANKS - (1 if reserved and current_target().generation >= 3 else 0)
