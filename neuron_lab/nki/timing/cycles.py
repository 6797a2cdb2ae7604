"""Cycles an instruction keeps its engine, by the documented formulas.

N is elements per partition; how many partitions take part does not matter. Sources: Neuron SDK documentation,
NKI API pages (formulas of 2.26, written for NeuronCore-v2) and the architecture guides. What has no formula
costs one element a cycle, after 150 cycles to start on GpSimd.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from neuron_lab.hardware.instruction_cost import (
    GPSIMD_START_CYCLES,
    MIN_CYCLES,
    READOUT_CYCLES,
    activation_cycles,
    iota_cycles,
    load_stationary_cycles,
    matmul_cycles,
    one_input_cycles,
    reciprocal_cycles,
    reduce_cycles,
    scan_cycles,
    top_k_cycles,
    two_input_cycles,
)
from neuron_lab.nki import dtypes
from neuron_lab.nki.run import Recorded
from neuron_lab.nki.storage import PSUM, SBUF, Access

Formula = Callable[[Recorded, int], float]

_16_BIT = frozenset({dtypes.bfloat16, dtypes.float16})
_8_BIT = frozenset({dtypes.float8_e4m3, dtypes.float8_e4m3fn, dtypes.float8_e5m2})
_32_BIT_FLOAT = frozenset({dtypes.float32, dtypes.tfloat32})
_CHEAP_PAIRS = frozenset({"add", "subtract", "multiply"})
_FAR_STRIDE_BYTES = 16  # an innermost stride above it halves the bandwidth of SBUF and PSUM
_N_GATHER_ELEMENTS = 512


def engine_cycles(instruction: Recorded, generation: int) -> float:
    """Until the engine may begin the next one. `generation`: 2, 3 or 4 for NeuronCore-v2, v3, v4."""
    formula = _FORMULAS.get(instruction.opcode)
    if formula is None:
        formula = _on_gpsimd if instruction.engine == "gpsimd" else _by_inputs
    cycles = formula(instruction, generation)
    far = any(_is_far(each) for each in (*instruction.writes, *instruction.reads))
    return cycles * 2 if far else cycles


def _is_far(access: Access) -> bool:
    return access.inner_stride_bytes > _FAR_STRIDE_BYTES and access.elements > 1


def elements(instruction: Recorded) -> int:
    """N: the most elements per partition of any operand."""
    return max((each.elements for each in (*instruction.writes, *instruction.reads)), default=1)


def _wide_reads(instruction: Recorded) -> list[Access]:
    """Inputs that stream, not one value per partition."""
    return [each for each in instruction.reads if each.elements > 1]


def _fast_factor(instruction: Recorded, generation: int) -> int:
    """The vector engine's fast modes of v3 and later, for one input (architecture guide of Trainium2)."""
    fast = _16_BIT | _8_BIT if generation >= 4 else _16_BIT
    sides = (*instruction.writes[:1], *instruction.reads[:1])
    if generation < 3 or instruction.engine != "vector" or any(each.dtype not in fast for each in sides):
        return 1
    contiguous = all(each.inner_stride_bytes <= each.dtype.itemsize for each in sides)
    in_psum = sum(each.buffer is PSUM for each in sides)
    if not in_psum:
        return 4 if contiguous else 2
    return 2 if contiguous and in_psum == 1 else 1


def _one_input(instruction: Recorded, generation: int) -> float:
    n = elements(instruction)
    if instruction.engine == "gpsimd":
        return GPSIMD_START_CYCLES + n
    if instruction.engine == "scalar" and generation >= 4:
        low = all(each.dtype in _16_BIT for each in (*instruction.writes, *instruction.reads[:1]))
        return one_input_cycles(ceil(n / 2) if low else n)
    return one_input_cycles(ceil(n / _fast_factor(instruction, generation)))


def _tensor_scalar(instruction: Recorded, generation: int) -> float:
    cycles = _one_input(instruction, generation)
    slow = instruction.engine == "gpsimd" and "rsqrt" in (instruction.extra or {}).values()
    return cycles * 4 if slow else cycles


def _two_inputs(instruction: Recorded, generation: int) -> float:
    n, reads = elements(instruction), _wide_reads(instruction)
    if instruction.engine == "gpsimd":
        return GPSIMD_START_CYCLES + n * max(1, len(reads))
    if len(reads) < 2:
        return one_input_cycles(n)
    in_psum = sum(each.buffer is PSUM for each in reads)
    operands = (*instruction.writes, *reads)
    cheap = (instruction.extra or {}).get("op") in _CHEAP_PAIRS
    all_low = all(each.dtype in _16_BIT and each.buffer is SBUF for each in operands)
    contiguous = all(each.inner_stride_bytes <= each.dtype.itemsize for each in operands)
    if generation >= 3 and all_low:
        return two_input_cycles(n, fast=True)
    return two_input_cycles(n, fast=in_psum == 1 or (all_low and cheap and contiguous))


def _predicated(instruction: Recorded, generation: int) -> float:
    streams = instruction.reads[:2]
    return two_input_cycles(elements(instruction), fast=sum(each.buffer is PSUM for each in streams) == 1)


def _scalar_tensor_tensor(instruction: Recorded, generation: int) -> float:
    n, extra = elements(instruction), instruction.extra or {}
    streams = _wide_reads(instruction)
    low = len(streams) == 2 and all(each.dtype == dtypes.bfloat16 for each in streams)
    ops = (extra.get("op"), extra.get("op1")) == ("subtract", "multiply")
    return two_input_cycles(n, fast=low and ops and n % 2 == 0)


def _memset(instruction: Recorded, generation: int) -> float:
    n = elements(instruction)
    half = bool((instruction.extra or {}).get("zero")) and instruction.writes[0].dtype in _16_BIT
    if instruction.engine == "gpsimd":
        return GPSIMD_START_CYCLES + n
    return one_input_cycles(ceil(n / 2) if half else n)


def _reduce(instruction: Recorded, generation: int) -> float:
    low = all(each.dtype == dtypes.bfloat16 for each in (*instruction.writes, *instruction.reads))
    fast = low and (instruction.extra or {}).get("op") in {"add", "maximum"}
    return reduce_cycles(elements(instruction), fast)


def _matmul(instruction: Recorded, generation: int) -> float:
    stationary, moving = instruction.reads[:2]
    extra = instruction.extra or {}
    columns, rows = moving.elements, stationary.elements
    if extra.get("double_row"):
        columns, rows = columns // 2, rows // 2
    wide = moving.dtype in _32_BIT_FLOAT and not extra.get("is_transpose")
    cycles = matmul_cycles(rows, columns, "float32" if wide else "bfloat16")
    return max(cycles / 2 if wide and extra.get("onezero") else cycles, load_stationary_cycles(rows))


def _transpose(instruction: Recorded, generation: int) -> float:
    if instruction.engine != "tensor":
        return one_input_cycles(elements(instruction))
    data = instruction.reads[0]
    cycles = max(data.partitions, min(MIN_CYCLES, data.elements))
    if data.dtype not in _32_BIT_FLOAT:
        return cycles
    return cycles * (2 if generation >= 3 else 4)


def _activation(instruction: Recorded, generation: int) -> float:
    """Reading the accumulator out costs 64 more; then the instruction writes a second tensor."""
    return activation_cycles(elements(instruction), reads_out=len(instruction.writes) > 1)


def _with_readout(instruction: Recorded, generation: int) -> float:
    return one_input_cycles(elements(instruction)) + READOUT_CYCLES


def _plain(instruction: Recorded, generation: int) -> float:
    return one_input_cycles(elements(instruction))


def _by_inputs(instruction: Recorded, generation: int) -> float:
    """The `nl` operators, and what has no formula of its own."""
    if instruction.engine == "vector" and len(_wide_reads(instruction)) > 1:
        return _two_inputs(instruction, generation)
    return _one_input(instruction, generation)


def _on_gpsimd(instruction: Recorded, generation: int) -> float:
    return iota_cycles(elements(instruction))


def _local_gather(instruction: Recorded, generation: int) -> float:
    extra = instruction.extra or {}
    per_index, valid = extra.get("num_elem_per_idx", 1), extra.get("valid", instruction.writes[0].elements)
    rate = ((28 + 4 * per_index) / (4 * per_index)) / min(4 / instruction.writes[0].dtype.itemsize, per_index)
    return GPSIMD_START_CYCLES + valid * per_index / rate


def _n_gather(instruction: Recorded, generation: int) -> float:
    n = elements(instruction)
    return ceil(n / _N_GATHER_ELEMENTS) * GPSIMD_START_CYCLES + n


def _quarter(instruction: Recorded, generation: int) -> float:
    return one_input_cycles(ceil(elements(instruction) / 4))


_FORMULAS: dict[str, Formula] = {
    "tensor_copy": _one_input,
    "memset": _memset,
    "tensor_copy_predicated": _predicated,
    "nc_matmul": _matmul,
    "nc_matmul_mx": _matmul,
    "nc_transpose": _transpose,
    "tensor_tensor": _two_inputs,
    "tensor_scalar": _tensor_scalar,
    "tensor_reduce": _reduce,
    "activation": _activation,
    "activation_reduce": _with_readout,
    "activate2": _plain,
    "iota": _on_gpsimd,
    "affine_select": _on_gpsimd,
    "local_gather": _local_gather,
    "nc_n_gather": _n_gather,
    "bn_stats": _plain,
    "bn_aggr": lambda one, _: max(MIN_CYCLES, 13 * elements(one) / 3),
    "tensor_tensor_scan": lambda one, _: scan_cycles(elements(one)),
    "nc_stream_shuffle": _plain,
    "dropout": _plain,
    "rand2": _quarter,
    "exponential": _quarter,
    "quantize_mx": _quarter,
    "reciprocal": lambda one, _: reciprocal_cycles(elements(one)),
    "max8": _plain,
    "nc_find_index8": _plain,
    "nc_match_replace8": _plain,
    "range_select": _plain,
    "select_reduce": _plain,
    "scalar_tensor_tensor": _scalar_tensor_tensor,
    "tensor_scalar_reduce": _with_readout,
    "topk": lambda one, _: top_k_cycles(one.extra["n"], one.extra["k"]),
}
