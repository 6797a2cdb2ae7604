"""Both ends of the modelled schedule, advanced together: a whole trace at once, or batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuron_lab.hardware.assumptions import Assumption
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.schedule import Host, Schedule

Array = npt.NDArray[Any]


class CoreKey(NamedTuple):
    rank: int
    core: int


@dataclass
class TwoEnds:
    """One host scheduled twice: every cost and launch at its low end, and at its high end."""

    low: Host
    high: Host

    @classmethod
    def begin(cls, launch_ns: Assumption) -> TwoEnds:
        return cls(Host(round(launch_ns.low)), Host(round(launch_ns.high)))

    def run(
        self,
        core: Array,
        low_ns: Array,
        high_ns: Array,
        wait_before: Array,
        before_launch_ns: tuple[Array, Array] | None = None,
    ) -> tuple[Schedule, Schedule]:
        """`before_launch_ns`: what else each host does before a launch, at the low and at the high end."""
        low, high = before_launch_ns or (None, None)
        return self.low.run(core, low_ns, wait_before, low), self.high.run(core, high_ns, wait_before, high)

    def synchronise(self) -> None:
        self.low.synchronise()
        self.high.synchronise()

    @property
    def span_ns(self) -> Interval | None:
        """From the first launch to the end of the last kernel; None before any kernel."""
        return Interval(self.low.span_ns, self.high.span_ns) if self.low.core_free_ns else None

    @property
    def busy_ns(self) -> dict[int, Interval]:
        """By core."""
        return {
            core: Interval(busy, self.high.busy_ns[core]) for core, busy in sorted(self.low.busy_ns.items())
        }


def busy_share(busy_ns: Interval, span_ns: Interval, cores: int = 1) -> Interval:
    """Busy part of the modelled span. Each end of the schedule gives a share; they come in either order."""
    shares = [
        busy / (span * cores) if span else 0.0
        for busy, span in ((busy_ns.low, span_ns.low), (busy_ns.high, span_ns.high))
    ]
    return Interval(min(shares), max(shares))


def waits(kernel_start_ns: Array, read_back_start_ns: Array) -> tuple[Array, bool]:
    """Mask of the kernels that come first after a read-back, and whether one follows the last kernel."""
    mask = np.zeros(len(kernel_start_ns), bool)
    if not len(read_back_start_ns):
        return mask, False
    following = np.searchsorted(kernel_start_ns, read_back_start_ns, side="left")
    mask[following[following < len(mask)]] = True
    return mask, bool((following == len(mask)).any())
