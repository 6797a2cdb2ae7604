"""What work takes on a chip, as an interval: pure functions of work, chip, core grouping and assumptions.

*Low* is the documented roofline and nothing else: the busiest engine at its published peak, everything else
hidden behind it. *High* adds what no document promises away: peaks not reached, partly filled tiles, engines
and DMA that do not overlap, DMA start latencies. Launching the kernel is not in here (`schedule.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.facts import Confidence
from neuron_lab.hardware.graph_work import GraphWork
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import Work, item_bytes

BOUNDS = ("none", "tensor", "vector", "scalar", "gpsimd", "hbm", "dma", "collective")
"""What limits the low end. The position of a name is its code in columns."""

ENGINES = BOUNDS[1:7]
"""What a kernel keeps busy, in the order of `EngineTimes`. `hbm` is the memory, `dma` what moves the bytes."""

PARTITIONS = 128  # of the on-chip memory: a transfer has a descriptor for each at least


@dataclass(frozen=True, slots=True)
class Cost:
    """Time of one kernel on one logical core, without its launch."""

    low_ns: int
    high_ns: int
    bound: str = "none"
    engine: str = "none"
    low_confidence: Confidence = "documented"

    @property
    def confidence(self) -> Confidence:
        """Of the interval as a whole: its high end always rests on assumptions."""
        return "assumed"

    @property
    def interval_ns(self) -> Interval:
        return Interval(self.low_ns, self.high_ns)


NO_COST = Cost(0, 0)


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """Nanoseconds each engine of a logical core is busy, in the order of `BOUNDS[1:]`."""

    tensor: float = 0.0
    vector: float = 0.0
    scalar: float = 0.0
    gpsimd: float = 0.0
    hbm: float = 0.0
    dma: float = 0.0

    def __add__(self, other: EngineTimes) -> EngineTimes:
        return EngineTimes(
            self.tensor + other.tensor,
            self.vector + other.vector,
            self.scalar + other.scalar,
            self.gpsimd + other.gpsimd,
            self.hbm + other.hbm,
            self.dma + other.dma,
        )

    def as_tuple(self) -> tuple[float, ...]:
        return (self.tensor, self.vector, self.scalar, self.gpsimd, self.hbm, self.dma)

    @property
    def memory(self) -> float:
        """HBM and the DMA engines move the same bytes at the same time."""
        return max(self.hbm, self.dma)

    def overlapped(self) -> float:
        """All engines side by side."""
        return max(self.as_tuple())

    def one_after_another(self) -> float:
        return sum(self.as_tuple()[:4]) + self.memory

    def bound(self) -> str:
        times = self.as_tuple()
        longest = max(times)
        return BOUNDS[1 + times.index(longest)] if longest else "none"


def kernel_cost(work: Work, chip: Chip, lnc: int, assumptions: Assumptions = DEFAULT) -> Cost:
    """One eager kernel."""
    if work.is_none:
        return NO_COST
    best = best_times(work, chip, lnc)
    return Cost(
        low_ns=_whole_ns(best.overlapped()),
        high_ns=_whole_ns(_worst_ns(work, chip, lnc, assumptions)),
        bound=best.bound(),
        engine=work.engine,
        low_confidence="assumed" if _rests_on_a_guess(work, chip) else "documented",
    )


def graph_cost(graph: GraphWork, chip: Chip, lnc: int, assumptions: Assumptions = DEFAULT) -> Cost:
    """One compiled graph: intermediates stay on the chip in the low end and go through HBM in the high end,
    where loads still run beside computing."""
    if not graph.nodes:
        return NO_COST
    best = graph_best_times(graph, chip, lnc)
    return Cost(
        low_ns=_whole_ns(best.overlapped()),
        high_ns=_whole_ns(max(_graph_worst_ns(graph, chip, lnc, assumptions), best.overlapped())),
        bound=best.bound(),
        engine=_main_engine(best),
        low_confidence="assumed"
        if any(_rests_on_a_guess(node, chip) for node in graph.nodes)
        else "documented",
    )


def graph_best_times(graph: GraphWork, chip: Chip, lnc: int) -> EngineTimes:
    """Fused: every engine does all its work, and only the graph's own inputs and results cross HBM."""
    on_chip = sum((best_times(node, chip, lnc) for node in graph.nodes), start=EngineTimes())
    return dataclasses.replace(
        on_chip,
        hbm=graph.boundary_bytes / stack_best_rate(chip),
        dma=graph.boundary_bytes / dma_best_rate(chip, lnc),
    )


def graph_worst_times(graph: GraphWork, chip: Chip, lnc: int, assumptions: Assumptions) -> EngineTimes:
    """Not fused: every intermediate is written to HBM and read back."""
    return sum((worst_times(node, chip, lnc, assumptions) for node in graph.nodes), start=EngineTimes())


def compile_seconds(
    kernels: int, graph_node_counts: Sequence[int], assumptions: Assumptions = DEFAULT
) -> Interval:
    """Compiling so many eager kernels and graphs, one after another and without a cache."""
    units = kernels + len(graph_node_counts)
    nodes = sum(graph_node_counts)
    return assumptions.compile_s.interval.scale(units) + assumptions.compile_node_s.interval.scale(nodes)


def best_times(work: Work, chip: Chip, lnc: int) -> EngineTimes:
    """Every engine at its documented peak, both physical cores of a logical core fully used."""
    sixteen_bit = item_bytes(work.dtype) <= 2
    vector_width = (chip.vector_width_16bit if sixteen_bit else chip.vector_width_other).value
    scalar_width = (chip.scalar_width_16bit if sixteen_bit else chip.scalar_width).value
    return EngineTimes(
        tensor=work.flops / (_tensor_rate(chip, work.dtype) * 1e3 * lnc),  # TFLOP/s = 1e3 flops per ns
        vector=work.vector_elements / (vector_width * chip.vector_clock.value * lnc),
        scalar=work.scalar_elements / (scalar_width * chip.scalar_clock.value * lnc),
        gpsimd=work.gpsimd_elements / (chip.gpsimd_width.value * chip.gpsimd_clock.value * lnc),
        hbm=work.size_bytes / stack_best_rate(chip),
        dma=work.size_bytes / dma_best_rate(chip, lnc),
    )


def worst_times(work: Work, chip: Chip, lnc: int, assumptions: Assumptions = DEFAULT) -> EngineTimes:
    """Every engine at the assumed lowest share of its rate."""
    cores = lnc * (assumptions.lnc2_share.low if lnc > 1 else 1.0)
    engines = cores * assumptions.engine_share.low
    # a vector instruction with two inputs takes two cycles per element (Architecture Guide for NKI)
    vector_rate = chip.vector_lanes.value / 2 * chip.vector_clock.value
    return EngineTimes(
        tensor=_array_ns(work, chip) / (cores * assumptions.tensor_share.low),
        vector=work.vector_elements / (vector_rate * engines),
        scalar=work.scalar_elements / (chip.scalar_width.value * chip.scalar_clock.value * engines),
        gpsimd=work.gpsimd_elements / (chip.gpsimd_width.value * chip.gpsimd_clock.value * engines),
        hbm=work.size_bytes / (hbm_share_rate(chip, lnc) * assumptions.memory_share.low),
        dma=dma_worst_ns(work.size_bytes, work.row_bytes, chip, lnc),
    )


def stack_best_rate(chip: Chip) -> float:
    """Bytes per ns of one HBM stack, for a core that has it to itself."""
    return chip.hbm_bandwidth_best.value / chip.hbm_stacks.value


def dma_best_rate(chip: Chip, lnc: int) -> float:
    """Bytes per ns of a logical core's DMA engines at their published peak."""
    return chip.dma_engines.value * chip.dma_rate_peak.value * lnc


def hbm_share_rate(chip: Chip, lnc: int) -> float:
    """Bytes per ns of HBM for one logical core when all cores of the chip are busy."""
    return chip.hbm_bandwidth_worst.value / chip.physical_cores.value * lnc


def dma_worst_ns(size_bytes: float, row_bytes: int, chip: Chip, lnc: int) -> float:
    """Time of the DMA engines at the rate they were measured to achieve, descriptor by descriptor.

    A descriptor moves `row_bytes` in one piece (0: the tensor is one piece, spread over the partitions) and
    takes at least as long as one of `dma_full_rate_bytes`.
    """
    if not size_bytes:
        return 0.0
    piece = row_bytes or ceil(size_bytes / PARTITIONS)
    moved = max(piece, chip.dma_full_rate_bytes.value) / piece * size_bytes
    return moved / (chip.dma_engines.value * chip.dma_rate_achieved.value * lnc)


def _graph_worst_ns(graph: GraphWork, chip: Chip, lnc: int, assumptions: Assumptions) -> float:
    """The compiler loads the next node's operands while this one computes, but engines wait for one another."""
    worst = graph_worst_times(graph, chip, lnc, assumptions)
    latency = assumptions.dma_trips.high * chip.dma_start_latency.value
    return max(sum(worst.as_tuple()[:4]), worst.memory) + latency * len(graph.nodes)


def _worst_ns(work: Work, chip: Chip, lnc: int, assumptions: Assumptions) -> float:
    latency = assumptions.dma_trips.high * chip.dma_start_latency.value
    return worst_times(work, chip, lnc, assumptions).one_after_another() + latency


def _array_ns(work: Work, chip: Chip) -> float:
    """One physical core's array, partly filled tiles counted whole; never faster than the published rate."""
    slowdown = max(1.0, chip.tensor_rate["bfloat16"].value / _tensor_rate(chip, work.dtype))
    cycles_ns = work.tensor_cycles * slowdown / chip.tensor_clock.value
    return max(cycles_ns, work.flops / (_tensor_rate(chip, work.dtype) * 1e3))


def _tensor_rate(chip: Chip, dtype: str) -> float:
    """TFLOP/s of one physical core. float64 is computed in float32; unlisted dtypes take float32's rate."""
    return chip.tensor_rate.get(dtype, chip.tensor_rate["float32"]).value


def _rests_on_a_guess(work: Work, chip: Chip) -> bool:
    unlisted_rate = work.flops > 0 and work.dtype != "float64" and work.dtype not in chip.tensor_rate
    return work.assumed or unlisted_rate


def _main_engine(times: EngineTimes) -> str:
    engine = EngineTimes(times.tensor, times.vector, times.scalar, times.gpsimd).bound()
    return "dma" if engine == "none" else engine


def _whole_ns(nanoseconds: float) -> int:
    """Rounded up, less what floating point adds to an exact result."""
    return ceil(nanoseconds - 1e-6)
