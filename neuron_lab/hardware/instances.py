"""Machines one can rent: how many chips, how many logical cores at each grouping, how much memory per core.

A figure that no document gives is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from neuron_lab.errors import UsageError, unknown_choice
from neuron_lab.hardware.chips import TRN2, Chip
from neuron_lab.hardware.facts import Fact

DEFAULT_INSTANCE = "trn2.3xlarge"
DEFAULT_LNC = 2
LNC_CHOICES = (1, 2)

_LNC_SOURCE = "Neuron SDK documentation, Using Logical Neuron Cores"
_EC2_PAGE = "Neuron SDK documentation, Amazon EC2 Trn2 Architecture"
_THIRD_PARTY = "third-party instance listings; not in the Neuron SDK documentation read"


@dataclass(frozen=True)
class Instance:
    """One instance type. `lnc` (logical core configuration): physical cores per logical core."""

    name: str
    chip: Chip
    chips: Fact
    host_vcpus: Fact | None = None
    host_memory: Fact | None = None

    def physical_cores(self) -> int:
        return int(self.chips.value * self.chip.physical_cores.value)

    def cores(self, lnc: int = DEFAULT_LNC) -> int:
        """Logical cores, which is what PyTorch sees as devices."""
        return self.physical_cores() // check_lnc(lnc)

    def hbm_per_core_bytes(self, lnc: int = DEFAULT_LNC) -> int:
        """What one core may take: one HBM stack. At LNC 1 two cores share that stack (`pool_of_core`)."""
        check_lnc(lnc)
        return int(self.chip.hbm_size.value // self.chip.hbm_stacks.value)

    def pool_of_core(self, core: int, lnc: int = DEFAULT_LNC) -> int:
        """Index of the HBM stack a logical core allocates from; cores of the same pool share its limit."""
        physical_per_stack = int(self.chip.physical_cores.value // self.chip.hbm_stacks.value)
        return core * check_lnc(lnc) // physical_per_stack

    def facts(self) -> dict[str, Fact | None]:
        return {"chips": self.chips, "host_vcpus": self.host_vcpus, "host_memory": self.host_memory}


def check_lnc(lnc: int) -> int:
    """The value itself when it is a valid logical core configuration."""
    if lnc not in LNC_CHOICES:
        raise UsageError(
            f"lnc={lnc!r}: physical cores per logical core must be 1 or 2 on trn2 ({_LNC_SOURCE}); "
            "use lnc=2, the default"
        )
    return lnc


INSTANCES: Mapping[str, Instance] = MappingProxyType(
    {
        each.name: each
        for each in (
            Instance("trn2.3xlarge", TRN2, chips=Fact(1, "chips", _THIRD_PARTY, "assumed")),
            Instance("trn2.48xlarge", TRN2, chips=Fact(16, "chips", _EC2_PAGE)),
            Instance("trn2u.48xlarge", TRN2, chips=Fact(16, "chips", _EC2_PAGE)),
        )
    }
)


def instance(name: str) -> Instance:
    """The instance of that name, or a UsageError that lists the names."""
    try:
        return INSTANCES[name]
    except KeyError:
        raise unknown_choice("instance", name, INSTANCES) from None
