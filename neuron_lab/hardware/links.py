"""How chips reach one another: links inside a machine and the network between machines.

Best and worst say how much of a chip's published link bandwidth one direction of a collective can use: at best
half of it (all links, each both ways), at worst one link one way. No document says where between them it lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neuron_lab.hardware.facts import Fact
from neuron_lab.hardware.interval import Interval

_COLLECTIVES = "Neuron SDK documentation, Intra-node Collective Communications"
_BETWEEN = "Neuron SDK documentation, Inter-node Collective Communications"
MIB = 1024**2


@dataclass(frozen=True)
class Link:
    """Chips of one machine. `algorithm` picks a collective's algorithm from its size in bytes."""

    name: str
    topology: str
    chip_bandwidth: Fact  # all links of a chip, both ways
    links_per_chip: Fact
    hop_best: Fact
    hop_worst: Fact
    algorithm: Callable[[float], str]

    def rate(self) -> Interval:
        """Bytes per ns that one rank sends in one direction."""
        whole = self.chip_bandwidth.value
        return Interval(whole / (2 * self.links_per_chip.value), whole / 2)

    def facts(self) -> dict[str, Fact]:
        return {
            "link_bandwidth": self.chip_bandwidth,
            "links_per_chip": self.links_per_chip,
            "hop_best": self.hop_best,
            "hop_worst": self.hop_worst,
        }


@dataclass(frozen=True)
class Network:
    """Machines among themselves (Elastic Fabric Adapter)."""

    bandwidth: Fact  # Gb/s of the whole machine
    hop: Fact

    def rate(self, ranks: int) -> float:
        """Bytes per ns of one of the machine's `ranks` ranks when all send."""
        return self.bandwidth.value / 8 / ranks

    def facts(self) -> dict[str, Fact]:
        return {"network_bandwidth": self.bandwidth, "network_hop": self.hop}


def always_ring(size_bytes: float) -> str:
    return "ring"


def by_size(size_bytes: float) -> str:
    """The documented choice inside a trn2 machine."""
    if size_bytes < MIB:
        return "mesh"
    return "recursive" if size_bytes < 56 * MIB else "kangaring"


HOP_BEST = Fact(1000, "ns", _COLLECTIVES)
HOP_WORST = Fact(2000, "ns", _COLLECTIVES)
NETWORK_HOP = Fact(15_000, "ns", _BETWEEN)


def _link(name: str, topology: str, bandwidth: Fact, links: Fact, algorithm: Callable[[float], str]) -> Link:
    return Link(name, topology, bandwidth, links, HOP_BEST, HOP_WORST, algorithm)


_TRN1 = "Neuron SDK documentation, Amazon EC2 Trn1/Trn1n Architecture"
_TRN2 = "Neuron SDK documentation, Amazon EC2 Trn2 Architecture"
_TRN3 = "Neuron SDK documentation, Amazon EC2 Trn3 Architecture"
_INF2 = "Neuron SDK documentation, Amazon EC2 Inf2 Architecture"
_FOUR = "2-D torus: two neighbours each way"

NEURONLINK_V2 = _link(
    "NeuronLink-v2", "2-D torus", Fact(384, "GB/s per chip", _TRN1), Fact(4, "links", _FOUR), always_ring
)
NEURONLINK_V2N = _link(
    "NeuronLink-v2 (trn1n)",
    "2-D torus",
    Fact(768, "GB/s per chip", _TRN1),
    Fact(4, "links", _FOUR),
    always_ring,
)
NEURONLINK_INF2 = _link(
    "NeuronLink-v2 (inf2)",
    "ring",
    Fact(206, "GB/s per chip", f"{_INF2} (192 GiB/s)"),
    Fact(2, "links", "a ring"),
    always_ring,
)
NEURONLINK_V3 = _link(
    "NeuronLink-v3",
    "4 x 4 torus",
    Fact(1024, "GB/s per chip", f"{_TRN2}; the chip page says 1280 with the links to other machines"),
    Fact(4, "links", _TRN2),
    by_size,
)
NEURONLINK_V4 = _link(
    "NeuronLink-v4",
    "switched, all to all",
    Fact(2048, "GB/s per chip", f"{_TRN3}; the chip page says 2560"),
    Fact(4, "links", "links of a sled; those of the rack come on top", "assumed"),
    by_size,
)


def network(gigabits: float, source: str) -> Network:
    return Network(Fact(gigabits, "Gb/s per machine", source), NETWORK_HOP)


EFA_TRN1 = network(800, _TRN1)
EFA_TRN1N = network(1600, _TRN1)
EFA_TRN2 = network(3200, _TRN2)
