"""The scalar engine: table functions with scale, bias and an accumulator; the vector engine's exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki import activations, alu, dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.enums import reduce_cmd
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.isa.accumulators import accumulate, read_out, scalar_register, vector_use
from neuron_lab.nki.run import Core
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows_float32, scalar_or_column, write

_ACTIVATION = Opcode("activation")
_ACTIVATION_REDUCE = Opcode("activation_reduce")
_ACTIVATE2 = Opcode("activate2")
_EXPONENTIAL = Opcode("exponential")

_PAIRS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
_REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = op(data * scale + bias)`; `reduce_cmd` adds the float32 results up per lane."""
    return _activation(_ACTIVATION, dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, name)


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """`activation` that always reduces into `reduce_res`."""
    command = reduce_cmd.reset_reduce
    return _activation(_ACTIVATION_REDUCE, dst, op, data, bias, scale, reduce_op, reduce_res, command, name)


def _activation(
    opcode: Opcode,
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Any,
    scale: Any,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    command: Any,
    name: str | None,
) -> NkiInstruction:
    where = f"nisa.{opcode.name}"
    core = opcode.begin(dst=dst, data=data)
    opcode.same_rows(dst=dst, data=data)
    function = alu.op_name(op, where, activations.NAMES)
    if reduce_op is not None:
        alu.op_name(reduce_op, where, ("add",))
    _check_bias(core, opcode, bias)
    values = rows_float32(data)
    if isinstance(scale, NkiTensor) or scale != 1.0:
        values = values * scalar_or_column(scale, data.shape[0], where, "scale")
    if bias is not None:
        values = values + scalar_or_column(bias, data.shape[0], where, "bias")
    _note_range(core, opcode, function, values)
    result = activations.apply(function, values)
    register = scalar_register(core)
    accumulate(register, command, "add", result, where)
    write(dst, result)
    read_out(register, reduce_res)
    return opcode.end(core, "scalar", (dst, reduce_res), (data, bias, scale), name, {"op": function})


def _note_range(core: Core, opcode: Opcode, function: str, values: Array) -> None:
    wrong = activations.outside_range(function, values)
    if wrong is not None:
        low, high = activations.RANGES[function]
        core.find(
            "outside the table's range",
            f"nisa.{opcode.name}(op=nl.{function}) has inputs outside the documented magnitudes {low:g} to "
            f"{high:g}; the hardware's result is undefined there",
        )


def _check_bias(core: Core, opcode: Opcode, bias: Any) -> None:
    if bias is None:
        return
    if not isinstance(bias, NkiTensor):
        if core.target.generation < 3:
            raise opcode.refuse("a number as bias needs NeuronCore-v3", "pass a [P, 1] tensor")
    elif bias.dtype == dtypes.tfloat32:
        raise opcode.refuse("bias is tfloat32", "make it float32")


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = op((data op0 imm0) op1 imm1)` with more reductions (trn3)."""
    where = "nisa.activate2"
    core = _ACTIVATE2.begin(dst=dst, data=data)
    _ACTIVATE2.same_rows(dst=dst, data=data)
    function = alu.op_name(op, where, activations.NAMES)
    pair = _pair(op0, op1, reverse0, reverse1, imm0, imm1)
    reducer = "add" if reduce_op is None else alu.op_name(reduce_op, where, _REDUCTIONS)
    values = rows_float32(data)
    for step, imm, reverse in zip(pair, (imm0, imm1), (reverse0, reverse1), strict=True):
        if step != "bypass":
            other = scalar_or_column(imm, data.shape[0], where, "imm0 or imm1")
            values = np.asarray(alu.arithmetic(step, values, other, reverse))
    _note_range(core, _ACTIVATE2, function, values)
    slope = scalar_or_column(relu_param, data.shape[0], where, "relu_param")
    result = activations.apply(function, values, slope)
    register = scalar_register(core)
    accumulate(register, reduce_cmd, reducer, result, where)
    write(dst, result)
    read_out(register, reduce_res)
    return _ACTIVATE2.end(
        core, "scalar", (dst, reduce_res), (data, imm0, imm1, relu_param), name, {"op": function}
    )


def _pair(op0: Any, op1: Any, reverse0: bool, reverse1: bool, imm0: Any, imm1: Any) -> tuple[str, str]:
    first = "bypass" if op0 is None else alu.op_name(op0, "nisa.activate2")
    second = "bypass" if op1 is None else alu.op_name(op1, "nisa.activate2")
    if (first, second) not in _PAIRS:
        raise _ACTIVATE2.refuse(
            f"op0 nl.{first} with op1 nl.{second}", f"use one of {', '.join('/'.join(pair) for pair in _PAIRS)}"
        )
    if (reverse0 and first == "bypass") or (reverse1 and second == "bypass"):
        raise _ACTIVATE2.refuse("a reverse flag without its operator", "leave the flag out")
    if isinstance(imm0, NkiTensor) and isinstance(imm1, NkiTensor) and imm0.dtype != imm1.dtype:
        raise _ACTIVATE2.refuse(f"imm0 is {imm0.dtype} and imm1 {imm1.dtype}", "give both one dtype")
    return first, second


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Any = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = exp(src - max_value)` on the vector engine (trn3)."""
    where = "nisa.exponential"
    core = _EXPONENTIAL.begin(dst=dst, src=src)
    _EXPONENTIAL.same_rows(dst=dst, src=src)
    _check_exponential(dst, src, reduce_cmd, reduce_init)
    with np.errstate(over="ignore"):
        result = np.exp(rows_float32(src) - scalar_or_column(max_value, src.shape[0], where, "max_value"))
    register = vector_use(core, reduce_cmd, where)
    start = scalar_or_column(reduce_init, src.shape[0], where, "reduce_init")
    accumulate(register, reduce_cmd, "add", result, where, start)
    write(dst, result)
    read_out(register, reduce_res)
    return _EXPONENTIAL.end(core, "vector", (dst, reduce_res), (src, max_value, reduce_init), name)


def _check_exponential(dst: NkiTensor, src: NkiTensor, command: Any, start: Any) -> None:
    if command is not reduce_cmd.load_reduce and (isinstance(start, NkiTensor) or start != 0.0):
        raise _EXPONENTIAL.refuse("reduce_init without reduce_cmd.load_reduce", "use load_reduce")
    if max(dst.ndim, src.ndim) > 4:
        raise _EXPONENTIAL.over("rank", max(dst.ndim, src.ndim), 4, "access pattern", "flatten free axes")
    if src.dtype == dtypes.tfloat32 or dst.dtype == dtypes.uint32:
        raise _EXPONENTIAL.refuse(f"src {src.dtype} into dst {dst.dtype}", "use float32")
