"""What one DMA transfer needs: how many of a core's DMA engines, and for how long each.

Eight consecutive partitions go to one engine; every contiguous row is a descriptor of its own (Introduction to
DMA with NKI; Guideline to Avoid Under-Utilizing DMA Bandwidth).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.instruction_cost import DMA_PARTITIONS_PER_ENGINE
from neuron_lab.nki.run import Recorded
from neuron_lab.nki.storage import ON_CHIP, Access

_TRANSPOSE_SHARE = {True: 0.5, False: 0.9}  # of the DMA rate: SBUF to SBUF, HBM to SBUF


@dataclass(frozen=True, slots=True)
class Transfer:
    engines: int
    descriptors: int  # in all
    row_bytes: int  # of one descriptor
    size_bytes: int
    share: float = 1.0  # of the DMA rate that this kind of transfer reaches

    def engine_ns(self, rate_bytes_per_ns: float, full_rate_bytes: float) -> float:
        """How long each of its engines works, without the latency to start."""
        turns = ceil(self.descriptors / self.engines)
        return turns * max(full_rate_bytes, self.row_bytes) / rate_bytes_per_ns / self.share


def transfer_of(instruction: Recorded, chip: Chip) -> Transfer:
    """From the accesses of a `dma_*` instruction (or an exchange between cores)."""
    sides = (*instruction.writes[:1], *instruction.reads)
    if not sides:
        return Transfer(1, 1, 0, 0)
    size_bytes = max(_bytes(each) for each in sides)
    transposing = instruction.opcode == "dma_transpose"
    descriptors = max((each.runs for each in (instruction.reads if transposing else sides)), default=1)
    chip_sides = [each for each in sides if each.buffer in ON_CHIP]
    rows = max((each.partitions for each in chip_sides), default=descriptors)
    engines = min(int(chip.dma_engines.value), max(1, ceil(rows / DMA_PARTITIONS_PER_ENGINE)))
    share = 1.0
    if transposing:
        share = _TRANSPOSE_SHARE[all(each.buffer in ON_CHIP for each in sides)]
    elif instruction.opcode == "dma_compute" and chip.generation != "NeuronCore-v4":
        share = 0.5
    return Transfer(engines, descriptors, ceil(size_bytes / descriptors), size_bytes, share)


def _bytes(access: Access) -> int:
    each = access.partitions if access.buffer in ON_CHIP else 1
    return access.elements * each * access.dtype.itemsize
