"""A timed kernel as a trace: engine slices and DMA rows on the modelled clock, at the low end."""

from __future__ import annotations

import numpy as np

from neuron_lab.nki.launching import Run
from neuron_lab.nki.timing.model import CoreTiming, KernelTiming
from neuron_lab.nki.timing.resources import DMA, RESOURCES
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import Clock, Frame, Kind, TraceHeader
from neuron_lab.trace.table import Trace


def kernel_trace(run: Run, timing: KernelTiming) -> Trace:
    """Every instruction and every transfer; `stack` leads to its line."""
    builder = TraceBuilder()
    for core in timing.cores:
        if core.log:
            _add_core(builder, core)
    return builder.freeze(_header(run, timing))


def _header(run: Run, timing: KernelTiming) -> TraceHeader:
    error = run.error
    return TraceHeader(
        name=run.kernel,
        device="emulated",
        chip=timing.chip.name,
        lnc=1 + max(core.program for core in timing.cores),
        cores=len(timing.cores),
        ranks=tuple(sorted({core.rank for core in timing.cores})),
        context={"kernel": run.kernel},
        error="" if error is None else f"{type(error).__name__}: {error}",
    )


def _add_core(builder: TraceBuilder, core: CoreTiming) -> None:
    names = [one.name or one.opcode for one in core.log]
    stacks = np.array([builder.stack((Frame(one.file, one.line, ""),)) for one in core.log], np.int32)
    low, high, costs = core.low, core.high, core.low_costs
    start, end = _whole(low.start_ns), _whole(low.end_ns)
    moving = costs.resource == DMA
    common = {"rank": core.rank, "core": core.program, "clock": Clock.MODELLED}
    engines = np.flatnonzero(~moving)
    if len(engines):
        busy_end = _whole(low.start_ns[engines] + costs.busy_ns[engines])
        builder.extend(
            Kind.ENGINE_SLICE,
            {
                **common,
                "name": [names[row] for row in engines.tolist()],
                "start_ns": start[engines],
                "duration_ns": np.maximum(busy_end - start[engines], 0),
                "track": costs.resource[engines],
                "engine": [RESOURCES[code] for code in costs.resource[engines].tolist()],
                "high_ns": _whole(core.high_costs.busy_ns[engines]),
                "stack": stacks[engines],
            },
        )
    transfers = np.flatnonzero(moving)
    if len(transfers):
        builder.extend(
            Kind.DMA,
            {
                **common,
                "name": [names[row] for row in transfers.tolist()],
                "start_ns": start[transfers],
                "duration_ns": end[transfers] - start[transfers],
                "track": DMA,
                "size_bytes": costs.size_bytes[transfers],
                "queue": "transfers",
                "high_ns": _whole(high.end_ns[transfers] - high.start_ns[transfers]),
                "stack": stacks[transfers],
            },
        )


def _whole(times_ns: np.ndarray) -> np.ndarray:
    return np.rint(times_ns).astype(np.int64)
