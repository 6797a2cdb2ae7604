"""What an operator asks of the chip: multiply-adds, element operations and bytes, from shapes and dtypes alone.

It does not know strides: an expanded tensor counts with its full shape. It counts attention without the share a
causal mask may skip. Where it does not know the operator it says so (`assumed`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, prod
from typing import Protocol

from neuron_lab.hardware import operator_kinds as kinds
from neuron_lab.hardware.operator_kinds import base_name, is_attention, is_in_place


class Tensor(Protocol):
    """Anything with a dtype name (without `torch.`) and a shape."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel's demands. `engine` does the main part; read plus written bytes are the HBM traffic."""

    kind: str = "none"
    engine: str = "none"
    dtype: str = "float32"
    flops: int = 0  # on the tensor engine, two per multiply-add
    tensor_cycles: int = 0  # cycles of a 128 × 128 array at its 16-bit rate, partly filled tiles counted whole
    vector_elements: int = 0
    scalar_elements: int = 0
    gpsimd_elements: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    row_bytes: int = 0  # contiguous bytes of one DMA descriptor; 0 = whole tensors, no short rows known
    assumed: bool = False

    @property
    def size_bytes(self) -> int:
        """HBM traffic."""
        return self.read_bytes + self.write_bytes

    @property
    def is_none(self) -> bool:
        """Views and allocations: nothing runs on the chip."""
        return self.kind == "none"


NO_WORK = Work()

_ARRAY = 128  # rows and columns of the tensor engine on every documented chip
_MIN_CYCLES = 64  # of one tensor instruction


@cache
def item_bytes(dtype: str) -> int:
    """Bytes per element from the dtype's name, which holds the bits: `float8_e4m3fn` → 1, `bool` → 1."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits.group()) // 8) if bits else 1


def elements(tensor: Tensor) -> int:
    return prod(tensor.shape)


def size_bytes(tensors: Sequence[Tensor]) -> int:
    return sum(prod(tensor.shape) * item_bytes(tensor.dtype) for tensor in tensors)


def work_of(op: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], static: str = "") -> Work:
    """The work of one operator; `op` is the dispatcher's name with overload, e.g. `aten::mm`.

    `static` (the arguments that are not tensors) is there for operators that will need it; none does yet.
    """
    base = base_name(op)
    if base in kinds.NO_WORK:
        return NO_WORK
    inputs = _without_out_arguments(op, inputs, outputs)
    known = _matmul_family(base, inputs, outputs) or _movement(op, base, inputs, outputs)
    return known or _element_operations(base, inputs, outputs)


def _without_out_arguments(op: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """`aten::mm.out` lists the tensor it writes among its inputs, at the end."""
    extra = len(outputs)
    written_last = op.endswith("out") and "." in op and 0 < extra < len(inputs)
    return inputs[:-extra] if written_last and tuple(inputs[-extra:]) == tuple(outputs) else inputs


# --- tensor engine ---


def _matmul_family(base: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work | None:
    if base in kinds.MATMUL and len(inputs) >= 2:
        return _matmul(inputs[0], inputs[1], inputs, outputs)
    if base in kinds.MATMUL_WITH_BIAS and len(inputs) >= 3:
        return _matmul(inputs[1], inputs[2], inputs, outputs)
    if base in kinds.LINEAR and len(inputs) >= 2:
        rows, inner = _rows(inputs[0]), inputs[0].shape[-1]
        return _tensor_work("matmul", 1, rows, inner, elements(inputs[1]) // max(1, inner), inputs, outputs)
    if base in kinds.LINEAR_BACKWARD and len(inputs) >= 3:
        rows, inner = _rows(inputs[0]), inputs[0].shape[-1]
        return _tensor_work("matmul", 2, rows, inner, inputs[2].shape[0], inputs, outputs)
    if base in kinds.GROUPED_MATMUL and len(inputs) >= 2:
        return _grouped(inputs[0], inputs[1], inputs, outputs)
    if base in kinds.CONVOLUTION and len(inputs) >= 2 and outputs:
        return _convolution(inputs[0], inputs[1], outputs[0], 1, inputs, outputs)
    if base in kinds.CONVOLUTION_BACKWARD and len(inputs) >= 3:
        return _convolution(inputs[1], inputs[2], inputs[0], 2, inputs, outputs)
    if is_attention(base) and len(inputs) >= 3:
        return _attention(base, inputs, outputs)
    return None


def _rows(tensor: Tensor) -> int:
    return prod(tensor.shape[:-1])


def _matmul(left: Tensor, right: Tensor, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work:
    """`[…, M, K] × […, K, N]`, with the vector forms of `mv` and `dot`."""
    left_shape = left.shape if len(left.shape) > 1 else (1, *left.shape)
    right_shape = right.shape if len(right.shape) > 1 else (*right.shape, 1)
    batch = max(prod(left_shape[:-2]), prod(right_shape[:-2]))
    return _tensor_work("matmul", batch, left_shape[-2], left_shape[-1], right_shape[-1], inputs, outputs)


def _grouped(left: Tensor, right: Tensor, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work:
    """Rows of `left` are shared out over the groups of `right`, so the groups do not multiply the work."""
    batch = left.shape[0] if len(left.shape) == 3 else 1
    return _tensor_work("matmul", batch, left.shape[-2], left.shape[-1], right.shape[-1], inputs, outputs)


def _convolution(
    image: Tensor,
    weight: Tensor,
    result: Tensor,
    times: int,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> Work:
    """A transposed convolution's weight begins with the input's channels, so the image drives it."""
    transposed = result.shape[1] != weight.shape[0]
    driving = image if transposed else result
    channels = weight.shape[0]
    positions = elements(driving) // max(1, channels)
    return _tensor_work("matmul", times, positions, prod(weight.shape[1:]), channels, inputs, outputs)


def _attention(base: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work:
    backward = "backward" in base and len(inputs) >= 4
    query, key, value = inputs[1:4] if backward else inputs[:3]
    heads = prod(query.shape[:-2])
    rows, columns = query.shape[-2], key.shape[-2]
    scores, context = query.shape[-1], value.shape[-1]
    forward = heads * rows * columns * (scores + context)
    cycles = heads * (_array_cycles(rows, scores, columns) + _array_cycles(rows, columns, context))
    return Work(
        kind="attention",
        engine="tensor",
        dtype=query.dtype,
        flops=5 * forward if backward else 2 * forward,  # five products backward against two forward
        tensor_cycles=ceil(2.5 * cycles) if backward else cycles,
        vector_elements=2 * heads * rows * columns,
        scalar_elements=heads * rows * columns,
        read_bytes=size_bytes(inputs),
        write_bytes=size_bytes(outputs),
    )


def _tensor_work(
    kind: str,
    batch: int,
    rows: int,
    inner: int,
    columns: int,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
) -> Work:
    return Work(
        kind=kind,
        engine="tensor",
        dtype=inputs[0].dtype,
        flops=2 * batch * rows * inner * columns,
        tensor_cycles=batch * _array_cycles(rows, inner, columns),
        read_bytes=size_bytes(inputs),
        write_bytes=size_bytes(outputs),
    )


def _array_cycles(rows: int, inner: int, columns: int) -> int:
    """Cycles of one product when the better of the two operands moves through the array.

    One instruction multiplies a stationary tile of 128 × 128 by up to N moving columns in max(N, 64) cycles
    (Neuron SDK documentation, Trainium/Inferentia2 Architecture Guide for NKI).
    """
    if not rows * inner * columns:
        return 0
    right_moves = ceil(rows / _ARRAY) * max(columns, _MIN_CYCLES)
    left_moves = ceil(columns / _ARRAY) * max(rows, _MIN_CYCLES)
    return ceil(inner / _ARRAY) * min(right_moves, left_moves)


# --- DMA ---


def _movement(op: str, base: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work | None:
    if kinds.is_copy(base):
        # copy_(destination, source) does not read its destination
        read = inputs[1:2] if base in ("copy", "_copy_from") and is_in_place(op) and len(inputs) > 1 else inputs
        return _dma_work("copy", inputs, outputs, size_bytes(read), size_bytes(outputs))
    if base in kinds.FILL:
        return _dma_work("fill", inputs, outputs, 0, size_bytes(outputs))
    if base in kinds.GATHER:
        indices = size_bytes(inputs[1:])
        picked = size_bytes(outputs)
        return _dma_work("gather", inputs, outputs, picked + indices, picked, _row_bytes(base, outputs))
    if base in kinds.SCATTER:
        return _scatter(op, inputs, outputs)
    if base in kinds.RANDOM:
        count = sum(map(elements, outputs))
        return Work(
            kind="random",
            engine="vector",
            dtype=_main_dtype(inputs, outputs),
            vector_elements=count,
            read_bytes=0 if is_in_place(op) else size_bytes(inputs),
            write_bytes=size_bytes(outputs),
        )
    return None


def _scatter(op: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work:
    """In place only the new values move; out of place the whole tensor is copied as well."""
    if is_in_place(op):
        values = size_bytes(inputs[-1:])
        return _dma_work("scatter", inputs, outputs, size_bytes(inputs[1:]), values)
    return _dma_work("scatter", inputs, outputs, size_bytes(inputs), size_bytes(outputs))


def _row_bytes(base: str, outputs: Sequence[Tensor]) -> int:
    """A gather of rows moves the last axis in one piece, a gather of elements one element."""
    if not outputs or not outputs[0].shape:
        return 0
    element = item_bytes(outputs[0].dtype)
    return element if base in kinds.GATHER_ELEMENTS else element * outputs[0].shape[-1]


def _dma_work(
    kind: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    read_bytes: int,
    write_bytes: int,
    row_bytes: int = 0,
) -> Work:
    return Work(
        kind=kind,
        engine="dma",
        dtype=_main_dtype(inputs, outputs),
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        row_bytes=row_bytes,
    )


# --- vector and scalar engines ---


def _element_operations(base: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work:
    widest = max(map(elements, (*inputs, *outputs)), default=0)
    if base in kinds.ELEMENTWISE:
        count = max(widest, sum(map(elements, outputs)))  # a foreach operator has many outputs
        return _engine_work("elementwise", kinds.ELEMENTWISE[base], count, inputs, outputs)
    if base in kinds.REDUCTION:
        return _engine_work("reduction", kinds.REDUCTION[base], widest, inputs, outputs)
    if base in kinds.ASSUMED_REDUCTION:
        return _engine_work("reduction", kinds.ASSUMED_REDUCTION[base], widest, inputs, outputs, assumed=True)
    if base in kinds.OPTIMIZER:
        parameters = sum(map(elements, inputs)) // 4  # parameters, gradients and two moments come together
        return _engine_work("optimizer", kinds.OPTIMIZER[base], parameters, inputs, outputs, assumed=True)
    return _engine_work("unknown", (1, 0), widest, inputs, outputs, assumed=True)


def _engine_work(
    kind: str,
    passes: tuple[int, int],
    count: int,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    assumed: bool = False,
) -> Work:
    vector, scalar = passes
    return Work(
        kind=kind,
        engine="vector" if vector >= scalar else "scalar",
        dtype=_main_dtype(inputs, outputs),
        vector_elements=vector * count,
        scalar_elements=scalar * count,
        read_bytes=size_bytes(inputs),
        write_bytes=size_bytes(outputs),
        assumed=assumed,
    )


def _main_dtype(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """The dtype that sets the engine's rate: of the widest tensor."""
    widest = max((*inputs, *outputs), key=elements, default=None)
    return widest.dtype if widest is not None else "float32"
