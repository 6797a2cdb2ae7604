"""What a collective takes, by algorithm, size and link, as an interval.

Steps and bytes per algorithm are documented (Neuron SDK documentation, What is Neuron Collective
Communication). Each of N ranks sends: reduce-scatter and all-gather (N-1)/N of the buffer, all-reduce both.
Not in here: compute that runs beside it, and the wait for the last rank to arrive (the schedule has that).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

from neuron_lab.errors import UsageError, unknown_choice
from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.cost import Cost, dma_best_rate, hbm_share_rate
from neuron_lab.hardware.facts import Confidence
from neuron_lab.hardware.instances import Instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.links import HOP_BEST, HOP_WORST

PHASES = {
    "all_reduce": 2,
    "all_gather": 1,
    "reduce_scatter": 1,
    "all_to_all": 1,
    "broadcast": 1,
    "permute": 1,
    "barrier": 2,
}
"""One phase is a reduce-scatter or an all-gather: an all-reduce is both."""

ALGORITHMS = ("ring", "mesh", "recursive", "kangaring")


@dataclass(frozen=True, slots=True)
class Route:
    """What one rank's data goes through: steps one after another, and bytes that it sends."""

    algorithm: str
    steps: int
    sent_bytes: float


def route(kind: str, size_bytes: float, ranks: int, algorithm: str) -> Route:
    """`size_bytes` is the whole buffer: what an all-gather ends with, what a reduce-scatter begins with."""
    if kind not in PHASES:
        raise unknown_choice("collective", kind, PHASES)
    if ranks <= 1:
        return Route(algorithm, 0, 0.0)
    if kind == "permute":
        return Route(algorithm, 1, float(size_bytes))
    return Route(
        algorithm,
        PHASES[kind] * steps_per_phase(algorithm, ranks),
        PHASES[kind] * (ranks - 1) / ranks * size_bytes,
    )


def steps_per_phase(algorithm: str, ranks: int) -> int:
    if algorithm not in ALGORITHMS:
        raise unknown_choice("algorithm", algorithm, ALGORITHMS)
    if algorithm == "mesh":
        return 1
    if algorithm == "recursive":
        return ceil(log2(ranks))
    return ceil((ranks - 1) / 2) if algorithm == "kangaring" else ranks - 1


def collective_cost(
    kind: str,
    size_bytes: float,
    ranks: int,
    instance: Instance,
    lnc: int | None = None,
    assumptions: Assumptions = DEFAULT,
    algorithm: str = "",
) -> Cost:
    """Of `ranks` ranks, one per logical core, that fill one machine after the other.

    `algorithm` empty: the documented choice of the machine's links for this size. Raises UsageError when the
    ranks need links that no document describes.
    """
    lnc = instance.lnc(lnc)
    inside = min(ranks, instance.cores(lnc))
    machines = ceil(ranks / instance.cores(lnc))
    if ranks <= 1:
        return Cost(0, 0)
    latency, moving = _inside(kind, size_bytes, inside, instance, lnc, assumptions, algorithm)
    if machines > 1:
        further, more = _between(kind, size_bytes / inside, machines, inside, instance)
        latency, moving = latency + further, moving + more
    # the fixed cost is what remains where the documented steps explain less
    whole = latency.max(assumptions.all_reduce_ns.interval) + moving
    return Cost(ceil(whole.low), ceil(whole.high), "collective", "dma", _confidence(instance))


def _inside(
    kind: str,
    size_bytes: float,
    ranks: int,
    instance: Instance,
    lnc: int,
    assumptions: Assumptions,
    algorithm: str,
) -> tuple[Interval, Interval]:
    """Steps at the documented time per hop; bytes at the rate of links (or of DMA, within one chip)."""
    link = instance.link
    if link is None:
        chosen = algorithm or "mesh"
        rate = _on_chip_rate(instance.chip, lnc)
        hops = Interval(HOP_BEST.value, HOP_WORST.value)
    else:
        chosen = algorithm or link.algorithm(size_bytes)
        rate = _link_rate(link.rate(), assumptions.link_share.interval)
        hops = Interval(link.hop_best.value, link.hop_worst.value)
    taken = route(kind, size_bytes, ranks, chosen)
    return hops.scale(taken.steps), _moving(taken.sent_bytes, rate)


def _moving(sent_bytes: float, rate: Interval) -> Interval:
    return Interval(sent_bytes / rate.high, sent_bytes / rate.low)


def _link_rate(rate: Interval, share: Interval) -> Interval:
    width = rate.high - rate.low
    return Interval(rate.low + share.low * width, rate.low + share.high * width)


def _on_chip_rate(chip: Chip, lnc: int) -> Interval:
    """Bytes per ns from one core's memory to another's on the same chip: read here, written there."""
    ends = (hbm_share_rate(chip, lnc) / 2, dma_best_rate(chip, lnc))
    return Interval(min(ends), max(ends))


def _between(
    kind: str, size_bytes: float, machines: int, ranks: int, instance: Instance
) -> tuple[Interval, Interval]:
    """Each rank exchanges with its like on the other machines; all of a machine's ranks share its network."""
    if instance.network is None:
        raise UsageError(
            f"{machines} machines of {instance.name}: no document gives its network; "
            f"plan with at most {instance.cores()} ranks, or another instance"
        )
    taken = route(kind, size_bytes, machines, "ring")
    fewest = PHASES[kind] * ceil(log2(machines))
    latency = Interval(fewest, max(taken.steps, fewest)).scale(instance.network.hop.value)
    best = instance.network.rate(ranks)
    return latency, _moving(taken.sent_bytes, Interval(best / 2, best))


def _confidence(instance: Instance) -> Confidence:
    return "assumed" if instance.link is None else "documented"
