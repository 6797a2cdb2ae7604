"""Registers of the sequencer: allocate, move, load, store."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.registers import VirtualRegister, integer
from neuron_lab.nki.run import current
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read, write

_MOVE = Opcode("register_move")
_LOAD = Opcode("register_load")
_STORE = Opcode("register_store")
for _opcode in (_LOAD, _STORE):
    _opcode.is_dma = True  # one element anywhere: no partition rule


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register; without a value it must be written before it is read."""
    current()
    return VirtualRegister(None if x is None else integer(x))


def register_move(dst: VirtualRegister, src: Any) -> NkiInstruction:
    """`dst = src`, a number or a register."""
    core = _MOVE.begin()
    dst.move("nisa.register_move", integer(src))
    return _MOVE.end(core, "sequencer", (), ())


def register_load(dst: VirtualRegister, src: NkiTensor) -> NkiInstruction:
    """`dst =` the one element of src."""
    core = _LOAD.begin(src=src)
    _one(_LOAD, src)
    dst.move("nisa.register_load", int(read(src).reshape(-1)[0]))
    return _LOAD.end(core, "sequencer", (), (src,))


def register_store(dst: NkiTensor, src: VirtualRegister) -> NkiInstruction:
    """The one element of dst `= src`."""
    core = _STORE.begin(dst=dst)
    _one(_STORE, dst)
    write(dst, np.full(dst.shape, integer(src), np.int64))
    return _STORE.end(core, "sequencer", (dst,), ())


def _one(opcode: Opcode, tensor: NkiTensor) -> None:
    if tensor.size != 1:
        raise opcode.refuse(
            f"{list(tensor.shape)} has {tensor.size} elements", "slice one element", tensor.size, 1
        )
