"""The resources of one core, and what an instruction costs on its own, at both ends of what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.kernel_assumptions import KernelAssumptions
from neuron_lab.nki.run import Recorded
from neuron_lab.nki.timing.cycles import engine_cycles
from neuron_lab.nki.timing.operands import Accesses, Ints, instruction_kinds
from neuron_lab.nki.timing.transfers import Transfer, transfer_of

RESOURCES = ("tensor", "vector", "scalar", "gpsimd", "sequencer", "dma", "cc")
DMA, COLLECTIVE = RESOURCES.index("dma"), RESOURCES.index("cc")
UNORDERED = np.array([DMA, COLLECTIVE])
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma")
"""What utilisation is told of."""

Floats = npt.NDArray[np.float64]
_GENERATIONS = {"NeuronCore-v2": 2, "NeuronCore-v3": 3, "NeuronCore-v4": 4}


@dataclass(frozen=True, eq=False)
class Costs:
    """Per instruction. `busy_ns`: its resource is taken; `latency_ns`: from start to result, beside that."""

    resource: Ints
    busy_ns: Floats
    latency_ns: Floats
    dma_engines: Ints  # 0 where no transfer
    size_bytes: Ints
    kind: Ints
    row_bytes: Ints
    cycles: Floats  # documented, 0 for transfers


def resource_of(instruction: Recorded) -> int:
    engine = instruction.engine
    return RESOURCES.index(engine) if engine in RESOURCES else RESOURCES.index("sequencer")


def clock_ghz(resource: str, chip: Chip) -> float:
    clocks = {"tensor": chip.tensor_clock, "vector": chip.vector_clock, "gpsimd": chip.gpsimd_clock}
    return clocks.get(resource, chip.scalar_clock).value


def both_ends(
    log: Sequence[Recorded], accesses: Accesses, chip: Chip, table: KernelAssumptions, cores: int
) -> tuple[Costs, Costs]:
    """(low, high). `cores` share the bandwidth of one HBM stack."""
    kinds = instruction_kinds(log, accesses)
    low, high = (_costs(log, kinds, chip, table, cores, end) for end in (False, True))
    return low, high


def _costs(
    log: Sequence[Recorded],
    kinds: tuple[Ints, Ints],
    chip: Chip,
    table: KernelAssumptions,
    cores: int,
    high: bool,
) -> Costs:
    example, kind = kinds
    rows = [_cost(log[index], chip, table, cores, high) for index in example.tolist()]
    columns: list[Any] = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.empty(0)] * 7
    resource, busy, latency, engines, size, row_bytes, cycles = (column[kind] for column in columns)
    return Costs(resource, busy.astype(float), latency.astype(float), engines, size, kind, row_bytes, cycles)


Row = tuple[int, float, float, int, int, int, float]


def _cost(one: Recorded, chip: Chip, table: KernelAssumptions, cores: int, high: bool) -> Row:
    resource = resource_of(one)
    if resource == DMA:
        return _transfer(transfer_of(one, chip), chip, table, cores, high)
    if resource == COLLECTIVE:
        return _collective(transfer_of(one, chip), chip, table, high)
    cycles = engine_cycles(one, _GENERATIONS[chip.generation])
    clock = clock_ghz(RESOURCES[resource], chip)
    slow = table.engine_slowdown.high if high else table.engine_slowdown.low
    pipeline = table.pipeline_cycles.high if high else table.pipeline_cycles.low
    return resource, cycles * slow / clock, pipeline / clock, 0, 0, 0, cycles


def _transfer(one: Transfer, chip: Chip, table: KernelAssumptions, cores: int, high: bool) -> Row:
    stack = (chip.hbm_bandwidth_worst if high else chip.hbm_bandwidth_best).value / chip.hbm_stacks.value
    rate = (chip.dma_rate_achieved if high else chip.dma_rate_peak).value
    rate = min(rate, stack / (chip.dma_engines.value * cores))
    share = table.dma_start_share.high if high else table.dma_start_share.low
    start = chip.dma_start_latency.value * share
    start += table.descriptor_ns.high if high else table.descriptor_ns.low
    busy = one.engine_ns(rate, chip.dma_full_rate_bytes.value)
    return DMA, busy, start, one.engines, one.size_bytes, one.row_bytes, 0.0


def _collective(one: Transfer, chip: Chip, table: KernelAssumptions, high: bool) -> Row:
    """Bytes at the DMA rate of one core: links between chips are not told apart here."""
    rate = chip.dma_engines.value * (chip.dma_rate_achieved if high else chip.dma_rate_peak).value
    fixed = table.collective_ns.high if high else table.collective_ns.low
    return COLLECTIVE, fixed + one.size_bytes / rate, 0.0, 0, one.size_bytes, one.row_bytes, 0.0
