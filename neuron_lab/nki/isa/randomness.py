"""Random bits, dropout and generator state. Values differ from the hardware's; states and seeds repeat them."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.enums import chosen_engine, engine
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.run import Core
from neuron_lab.nki.storage import MemoryRegion
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import rows, scalar_or_column, write

_RNG = Opcode("rng")
_DROPOUT = Opcode("dropout")
_SEED = Opcode("set_rng_seed")
_SET_STATE = Opcode("rand_set_state")
_GET_STATE = Opcode("rand_get_state")
_RAND2 = Opcode("rand2")

_STATE_WORDS = {"gpsimd": 6, "vector": 24}


def rng(dst: NkiTensor, engine: Any = engine.vector, name: str | None = None) -> NkiInstruction:
    """Random bits: 32 per element, of which the low ones stay."""
    core = _RNG.begin(dst=dst)
    where = chosen_engine(engine, "vector", ("vector", "gpsimd"), "nisa.rng")
    if where == "gpsimd" and (dst.buffer is MemoryRegion.psum or core.target.generation < 3):
        raise _RNG.refuse("GpSimd draws into SBUF only, from NeuronCore-v3 on", "use engine.vector")
    if not dst.dtype.is_integer:
        raise _RNG.refuse(f"dst is {dst.dtype}", "use an 8-, 16- or 32-bit integer dtype")
    stored = dtypes.STORED[dst.dtype]
    bits = core.random.bits(dst.shape).astype(np.dtype(f"u{stored.itemsize}")).view(stored)
    write(dst, bits)
    return _RNG.end(core, where, (dst,), (), name)


def dropout(dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None = None) -> NkiInstruction:
    """Each element becomes 0 with probability `prob`."""
    core = _DROPOUT.begin(dst=dst, data=data)
    _DROPOUT.same_rows(dst=dst, data=data)
    if dst.dtype != data.dtype:
        raise _DROPOUT.refuse(f"dst is {dst.dtype}, data {data.dtype}", "give both one dtype")
    probability = scalar_or_column(prob, data.shape[0], "nisa.dropout", "prob")
    values = rows(data).copy()
    values[core.random.uniform(values.shape) < probability] = 0
    write(dst, values)
    return _DROPOUT.end(core, "vector", (dst,), (data, prob), name)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed the vector engine's generator."""
    core = _SEED.begin(src_seeds=src_seeds)
    if src_seeds.size != 1 or src_seeds.dtype.itemsize != 4:
        raise _SEED.refuse(f"seed is {list(src_seeds.shape)} {src_seeds.dtype}", "pass a [1, 1] 32-bit tensor")
    core.random.seed(int(rows(src_seeds).view(np.uint32)[0, 0]))
    return _SEED.end(core, "vector", (), (src_seeds,), name)


def _state_engine(core: Core, opcode: Opcode, engine_: Any, tensor: NkiTensor) -> str:
    where = chosen_engine(engine_, "gpsimd", ("gpsimd", "vector"), f"nisa.{opcode.name}")
    if where == "vector" and core.target.generation < 4:
        raise opcode.refuse("the vector engine's state needs NeuronCore-v4", "use engine.gpsimd")
    words = _STATE_WORDS[where]
    if tensor.dtype != dtypes.uint32 or tensor.free_size != words:
        raise opcode.refuse(
            f"the state is {list(tensor.shape)} {tensor.dtype}, expected [P, {words}] uint32",
            f"allocate {words} columns",
            value=tensor.free_size,
            limit=words,
        )
    return where


def rand_set_state(
    src_seeds: NkiTensor, engine: Any = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Load the generator state of each lane."""
    core = _SET_STATE.begin(src_seeds=src_seeds)
    where = _state_engine(core, _SET_STATE, engine, src_seeds)
    core.random.load(where, rows(src_seeds))
    return _SET_STATE.end(core, where, (), (src_seeds,), name)


def rand_get_state(dst: NkiTensor, engine: Any = engine.gpsimd, name: str | None = None) -> NkiInstruction:
    """Store the generator state of each lane; loading it again repeats what follows."""
    core = _GET_STATE.begin(dst=dst)
    where = _state_engine(core, _GET_STATE, engine, dst)
    if dst.buffer is MemoryRegion.psum and (where == "gpsimd" or core.target.generation < 4):
        raise _GET_STATE.refuse("the state goes to SBUF", "allocate dst in SBUF")
    write(dst, core.random.store(where, dst.shape[0], _STATE_WORDS[where]))
    return _GET_STATE.end(core, where, (dst,), (), name)


def rand2(dst: NkiTensor, min: Any, max: Any, name: str | None = None) -> NkiInstruction:
    """Uniform float32 between two bounds (trn3)."""
    core = _RAND2.begin(dst=dst)
    low = scalar_or_column(min, dst.shape[0], "nisa.rand2", "min")
    high = scalar_or_column(max, dst.shape[0], "nisa.rand2", "max")
    if not np.all(low < high):
        raise _RAND2.refuse(f"min {min} is not below max {max}", "swap them")
    uniform = core.random.uniform((dst.shape[0], dst.free_size))
    write(dst, low + (high - low) * uniform)
    return _RAND2.end(core, "vector", (dst,), (min, max), name)
