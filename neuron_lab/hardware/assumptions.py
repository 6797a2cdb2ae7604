"""The constants of the time model that no document gives, in one table.

Each is an estimate with a range: `low` and `high` go into the two ends of a modelled interval, `value` is the
figure we would bet on. `DEFAULT.replace(launch_ns=Assumption(...))` overrides one; `print(DEFAULT)` shows all.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields

from neuron_lab.hardware.facts import Confidence
from neuron_lab.hardware.interval import Interval


@dataclass(frozen=True, slots=True)
class Assumption:
    """An estimate, its range, its unit and why we think so. `calibrated_on`: the date it was fitted to
    readings."""

    value: float
    low: float
    high: float
    unit: str
    reason: str
    calibrated_on: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"assumption {self.value:g} {self.unit} lies outside its range {self.low:g}–{self.high:g}"
            )

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high)

    def __str__(self) -> str:
        how = f"calibrated on {self.calibrated_on}" if self.calibrated_on else "assumed"
        return f"{self.value:g} {self.unit} ({self.low:g}–{self.high:g}), {how}: {self.reason}"


@dataclass(frozen=True)
class Assumptions:
    """Everything assumed by the time model. Shares are of a documented rate; 1 means the rate is reached."""

    launch_ns: Assumption = Assumption(
        15_000, 5_000, 50_000, "ns", "host time to hand one kernel to the runtime, one after another"
    )
    compile_s: Assumption = Assumption(5, 1, 30, "s", "compiling one graph or one eager kernel")
    compile_node_s: Assumption = Assumption(
        0.05, 0.01, 0.5, "s per graph node", "compile time grows with the graph"
    )
    all_reduce_ns: Assumption = Assumption(
        30_000, 5_000, 120_000, "ns", "fixed cost of one all-reduce, beside bytes over bandwidth"
    )
    link_share: Assumption = Assumption(
        0.5, 0, 1, "between worst and best link rate", "how many links of a chip one collective uses"
    )
    semaphore_ns: Assumption = Assumption(
        50, 0, 200, "ns", "from the end of one engine's instruction to the start of one that waits for it"
    )
    tensor_share: Assumption = Assumption(
        0.6, 0.35, 1, "of tensor peak", "compiled matrix multiplication of ample size"
    )
    engine_share: Assumption = Assumption(
        0.7, 0.4, 1, "of engine rate", "vector, scalar and gpsimd instructions"
    )
    memory_share: Assumption = Assumption(
        0.7, 0.4, 1, "of HBM rate", "refresh, bank conflicts and traffic of the other cores"
    )
    lnc2_share: Assumption = Assumption(
        0.9, 0.7, 1, "of two cores", "work split over the two cores of a logical core"
    )
    dma_trips: Assumption = Assumption(
        2, 0, 4, "per kernel", "DMA start latencies that nothing hides (load, store)"
    )

    def replace(self, **changes: Assumption) -> Assumptions:
        return dataclasses.replace(self, **changes)

    @property
    def calibrated_on(self) -> str:
        """The latest date on which one of them was fitted to readings; empty when none was."""
        return max(each.calibrated_on for each in self.rows().values())

    @property
    def confidence(self) -> Confidence:
        """Of a figure that rests on all of them."""
        return "measured" if all(each.calibrated_on for each in self.rows().values()) else "assumed"

    def rows(self) -> dict[str, Assumption]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        width = max(map(len, self.rows()))
        return "\n".join(f"{name:<{width}}  {assumption}" for name, assumption in self.rows().items())


DEFAULT = Assumptions()
