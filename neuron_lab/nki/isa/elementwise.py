"""Element by element on the vector engine (and GpSimd): two tensors, tensor and scalar, scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki import alu, dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.enums import chosen_engine, engine, reduce_cmd
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.isa.accumulators import accumulate, read_out, vector_use
from neuron_lab.nki.run import Core
from neuron_lab.nki.storage import MemoryRegion
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows, rows_float32, scalar_or_column, write

_TENSOR_TENSOR = Opcode("tensor_tensor")
_TENSOR_SCALAR = Opcode("tensor_scalar")
_SCALAR_TENSOR_TENSOR = Opcode("scalar_tensor_tensor")
_TENSOR_SCALAR_REDUCE = Opcode("tensor_scalar_reduce")
_CUMULATIVE = Opcode("tensor_scalar_cumulative")
_SCAN = Opcode("tensor_tensor_scan")
_RECIPROCAL = Opcode("reciprocal")

_PSUM = MemoryRegion.psum
_NATIVE = frozenset({dtypes.int32, dtypes.uint32})
_BINARY = (*alu.ARITHMETIC, *alu.BITWISE)
_SCALAR_OPS = (*alu.ARITHMETIC, *alu.UNARY, *alu.BITWISE, "invert", "bypass")
_V4_ONLY = frozenset({"abs_max", "abs_min"})
_V4_TENSOR_SCALAR = frozenset({"square", "relu", "abs_max", "abs_min"})
_REDUCE_OPS = ("add", "multiply", "maximum", "minimum")


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = data1 op data2`."""
    core = _TENSOR_TENSOR.begin(dst=dst, data1=data1, data2=data2)
    op_ = alu.op_name(op, "nisa.tensor_tensor", _BINARY)
    _TENSOR_TENSOR.same_rows(dst=dst, data1=data1, data2=data2)
    _not_both_in_psum(_TENSOR_TENSOR, data1=data1, data2=data2)
    _check_generation(core, _TENSOR_TENSOR, op_, _V4_ONLY)
    where = _tensor_tensor_engine(dst, data1, data2, op_, engine)
    if alu.is_bitwise(op_):
        _integers_only(_TENSOR_TENSOR, dst=dst, data1=data1, data2=data2)
        values = alu.bitwise(op_, rows(data1), rows(data2))
    elif where == "gpsimd" and {data1.dtype, data2.dtype, dst.dtype} <= _NATIVE:
        values = _native_integers(op_, rows(data1), rows(data2), dst)
    else:
        values = alu.arithmetic(op_, rows_float32(data1), rows_float32(data2))
    write(dst, values)
    return _TENSOR_TENSOR.end(core, where, (dst,), (data1, data2), name, {"op": op_})


def _tensor_tensor_engine(dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op: str, engine: Any) -> str:
    in_psum = _PSUM in {dst.buffer, data1.buffer, data2.buffer}
    native = {data1.dtype, data2.dtype, dst.dtype} <= _NATIVE and not alu.is_bitwise(op)
    default = "gpsimd" if op == "power" or (native and not in_psum) else "vector"
    where = chosen_engine(engine, default, ("vector", "gpsimd"), "nisa.tensor_tensor")
    if op == "power" and where != "gpsimd":
        raise _TENSOR_TENSOR.refuse("nl.power runs on GpSimd", "leave engine out, or use engine.gpsimd")
    if where == "gpsimd" and in_psum:
        raise _TENSOR_TENSOR.refuse("GpSimd does not reach PSUM", "copy the operand to SBUF")
    return where


def _native_integers(op: str, a: Array, b: Array, dst: NkiTensor) -> Array:
    """32-bit integer arithmetic that wraps; comparisons give 0 or 1."""
    kind = dtypes.STORED[dst.dtype]
    with np.errstate(all="ignore"):
        if op == "power":
            result = np.power(a.astype(np.float64), b.astype(np.float64))
        else:
            result = alu.ARITHMETIC[op](a.astype(np.int64), b.astype(np.int64))
        return np.asarray(result).astype(np.int64).astype(np.uint32).view(kind)


def _not_both_in_psum(opcode: Opcode, **inputs: NkiTensor) -> None:
    if all(tensor.buffer is _PSUM for tensor in inputs.values()):
        raise opcode.refuse(f"{' and '.join(inputs)} are both in PSUM", "copy one of them to SBUF first")


def _check_generation(core: Core, opcode: Opcode, op: str, newer: frozenset[str]) -> None:
    if op in newer and core.target.generation < 4:
        raise opcode.refuse(
            f"nl.{op} needs NeuronCore-v4, the target is {core.target.chip}",
            "combine other operators",
            op,
            "v4",
        )


def _integers_only(opcode: Opcode, **tensors: NkiTensor) -> None:
    for label, tensor in tensors.items():
        if not (tensor.dtype.is_integer or tensor.dtype.is_packed):
            raise opcode.refuse(
                f"a bit-pattern operator with {label} of {tensor.dtype}",
                "view it as an integer dtype of the same size",
                value=tensor.dtype,
                limit="integers",
            )


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = (data op0 operand0) op1 operand1`; operands are numbers or [P, 1] tensors."""
    core = _TENSOR_SCALAR.begin(dst=dst, data=data)
    _TENSOR_SCALAR.same_rows(dst=dst, data=data)
    first = alu.op_name(op0, "nisa.tensor_scalar", _SCALAR_OPS)
    second = "bypass" if op1 is None else alu.op_name(op1, "nisa.tensor_scalar", _SCALAR_OPS)
    for op in (first, second):
        _check_generation(core, _TENSOR_SCALAR, op, _V4_TENSOR_SCALAR)
    where = _tensor_scalar_engine(core, dst, data, first, second, engine)
    steps = ((first, operand0, reverse0), (second, operand1, reverse1))
    bits = _bit_class(first, second)
    values: Array = rows(data) if bits else rows_float32(data)
    if bits:
        _integers_only(_TENSOR_SCALAR, dst=dst, data=data)
    for op, operand, reverse in steps:
        values = _step(values, op, operand, reverse, bits, data.shape[0])
    write(dst, values)
    return _TENSOR_SCALAR.end(
        core, where, (dst,), (data, operand0, operand1), name, {"op": first, "op1": second}
    )


def _bit_class(first: str, second: str) -> bool:
    bits = [alu.is_bitwise(op) for op in (first, second) if op != "bypass"]
    if len(set(bits)) > 1:
        raise _TENSOR_SCALAR.refuse(
            f"nl.{first} with nl.{second}: arithmetic and bit-pattern operators do not mix",
            "use two instructions",
        )
    return any(bits)


def _step(values: Array, op: str, operand: Any, reverse: bool, bits: bool, partitions: int) -> Array:
    if op == "bypass":
        return values
    if bits:
        other = rows(operand) if isinstance(operand, NkiTensor) else operand
        return alu.bitwise(op, values, other, reverse)
    if op in alu.UNARY:
        if operand is not None and not isinstance(operand, NkiTensor) and operand != 0:
            raise _TENSOR_SCALAR.refuse(f"nl.{op} with operand {operand}", "pass None or 0")
        return np.asarray(alu.arithmetic(op, values, None))
    if operand is None:
        raise _TENSOR_SCALAR.refuse(f"nl.{op} without its operand", "pass a number or a [P, 1] tensor")
    if isinstance(operand, NkiTensor) and operand.dtype != dtypes.float32:
        raise _TENSOR_SCALAR.refuse(
            f"an operand tensor of {operand.dtype}", "make it nl.float32", operand.dtype, dtypes.float32
        )
    other = scalar_or_column(operand, partitions, "nisa.tensor_scalar", "an operand")
    return np.asarray(alu.arithmetic(op, values, other, reverse))


def _tensor_scalar_engine(
    core: Core, dst: NkiTensor, data: NkiTensor, first: str, second: str, engine: Any
) -> str:
    default = "gpsimd" if first == "rsqrt" else "vector"
    where = chosen_engine(engine, default, ("vector", "scalar", "gpsimd"), "nisa.tensor_scalar")
    if where == "gpsimd" and _PSUM in {dst.buffer, data.buffer}:
        raise _TENSOR_SCALAR.refuse("GpSimd does not reach PSUM", "copy the operand to SBUF")
    if where == "scalar" and core.target.generation < 4:
        allowed = {("multiply", "add"), ("multiply", "bypass"), ("add", "bypass")}
        if core.target.generation < 3 or (first, second) not in allowed:
            raise _TENSOR_SCALAR.refuse(
                f"nl.{first} then nl.{second} on the scalar engine of {core.target.chip}", "use engine.vector"
            )
    return where


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = (data op0 operand0) op1 operand1` with operand1 a tensor."""
    core = _SCALAR_TENSOR_TENSOR.begin(dst=dst, data=data, operand1=operand1)
    _SCALAR_TENSOR_TENSOR.same_rows(dst=dst, data=data, operand1=operand1)
    _not_both_in_psum(_SCALAR_TENSOR_TENSOR, data=data, operand1=operand1)
    allowed = (*alu.ARITHMETIC, *alu.UNARY)
    first = alu.op_name(op0, "nisa.scalar_tensor_tensor", allowed)
    second = alu.op_name(op1, "nisa.scalar_tensor_tensor", tuple(alu.ARITHMETIC))
    scalar = 0.0 if operand0 is None else operand0
    other = scalar_or_column(scalar, data.shape[0], "nisa.scalar_tensor_tensor", "operand0")
    inner = alu.arithmetic(first, rows_float32(data), other, reverse0)
    write(dst, alu.arithmetic(second, inner, rows_float32(operand1), reverse1))
    return _SCALAR_TENSOR_TENSOR.end(
        core, "vector", (dst,), (data, operand0, operand1), name, {"op": first, "op1": second}
    )


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """`1 / data` in float32."""
    core = _RECIPROCAL.begin(dst=dst, data=data)
    _RECIPROCAL.same_rows(dst=dst, data=data)
    write(dst, alu.arithmetic("reciprocal", rows_float32(data), None))
    return _RECIPROCAL.end(core, "vector", (dst,), (data,), name)


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = data op0 operand0`, and its reduction over the free axes in the vector engine's register."""
    where = "nisa.tensor_scalar_reduce"
    core = _TENSOR_SCALAR_REDUCE.begin(dst=dst, data=data)
    _TENSOR_SCALAR_REDUCE.same_rows(dst=dst, data=data)
    op = alu.op_name(op0, where, (*alu.ARITHMETIC, *alu.UNARY))
    reducer = alu.op_name(reduce_op, where, _REDUCE_OPS)
    if reverse0:
        raise _TENSOR_SCALAR_REDUCE.refuse("reverse0 is not supported yet", "swap the operands another way")
    _load_needs_start(_TENSOR_SCALAR_REDUCE, reduce_cmd, reduce_init)
    other = None if operand0 is None else scalar_or_column(operand0, data.shape[0], where, "operand0")
    values = np.asarray(alu.arithmetic(op, rows_float32(data), other))
    register = vector_use(core, reduce_cmd, where)
    start = 0.0 if reduce_init is None else scalar_or_column(reduce_init, data.shape[0], where, "reduce_init")
    accumulate(register, reduce_cmd, reducer, values, where, start)
    write(dst, values)
    read_out(register, reduce_res, reduce_res_negate)
    return _TENSOR_SCALAR_REDUCE.end(core, "vector", (dst, reduce_res), (data, operand0, reduce_init), name)


def _load_needs_start(opcode: Opcode, command: Any, start: Any) -> None:
    if start is not None and command is not reduce_cmd.load_reduce:
        raise opcode.refuse(
            "reduce_init without reduce_cmd.load_reduce", "use load_reduce, or leave reduce_init out"
        )


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """Running `acc = op1(op0(x, imm0), acc)` along the free axes."""
    where = "nisa.tensor_scalar_cumulative"
    core = _CUMULATIVE.begin(dst=dst, src=src)
    _CUMULATIVE.same_rows(dst=dst, src=src)
    if _NATIVE & {src.dtype, dst.dtype}:
        raise _CUMULATIVE.refuse("32-bit integers", "use float32, or 16-bit integers")
    first = alu.op_name(op0, where, (*alu.ARITHMETIC, *alu.UNARY, "bypass"))
    second = alu.op_name(op1, where, ("add", "subtract", "multiply", "maximum", "minimum"))
    other = scalar_or_column(imm0, src.shape[0], where, "imm0")
    values = np.asarray(alu.arithmetic(first, rows_float32(src), other), np.float32)
    register = vector_use(core, reduce_cmd, where)
    lanes = _cumulative_start(register, reduce_cmd, second, imm1, src.shape[0])
    result = _running(second, values, lanes)
    register[: src.shape[0]] = result[:, -1]
    write(dst, result)
    return _CUMULATIVE.end(core, "vector", (dst,), (src, imm0, imm1), name)


def _cumulative_start(register: Array, command: Any, op: str, imm1: Any, partitions: int) -> Array:
    if command is reduce_cmd.load_reduce:
        if imm1 is None:
            raise _CUMULATIVE.refuse("load_reduce without imm1", "pass the start value as imm1")
        start = scalar_or_column(imm1, partitions, "nisa.tensor_scalar_cumulative", "imm1")
        return np.broadcast_to(np.reshape(start, (-1, 1)), (partitions, 1))
    if command is reduce_cmd.reset_reduce:
        return np.full((partitions, 1), alu.REDUCERS[op][1], np.float32)
    if command is reduce_cmd.reduce:
        return register[:partitions].reshape(-1, 1).copy()
    raise _CUMULATIVE.refuse(f"{command!r}", "use reset_reduce, load_reduce or reduce")


def _running(op: str, values: Array, start: Array) -> Array:
    """`acc = op(x, acc)`: for subtract that alternates signs, so it runs step by step."""
    with np.errstate(all="ignore"):
        if op != "subtract":
            joined = np.concatenate([start.astype(np.float32), values], axis=1)
            ufunc: np.ufunc = alu.REDUCERS[op][0]
            return np.asarray(ufunc.accumulate(joined, axis=1))[:, 1:]
        result = np.empty_like(values)
        state = start[:, 0]
        for column in range(values.shape[1]):
            state = values[:, column] - state
            result[:, column] = state
        return result


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """`r = op1(op0(data0[i], r), data1[i])` along the free axes from `initial`, state in float32."""
    where = "nisa.tensor_tensor_scan"
    core = _SCAN.begin(dst=dst, data0=data0, data1=data1)
    _SCAN.same_rows(dst=dst, data0=data0, data1=data1)
    _not_both_in_psum(_SCAN, data0=data0, data1=data1)
    first = alu.op_name(op0, where, tuple(alu.ARITHMETIC))
    second = alu.op_name(op1, where, tuple(alu.ARITHMETIC))
    start = scalar_or_column(initial, dst.shape[0], where, "initial")
    a, b = rows_float32(data0).T.copy(), rows_float32(data1).T.copy()
    state = np.broadcast_to(np.reshape(start, -1), (dst.shape[0],)).astype(np.float32)
    result = np.empty_like(a)
    for step in range(len(a)):
        inner = alu.arithmetic(first, a[step], state, reverse0)
        state = result[step] = alu.arithmetic(second, inner, b[step], reverse1)
    write(dst, result.T)
    return _SCAN.end(core, "vector", (dst,), (data0, data1, initial), name, {"op": first, "op1": second})
