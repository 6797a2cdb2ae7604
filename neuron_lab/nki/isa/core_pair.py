"""The two cores of a logical core: barrier and exchange."""

from __future__ import annotations

from typing import Any

from neuron_lab.nki.enums import dma_engine, engine, member
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.meetings import meet
from neuron_lab.nki.run import Core
from neuron_lab.nki.storage import MemoryRegion
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read, write

_BARRIER = Opcode("core_barrier")
_SENDRECV = Opcode("sendrecv")

_GPSIMD_DMA_BYTES = {4: 1024, 2: 512, 1: 256}


def _pair(core: Core, opcode: Opcode) -> list[int]:
    if core.launch.lnc != 2:
        raise opcode.refuse(
            "needs two cores, this launch has one", "launch as kernel[2](…) or nki.simulate(kernel[2])", 1, 2
        )
    return [2 * core.rank, 2 * core.rank + 1]


def core_barrier(
    data: NkiTensor, cores: Any, engine: Any = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Both cores arrive before either goes on."""
    core = _BARRIER.begin(data=data)
    members = _pair(core, _BARRIER)
    if tuple(cores) != (0, 1):
        raise _BARRIER.refuse(f"cores={cores}", "use cores=(0, 1)", tuple(cores), (0, 1))
    if data.buffer is not MemoryRegion.shared_hbm:
        raise _BARRIER.refuse(f"data is in {data.buffer.value}", "synchronise on a shared_hbm tensor")
    meet(core, ("core_barrier", core.rank), members, None, "nisa.core_barrier")
    return _BARRIER.end(core, engine.name, (), (data,), name)


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: Any = dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send src to the other core and receive its src into dst."""
    core = _SENDRECV.begin(src=src, dst=dst)
    members = _pair(core, _SENDRECV)
    _check_sendrecv(src, dst, send_to_rank, recv_from_rank, dma_engine, core.program)
    key = ("sendrecv", core.rank, int(pipe_id))
    sent = meet(
        core, key, members, (read(src).copy(), src.shape, src.dtype), f"nisa.sendrecv pipe {int(pipe_id)}"
    )
    values, shape, dtype = sent[2 * core.rank + int(recv_from_rank)]
    if shape != dst.shape or dtype != dst.dtype:
        raise _SENDRECV.refuse(
            f"the other core sends {list(shape)} {dtype}, dst is {list(dst.shape)} {dst.dtype}",
            "make them equal",
        )
    write(dst, values)
    where = "gpsimd" if dma_engine.name == "gpsimd_dma" else "dma"
    return _SENDRECV.end(core, where, (dst,), (src,), name, {"pipe_id": int(pipe_id)})


def _check_sendrecv(src: NkiTensor, dst: NkiTensor, to: Any, source: Any, mover: Any, program: int) -> None:
    member(mover, dma_engine, "nisa.sendrecv", "dma_engine")
    if src.shape != dst.shape or src.dtype != dst.dtype:
        raise _SENDRECV.refuse(
            f"src is {list(src.shape)} {src.dtype}, dst {list(dst.shape)} {dst.dtype}",
            "make shape and dtype equal",
        )
    for label, rank in (("send_to_rank", to), ("recv_from_rank", source)):
        if int(rank) != 1 - program:
            raise _SENDRECV.refuse(
                f"{label}={int(rank)} on core {program}",
                f"use {1 - program}, the other core",
                int(rank),
                1 - program,
            )
    if mover is dma_engine.gpsimd_dma:
        limit = _GPSIMD_DMA_BYTES[src.dtype.itemsize]
        size = src.free_size * src.dtype.itemsize
        if size > limit:
            raise _SENDRECV.over("bytes per partition", size, limit, "gpsimd_dma", "use dma_engine.dma")
