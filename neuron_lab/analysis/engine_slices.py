"""Engine slices on the modelled clock: when each engine of a core works on which kernel, low schedule.

Drawn at the low end every engine begins with its kernel. `high_ns` is how long it would be busy at the high
end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.engine_times import EngineTable
from neuron_lab.analysis.modelled import ModelledTimeline
from neuron_lab.analysis.two_ends import Array
from neuron_lab.hardware.cost import ENGINES


@dataclass(frozen=True, eq=False)
class EngineSlices:
    """One entry per kernel and engine that has something to do, in order of kernel."""

    kernel: Array  # index into the timeline
    engine: Array  # index into cost.ENGINES
    start_ns: Array
    low_ns: Array
    high_ns: Array

    def __len__(self) -> int:
        return len(self.kernel)

    def engine_names(self) -> list[str]:
        return [ENGINES[code] for code in self.engine.tolist()]


def engine_slices(timeline: ModelledTimeline, engines: EngineTable) -> EngineSlices:
    best = np.ceil(engines.best_ns - 1e-6).astype(np.int64)
    worst = np.maximum(np.ceil(engines.worst_ns - 1e-6).astype(np.int64), best)
    signature = timeline.signature
    kernel, engine = np.nonzero(best[signature] > 0) if len(timeline) else (np.zeros(0, np.int64),) * 2
    return EngineSlices(
        kernel=kernel,
        engine=engine,
        start_ns=timeline.start_ns[kernel],
        low_ns=np.minimum(best[signature[kernel], engine], timeline.low_ns[kernel]),
        high_ns=worst[signature[kernel], engine],
    )
