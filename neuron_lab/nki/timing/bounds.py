"""What bounds a kernel, what would bound it next, and the change that removes the bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.hardware.instruction_cost import dma_share_of_full_rate
from neuron_lab.nki import dtypes
from neuron_lab.nki.timing.critical_path import CriticalPath, PathLine, critical_path
from neuron_lab.nki.timing.model import CoreTiming, KernelTiming, engines_used, without
from neuron_lab.nki.timing.operands import accesses_of
from neuron_lab.nki.timing.resources import DMA, RESOURCES

BUSY_SHARE = (
    0.8  # an engine at work this much of the time is what bounds; Neuron's own rule of thumb is 0.6–0.9
)
SMALL_ROW_SHARE = 0.5  # of the DMA rate
MOST_EXPLAINED = 200_000  # instructions; scheduling once more takes seconds beyond that


@dataclass(frozen=True, slots=True)
class Bound:
    """`kind`: "throughput" (the engine is busy) or "waiting" (nothing is, most of the time)."""

    kind: str
    engine: str
    share: float  # of the span
    line: PathLine | None
    text: str
    cure: str


@dataclass(frozen=True, slots=True)
class Next:
    """If the engine that bounds took no time: the low end that remains, and what bounds then."""

    without_engine: str
    total_ns: float
    engine: str
    text: str


def utilisation(core: CoreTiming) -> dict[str, float]:
    """Share of the low span each engine works."""
    span = core.low.span_ns
    return {engine: core.busy_ns(engine).low / span for engine in engines_used(core)} if span else {}


def bound_of(timing: KernelTiming, path: CriticalPath | None = None) -> Bound | None:
    """Of the slowest core's low schedule; None when it did nothing."""
    core = timing.slowest
    used = utilisation(core)
    if not used:
        return None
    path = path or critical_path(core)
    busiest = max(used, key=lambda engine: used[engine])
    if used[busiest] >= BUSY_SHARE:
        line = _first_line(path, busiest)
        text = f"{_name(busiest)} is busy {used[busiest]:.0%} of the time"
        return Bound("throughput", busiest, used[busiest], line, text, _throughput_cure(timing, core, busiest))
    spent = {engine: path.work_ns[engine] + path.waiting_ns[engine] for engine in path.work_ns}
    engine = max(spent, key=lambda each: spent[each])
    share = spent[engine] / core.low.span_ns
    line = _first_line(path, engine)
    text = (
        f"no engine is busy ({_name(busiest)} most, {used[busiest]:.0%}); {_name(engine)} is on the critical "
        f"path {share:.0%} of the time while the others wait"
    )
    return Bound("waiting", engine, share, line, text, _waiting_cure(engine))


def next_bound(timing: KernelTiming, bound: Bound) -> Next | None:
    """None where scheduling again would take long."""
    if timing.instructions > MOST_EXPLAINED:
        return None
    freed = without(timing, bound.engine)
    following = bound_of(freed)
    total_ns = freed.total_ns.low
    if following is None or following.engine == bound.engine:
        return Next(bound.engine, total_ns, "", "nothing else takes time")
    return Next(bound.engine, total_ns, following.engine, following.text)


def _name(engine: str) -> str:
    return "DMA" if engine == "dma" else f"the {engine} engine"


def _first_line(path: CriticalPath, engine: str) -> PathLine | None:
    return next((line for line in path.lines if line.engine == engine), None)


def _waiting_cure(engine: str) -> str:
    if engine == "dma":
        return (
            "let transfers run ahead: allocate the tile inside the loop (two buffers) so that the next load "
            "need not wait for this one's reader, and move more bytes per transfer"
        )
    return f"give {_name(engine)} fewer, larger instructions, or independent ones to work on meanwhile"


def _throughput_cure(timing: KernelTiming, core: CoreTiming, engine: str) -> str:
    if engine == "dma":
        return _dma_cure(timing, core)
    if engine == "tensor":
        wide = any(
            one.opcode == "nc_matmul" and one.reads[1].dtype in {dtypes.float32, dtypes.tfloat32}
            for one in core.log
        )
        if wide:
            return "multiply in bfloat16: float32 takes the tensor engine four times as long"
        return "the tensor engine is the limit: only fewer multiplications or fp8 make it faster"
    return (
        f"fuse its instructions, use 16-bit tiles, or move some of them from {_name(engine)} to another engine"
    )


def _dma_cure(timing: KernelTiming, core: CoreTiming) -> str:
    costs = core.low_costs
    moving = costs.resource == DMA
    rows, sizes = costs.row_bytes[moving], costs.size_bytes[moving]
    if not sizes.sum():
        return "move fewer bytes"
    share = float(np.average([dma_share_of_full_rate(int(row), timing.chip) for row in rows], weights=sizes))
    again = loaded_again(core)
    if again >= 2:
        return (
            f"the same bytes are read from HBM {again:.1f} times on average: keep tiles in SBUF and reuse them"
        )
    if share < SMALL_ROW_SHARE:
        typical = int(np.median(rows))
        reached = dma_share_of_full_rate(typical, timing.chip)
        return (
            f"rows of {typical} bytes reach {reached:.0%} of the DMA rate: load wider tiles, 2 KiB or more per "
            "partition"
        )
    return "move fewer bytes: keep results in SBUF for the next step, or use a 16-bit dtype"


def loaded_again(core: CoreTiming) -> float:
    """Bytes read from HBM over the distinct bytes among them; 1 = every byte once."""
    accesses = accesses_of(core.log)
    reads = ~accesses.writes & (core.low_costs.resource[accesses.instruction] == RESOURCES.index("dma"))
    in_hbm = np.flatnonzero(reads & ~accesses.on_chip)
    boxes = np.stack(
        [
            each[in_hbm]
            for each in (accesses.storage, accesses.first_row, accesses.stop_row, accesses.first_byte)
        ]
        + [accesses.stop_byte[in_hbm]],
        axis=1,
    )
    if not len(boxes):
        return 1.0
    size = (boxes[:, 2] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 3])
    _, first = np.unique(boxes, axis=0, return_index=True)
    return float(size.sum() / size[first].sum())
