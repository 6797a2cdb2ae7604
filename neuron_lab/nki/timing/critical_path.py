"""What the time of a core is spent on: the chain of instructions that decides its length, by engine and line.

Walks back from the instruction that ends last, each time to the one it waited for: a producer, or the one
before it on the same engine. What is left between two of them is waiting on a start latency or a semaphore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neuron_lab.nki.timing.clock import NO_CAUSE
from neuron_lab.nki.timing.model import CoreTiming
from neuron_lab.nki.timing.resources import DMA, RESOURCES

MOVING, WAITING = "moving", "waiting"
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PathLine:
    """One source line's part of the critical path. `waiting_ns`: latency, no work done."""

    file: str
    line: int
    opcode: str
    engine: str
    times: int
    work_ns: float
    waiting_ns: float

    @property
    def total_ns(self) -> float:
        return self.work_ns + self.waiting_ns


@dataclass(frozen=True, slots=True)
class CriticalPath:
    instructions: tuple[int, ...]  # in order of time
    lines: tuple[PathLine, ...]  # the longest first
    work_ns: Mapping[str, float]  # by engine
    waiting_ns: Mapping[str, float]  # by engine whose latency it is

    @property
    def total_ns(self) -> float:
        return sum(self.work_ns.values()) + sum(self.waiting_ns.values())


def critical_path(core: CoreTiming) -> CriticalPath:
    """Of the low schedule. Parts add up to the span."""
    timeline, costs = core.low, core.low_costs
    if not len(timeline.end_ns):
        return CriticalPath((), (), {}, {})
    chain = _chain(core)
    lines: dict[tuple[Place, str, str], list[float]] = {}
    work: dict[str, float] = {}
    waiting: dict[str, float] = {}
    reached = 0.0
    for position, number in enumerate(chain):
        one, engine = core.log[number], RESOURCES[int(costs.resource[number])]
        after = chain[position + 1] if position + 1 < len(chain) else None
        until = _left_at(core, number, after)
        total = max(until - reached, 0.0)
        begun = float(timeline.busy_from_ns[number])
        busy = float(costs.busy_ns[number])
        worked = max(0.0, min(begun + busy, until) - max(begun, reached))
        reached = max(reached, until)
        row = lines.setdefault(((one.file, one.line), one.opcode, engine), [0, 0.0, 0.0])
        row[0] += 1
        row[1] += worked
        row[2] += total - worked
        work[engine] = work.get(engine, 0.0) + worked
        waiting[engine] = waiting.get(engine, 0.0) + total - worked
    found = (
        PathLine(file, line, opcode, engine, int(times), worked, waited)
        for ((file, line), opcode, engine), (times, worked, waited) in lines.items()
    )
    return CriticalPath(tuple(chain), tuple(sorted(found, key=lambda row: -row.total_ns)), work, waiting)


def _chain(core: CoreTiming) -> list[int]:
    timeline = core.low
    number = int(timeline.end_ns.argmax())
    chain = []
    while number != NO_CAUSE:
        chain.append(number)
        number = _before(core, number)
    return chain[::-1]


def _before(core: CoreTiming, number: int) -> int:
    """What this one waited for; for a transfer whose engines were taken, the transfer that had them."""
    timeline, costs = core.low, core.low_costs
    if costs.resource[number] == DMA:
        asked = timeline.start_ns[number] + costs.latency_ns[number]
        begun = timeline.busy_from_ns[number]
        if begun > asked + 1e-6:
            earlier = core.dma_end_before(number, float(begun))
            if earlier != NO_CAUSE:
                return earlier
    return int(timeline.cause[number])


def _left_at(core: CoreTiming, number: int, after: int | None) -> float:
    """When the path goes on from this instruction to the next one of it."""
    timeline, costs = core.low, core.low_costs
    if after is None:
        return float(timeline.end_ns[number])
    begins = timeline.start_ns[after]
    if costs.resource[after] == DMA and costs.resource[number] == DMA and begins < timeline.end_ns[number]:
        begins = timeline.busy_from_ns[after]
    return float(begins)
