"""One float32 per lane in the scalar engine, and one set in the vector engine that instructions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki.alu import REDUCERS
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.enums import member, reduce_cmd
from neuron_lab.nki.run import Core
from neuron_lab.nki.target import PARTITIONS
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import write


def scalar_register(core: Core) -> Array:
    if core.scalar_accumulator is None:
        core.scalar_accumulator = np.zeros(PARTITIONS, np.float32)
    return core.scalar_accumulator


def vector_register(core: Core) -> Array:
    if core.vector_accumulator is None:
        core.vector_accumulator = np.zeros(PARTITIONS, np.float32)
    return core.vector_accumulator


def accumulate(
    register: Array,
    command: Any,
    reducer: str,
    values: Array,
    operation: str,
    start: Any = 0.0,
) -> None:
    """Apply one reduce command; `values` are (partitions, elements) in float32, `start` is load_reduce's."""
    member(command, reduce_cmd, operation, "reduce_cmd")
    if command is reduce_cmd.idle:
        return
    ufunc, identity = REDUCERS.get(reducer, (np.maximum, -np.inf))
    lanes = register[: values.shape[0]]
    if command is reduce_cmd.reset:
        lanes[...] = identity
        return
    if command is reduce_cmd.reset_reduce:
        lanes[...] = identity
    elif command is reduce_cmd.load_reduce:
        lanes[...] = np.reshape(start, -1)
    with np.errstate(all="ignore"):
        lanes[...] = combine(reducer, ufunc, lanes, values)


def combine(reducer: str, ufunc: np.ufunc, lanes: Array, values: Array) -> Array:
    if reducer in {"abs_max", "abs_min"}:
        best = np.abs(values).max(axis=1) if reducer == "abs_max" else np.abs(values).min(axis=1)
        pick = np.maximum if reducer == "abs_max" else np.minimum
        return np.asarray(pick(np.abs(lanes), best))
    total = ufunc.reduce(values, axis=1)
    return np.asarray(lanes - total if reducer == "subtract" else ufunc(lanes, total))


def read_out(register: Array, reduce_res: NkiTensor | None, negate: bool = False) -> None:
    if reduce_res is not None:
        lanes = register[: reduce_res.shape[0]].reshape(-1, 1)
        write(reduce_res, -lanes if negate else lanes)


def vector_use(core: Core, command: Any, operation: str) -> Array:
    """The vector engine's register; `idle` may clobber it, so a later `reduce` is suspicious."""
    if command is reduce_cmd.idle:
        core.vector_accumulator_lost = True
    elif command is reduce_cmd.reduce and core.vector_accumulator_lost:
        core.find(
            "reduce after idle",
            f"{operation} continues a reduction, but an instruction with reduce_cmd.idle came between and may "
            "have changed the register; keep reductions together",
        )
    else:
        core.vector_accumulator_lost = False
    return vector_register(core)
