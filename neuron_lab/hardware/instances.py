"""Machines one can rent: how many chips, how many logical cores at each grouping, how much memory per core.

A figure that no document gives is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from neuron_lab.errors import UsageError, unknown_choice
from neuron_lab.hardware.chips import INF2, TRN1, TRN2, TRN3, Chip
from neuron_lab.hardware.facts import Confidence, Fact
from neuron_lab.hardware.links import (
    EFA_TRN1,
    EFA_TRN1N,
    EFA_TRN2,
    NEURONLINK_INF2,
    NEURONLINK_V2,
    NEURONLINK_V2N,
    NEURONLINK_V3,
    NEURONLINK_V4,
    Link,
    Network,
)

DEFAULT_INSTANCE = "trn2.3xlarge"
DEFAULT_LNC = 2
LNC_CHOICES = (1, 2)

_LNC_SOURCE = "Neuron SDK documentation, Using Logical Neuron Cores"
_TRN1_PAGE = "Neuron SDK documentation, Amazon EC2 Trn1/Trn1n Architecture"
_INF2_PAGE = "Neuron SDK documentation, Amazon EC2 Inf2 Architecture"
_EC2_PAGE = "Neuron SDK documentation, Amazon EC2 Trn2 Architecture"
_THIRD_PARTY = "third-party instance listings; not in the Neuron SDK documentation read"


@dataclass(frozen=True)
class Instance:
    """One instance type. `lnc` (logical core configuration): physical cores per logical core."""

    name: str
    chip: Chip
    chips: Fact
    link: Link | None = None  # None: one chip, or no figure
    network: Network | None = None
    host_vcpus: Fact | None = None
    host_memory: Fact | None = None

    def physical_cores(self) -> int:
        return int(self.chips.value * self.chip.physical_cores.value)

    def cores(self, lnc: int | None = None) -> int:
        """Logical cores, which is what PyTorch sees as devices."""
        return self.physical_cores() // self.lnc(lnc)

    def lnc(self, wanted: int | None = None) -> int:
        """The wanted grouping when this chip has it; its default for None."""
        return self.chip.default_lnc if wanted is None else check_lnc(wanted, self.chip)

    def hbm_per_core_bytes(self, lnc: int | None = None) -> int:
        """What one core may take: one HBM stack. On trn2 and trn3 at LNC 1 two cores share it
        (`pool_of_core`)."""
        self.lnc(lnc)
        return int(self.chip.hbm_size.value // self.chip.hbm_stacks.value)

    def pool_of_core(self, core: int, lnc: int | None = None) -> int:
        """Index of the HBM stack a logical core allocates from; cores of the same pool share its limit."""
        return core * self.lnc(lnc) // self.chip.cores_per_stack

    def facts(self) -> dict[str, Fact | None]:
        """Every figure by name; None where no document gives one."""
        found: dict[str, Fact | None] = {
            "chips": self.chips,
            "host_vcpus": self.host_vcpus,
            "host_memory": self.host_memory,
        }
        for part in (self.link, self.network):
            found |= part.facts() if part is not None else {}
        return found


def check_lnc(lnc: int, chip: Chip = TRN2) -> int:
    """The value itself when it is a valid logical core configuration of the chip."""
    if lnc not in chip.lnc_choices:
        choices = " or ".join(map(str, chip.lnc_choices))
        raise UsageError(
            f"lnc={lnc!r}: physical cores per logical core must be {choices} on {chip.name} ({_LNC_SOURCE}); "
            f"use lnc={chip.default_lnc}, the default"
        )
    return lnc


def _one_chip(name: str, chip: Chip, source: str, network: Network | None = None) -> Instance:
    confidence: Confidence = "assumed" if source == _THIRD_PARTY else "documented"
    return Instance(name, chip, Fact(1, "chips", source, confidence), network=network)


def _many(name: str, chip: Chip, chips: int, source: str, link: Link, network: Network | None) -> Instance:
    confidence: Confidence = "assumed" if source == _THIRD_PARTY else "documented"
    return Instance(name, chip, Fact(chips, "chips", source, confidence), link, network)


INSTANCES: Mapping[str, Instance] = MappingProxyType(
    {
        each.name: each
        for each in (
            _one_chip("trn2.3xlarge", TRN2, _THIRD_PARTY),
            _many("trn2.48xlarge", TRN2, 16, _EC2_PAGE, NEURONLINK_V3, EFA_TRN2),
            _many("trn2u.48xlarge", TRN2, 16, _EC2_PAGE, NEURONLINK_V3, EFA_TRN2),
            _one_chip("trn1.2xlarge", TRN1, _TRN1_PAGE),
            _many("trn1.32xlarge", TRN1, 16, _TRN1_PAGE, NEURONLINK_V2, EFA_TRN1),
            _many("trn1n.32xlarge", TRN1, 16, _TRN1_PAGE, NEURONLINK_V2N, EFA_TRN1N),
            _one_chip("inf2.xlarge", INF2, _INF2_PAGE),
            _one_chip("inf2.8xlarge", INF2, _INF2_PAGE),
            _many("inf2.24xlarge", INF2, 6, _INF2_PAGE, NEURONLINK_INF2, None),
            _many("inf2.48xlarge", INF2, 12, _INF2_PAGE, NEURONLINK_INF2, None),
            _one_chip("trn3pd98.3xlarge", TRN3, _THIRD_PARTY),
            _many("trn3.48xlarge", TRN3, 16, _THIRD_PARTY, NEURONLINK_V4, None),
        )
    }
)


def instance(name: str) -> Instance:
    """The instance of that name, or a UsageError that lists the names."""
    try:
        return INSTANCES[name]
    except KeyError:
        raise unknown_choice("instance", name, INSTANCES) from None
