"""What no document gives exactly about the time of a kernel's instructions, in one table.

`low` and `high` go into the two ends of a kernel's modelled time.
`DEFAULT.replace(semaphore_ns=…)` overrides one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields

from neuron_lab.hardware.assumptions import Assumption


@dataclass(frozen=True)
class KernelAssumptions:
    """Of one launch of one kernel on one core."""

    semaphore_ns: Assumption = Assumption(
        50, 0, 200, "ns", "from the end of one engine's instruction to the start of one that waits for it"
    )
    pipeline_cycles: Assumption = Assumption(
        160,
        60,
        200,
        "cycles of the engine",
        "from an instruction's last element to its result: about 60 of access latency, about 100 more when the "
        "next one needs it; a chain of dependent one-element instructions was measured at 264 in all",
    )
    engine_slowdown: Assumption = Assumption(
        1.1, 1, 1.3, "times the documented cycles", "port and bank conflicts, instruction fetch"
    )
    dma_start_share: Assumption = Assumption(
        1, 0.75, 1.25, "of the documented start latency", "documented as about 1300 ns on trn2 only"
    )
    descriptor_ns: Assumption = Assumption(
        300, 0, 1000, "ns per transfer", "writing descriptors at run time: about 600 in hardware, often hidden"
    )
    launch_ns: Assumption = Assumption(
        5_000, 0, 15_000, "ns", "start and end of a kernel on the device: queues, final semaphores"
    )
    collective_ns: Assumption = Assumption(
        15_000, 2_000, 60_000, "ns", "one collective between cores, beside bytes over bandwidth"
    )

    def replace(self, **changes: Assumption) -> KernelAssumptions:
        return dataclasses.replace(self, **changes)

    def rows(self) -> dict[str, Assumption]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        width = max(map(len, self.rows()))
        return "\n".join(f"{name:<{width}}  {assumption}" for name, assumption in self.rows().items())


DEFAULT = KernelAssumptions()
