"""Time of the tutorial's fused selective scan, from its instructions: a check of the model on a hand-written
kernel.

Per tile of 128 channels and per state: one activation, the scan, and three to five products or sums of two
tensors. The first version loads its inputs again for every state. The second keeps all channels on the chip,
as far as they fit, and its rows beyond that go to HBM and back. The third splits the sequence so that they fit.
"""

from __future__ import annotations

from math import ceil

from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.cost import dma_best_rate, hbm_share_rate, stack_best_rate
from neuron_lab.hardware.instruction_cost import activation_cycles, scan_cycles, two_input_cycles
from neuron_lab.hardware.interval import Interval

PARTITIONS = 128
SBUF_BYTES_PER_PARTITION = 192 * 1024  # 24 MiB over 128 partitions (Trainium/Inferentia2 Architecture Guide)
ELEMENT_BYTES = 4
TENSORS = 3  # delta, u and the accumulated result
FEWEST_PRODUCTS, MOST_PRODUCTS = 3, 4


def scan_kernel_ns(
    channels: int, length: int, states: int, version: int, chip: Chip, assumptions: Assumptions = DEFAULT
) -> Interval:
    """One call on one core, all in float32."""
    tiles = ceil(channels / PARTITIONS)
    turns = tiles * states
    best_cycles = FEWEST_PRODUCTS * two_input_cycles(length, fast=True) + scan_cycles(length)
    worst_cycles = MOST_PRODUCTS * two_input_cycles(length) + scan_cycles(length)
    scalar_ns = turns * activation_cycles(length) / chip.scalar_clock.value
    moved = _moved_bytes(tiles, length, states, version)
    rate = min(stack_best_rate(chip), dma_best_rate(chip, 1))
    low = max(turns * best_cycles / chip.vector_clock.value, scalar_ns, moved / rate)
    slow_rate = min(hbm_share_rate(chip, 1), chip.dma_engines.value * chip.dma_rate_achieved.value)
    high = max(
        turns * worst_cycles / chip.vector_clock.value / assumptions.engine_share.low, moved / slow_rate
    ) + min(turns * worst_cycles / chip.vector_clock.value, moved / slow_rate)
    return Interval(low, high) + assumptions.launch_ns.interval


def unfused_scan_ns(
    channels: int, length: int, states: int, chip: Chip, assumptions: Assumptions = DEFAULT
) -> Interval:
    """The same computation as a loop over the sequence in one compiled graph, as the framework writes it.

    Assumed of the compiler: every step's slice goes through HBM, and the sequence is the innermost axis, so a
    slice moves element by element. At best three slices a step, at worst four and no start latency hidden.
    """
    descriptors = channels * states / chip.dma_engines.value
    full_ns = chip.dma_full_rate_bytes.value
    low = length * 3 * descriptors * full_ns / chip.dma_rate_peak.value
    high = length * 4 * descriptors * full_ns / chip.dma_rate_achieved.value
    latency = length * 2 * assumptions.dma_trips.high * chip.dma_start_latency.value
    return Interval(low, high + latency) + assumptions.launch_ns.interval


def _moved_bytes(tiles: int, length: int, states: int, version: int) -> float:
    tensor = tiles * PARTITIONS * length * ELEMENT_BYTES
    once = TENSORS * tensor
    if version == 1:
        return 2 * states * tensor + tensor  # delta and u again for every state
    resident = TENSORS * tiles * length * ELEMENT_BYTES
    if version == 2 and resident > SBUF_BYTES_PER_PARTITION:
        return once + states * (TENSORS + 1) * tensor  # read all three and write the sum, for every state
    return once
