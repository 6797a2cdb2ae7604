"""What single instructions take, in cycles of their engine or in nanoseconds: documented statements as
functions.

Cycles are initiation intervals: the time until the engine may begin the next instruction. `n` is the number of
elements per partition; how many partitions take part does not matter. Sources: Neuron SDK documentation,
Trainium/Inferentia2 Architecture Guide for NKI and NKI API pages (the formulas of the 2.26 API pages were
written for NeuronCore-v2), Introduction to DMA with NKI, Guideline to Avoid Under-Utilizing DMA Bandwidth.
"""

from __future__ import annotations

from math import ceil

from neuron_lab.hardware.chips import Chip

MIN_CYCLES = 64
ACCESS_CYCLES = 60  # latency of one operand stream
DEPENDENT_CYCLES = 100  # more when an instruction is tiny or needs the one before
CHAIN_CYCLES = 264  # a dependent chain of one-element scalar instructions, measured on NeuronCore-v2
READOUT_CYCLES = 64  # of the scalar engine's accumulator
GPSIMD_START_CYCLES = 150
DMA_PARTITIONS_PER_ENGINE = 8


def one_input_cycles(n: int) -> int:
    """Copies, operations with a scalar, activation functions."""
    return max(MIN_CYCLES, n)


def two_input_cycles(n: int, fast: bool = False) -> int:
    """Two tensors on the vector engine. `fast`: one in PSUM, or both bf16, contiguous,
    add/subtract/multiply."""
    return max(MIN_CYCLES, n if fast else 2 * n)


def scan_cycles(n: int) -> int:
    return max(MIN_CYCLES, 2 * n)


def reduce_cycles(n: int, fast: bool = False) -> int:
    """`fast`: bf16 in and out with add or maximum."""
    return max(MIN_CYCLES, n // 2 if fast else n)


def activation_cycles(n: int, reads_out: bool = False) -> int:
    return one_input_cycles(n) + (READOUT_CYCLES if reads_out else 0)


def reciprocal_cycles(n: int, engine: str = "vector") -> int:
    return max(MIN_CYCLES, n if engine == "scalar" else 8 * n)


def top_k_cycles(n: int, k: int) -> int:
    return 4 * n + k


def iota_cycles(n: int) -> int:
    return GPSIMD_START_CYCLES + n


def matmul_cycles(stationary_columns: int, moving_columns: int, dtype: str = "bfloat16") -> int:
    """Back to back; loading the stationary operand hides behind the product before."""
    cycles = max(min(MIN_CYCLES, stationary_columns), moving_columns)
    return max(cycles, MIN_CYCLES) * (4 if dtype == "float32" else 1)


def load_stationary_cycles(columns: int) -> int:
    """Up to four times faster than a product of the same free size."""
    return ceil(columns / 4)


def dma_descriptor_ns(row_bytes: int, chip: Chip) -> float:
    """One contiguous row on one DMA engine at the achieved rate."""
    return max(chip.dma_full_rate_bytes.value, row_bytes) / chip.dma_rate_achieved.value


def dma_share_of_full_rate(row_bytes: int, chip: Chip) -> float:
    return row_bytes / max(chip.dma_full_rate_bytes.value, row_bytes)


def dma_transfer_ns(rows: int, row_bytes: int, chip: Chip) -> float:
    """`rows` partitions of `row_bytes` each, eight to an engine, without the latency to start."""
    rows_of_one = min(rows, DMA_PARTITIONS_PER_ENGINE, max(1, rows))
    turns = ceil(rows / (DMA_PARTITIONS_PER_ENGINE * chip.dma_engines.value))
    return turns * rows_of_one * dma_descriptor_ns(row_bytes, chip)
