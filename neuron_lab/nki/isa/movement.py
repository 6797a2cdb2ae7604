"""Moving data: DMA copies and transposes, on-chip copies and fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuron_lab.nki import dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.enums import chosen_engine, dge_mode, engine, member, oob_mode
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.run import Core
from neuron_lab.nki.storage import HBM, MemoryRegion
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.values import read, resolved, rows, rows_float32, write

_DMA_COPY = Opcode("dma_copy")
_DMA_TRANSPOSE = Opcode("dma_transpose")
_DMA_COMPUTE = Opcode("dma_compute")
_TENSOR_COPY = Opcode("tensor_copy")
_MEMSET = Opcode("memset")
_PREDICATED = Opcode("tensor_copy_predicated")

_MAX_DMA_SOURCES = 16
_HWDGE_TRANSPOSE_COLUMNS = 128
_TRANSPOSE_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: Any = oob_mode.error,
    dge_mode: Any = dge_mode.unknown,
    engine: Any = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = src` in row-major order of the two views; different dtypes convert through float32."""
    core = _DMA_COPY.begin(dst=dst, src=src)
    _check_dge(core, _DMA_COPY, (dst, src), dge_mode, engine)
    _check_priority(core, _DMA_COPY, priority)
    skipping = _skips(_DMA_COPY, oob_mode, (dst, src))
    if dst.size != src.size:
        raise _DMA_COPY.refuse(
            f"dst {list(dst.shape)} has {dst.size} elements, src {list(src.shape)} has {src.size}",
            "slice both to the same number of elements",
            value=src.size,
            limit=dst.size,
        )
    values = read(src, skipping)
    skip = ~resolved(src)[1] if skipping and src.indirection is not None else None
    write(dst, values, _fitted(skip, dst), skipping)
    return _DMA_COPY.end(core, "dma", (dst,), (src,), name, _queue_choice(dge_mode, engine))


def _fitted(skip: Array | None, dst: NkiTensor) -> Array | None:
    return None if skip is None else skip.reshape(dst.shape)


def _queue_choice(mode: Any, queue: Any) -> dict[str, str] | None:
    if mode is dge_mode.unknown and queue is engine.unknown:
        return None
    return {"dge_mode": mode.name, "queue": queue.name}


def _skips(opcode: Opcode, mode: Any, tensors: Sequence[NkiTensor]) -> bool:
    member(mode, oob_mode, f"nisa.{opcode.name}", "oob_mode")
    return mode is oob_mode.skip and any(tensor.indirection is not None for tensor in tensors)


def _check_priority(core: Core, opcode: Opcode, priority: int | None) -> None:
    if priority is None:
        return
    if core.target.generation < 4:
        raise opcode.refuse(
            f"priority={priority} needs NeuronCore-v4, the target is {core.target.chip}", "leave priority out"
        )
    if not 0 <= priority <= 3:
        raise opcode.refuse(f"priority is {priority}, the limit is 3", "use 0 to 3", value=priority, limit=3)


def _check_dge(core: Core, opcode: Opcode, tensors: Sequence[NkiTensor], mode: Any, queue: Any) -> None:
    where = f"nisa.{opcode.name}"
    member(mode, dge_mode, where, "dge_mode")
    member(queue, engine, where, "engine")
    by_row = any(t.indirection is not None and t.indirection.kind == "vector" for t in tensors)
    if by_row and mode in {dge_mode.none, dge_mode.hwdge}:
        raise opcode.refuse(f"vector_offset with dge_mode.{mode.name}", "use dge_mode.swdge or leave it out")
    if mode is not dge_mode.hwdge:
        if queue is not engine.unknown:
            raise opcode.refuse(f"engine.{queue.name} without hwdge", "add dge_mode=dge_mode.hwdge")
        return
    if core.target.generation < 3:
        raise opcode.refuse("hwdge needs NeuronCore-v3, the target is trn1", "use dge_mode.swdge")
    if queue not in {engine.sync, engine.scalar, engine.unknown}:
        raise opcode.refuse(f"hwdge on engine.{queue.name}", "use engine.sync or engine.scalar")
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise opcode.refuse(
            f"hwdge does not convert {tensors[1].dtype} to {tensors[0].dtype}", "use dge_mode.swdge"
        )


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: Any = dge_mode.unknown,
    oob_mode: Any = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """`dst = src.transpose(axes)` while moving; an indirect source orders its rows first."""
    core = _DMA_TRANSPOSE.begin(dst=dst, src=src)
    _check_priority(core, _DMA_TRANSPOSE, priority)
    order = _transpose_axes(src, axes)
    _check_transpose(src, dst, order, dge_mode)
    skipping = _skips(_DMA_TRANSPOSE, oob_mode, (src,))
    values = _ordered_rows(src, skipping) if _by_row(src) else (read(src, skipping), None)
    moved, skip = values
    write(dst, moved.transpose(order), None if skip is None else skip.transpose(order))
    return _DMA_TRANSPOSE.end(core, "dma", (dst,), (src,), name)


def _by_row(tensor: NkiTensor) -> bool:
    return tensor.indirection is not None and tensor.indirection.kind == "vector"


def _transpose_axes(src: NkiTensor, axes: Sequence[int] | None) -> tuple[int, ...]:
    expected = _TRANSPOSE_AXES.get(src.ndim)
    if expected is None or (axes is not None and tuple(axes) != expected):
        raise _DMA_TRANSPOSE.refuse(
            f"axes {axes} of a source with {src.ndim} axes",
            "use (1, 0), (2, 1, 0) or (3, 1, 2, 0)",
            value=axes,
            limit=expected,
        )
    return expected


def _check_transpose(src: NkiTensor, dst: NkiTensor, order: tuple[int, ...], mode: Any) -> None:
    member(mode, dge_mode, "nisa.dma_transpose", "dge_mode")
    wanted = tuple(src.shape[axis] for axis in order)
    if dst.shape != wanted:
        raise _DMA_TRANSPOSE.refuse(
            f"dst is {list(dst.shape)}, the transposed source is {list(wanted)}",
            "give dst exactly that shape",
            value=dst.shape,
            limit=wanted,
        )
    if src.dtype != dst.dtype or src.dtype.itemsize not in {2, 4}:
        raise _DMA_TRANSPOSE.refuse(
            f"src is {src.dtype} and dst is {dst.dtype}; both must be one 2- or 4-byte dtype",
            "cast before or after",
        )
    if mode is dge_mode.hwdge and (src.dtype.itemsize != 2 or src.shape[-1] > _HWDGE_TRANSPOSE_COLUMNS):
        raise _DMA_TRANSPOSE.refuse(
            f"hwdge takes 2-byte dtypes and at most {_HWDGE_TRANSPOSE_COLUMNS} columns, found {src.dtype} and "
            f"{src.shape[-1]}",
            "use dge_mode.swdge, or smaller tiles",
            value=src.shape[-1],
            limit=_HWDGE_TRANSPOSE_COLUMNS,
        )


def _ordered_rows(src: NkiTensor, skipping: bool) -> tuple[Array, Array | None]:
    """Rows in the order of the index tensor read column by column."""
    indirection = src.indirection
    assert indirection is not None
    index = rows(indirection.index).T.reshape(-1)[: src.shape[0]].reshape(-1, 1)
    where, inside = indirection.positions(src, index)
    if not inside.all() and not skipping:
        raise _DMA_TRANSPOSE.refuse(
            f"an index outside 0–{indirection.limit - 1}", "correct it, or pass oob_mode=oob_mode.skip"
        )
    return src.storage.flat(src.dtype)[where], ~inside if skipping else None


def dma_compute(
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Any,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: Any = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Sum of the sources in float32 while moving; with an indirect side, add into or from chosen rows."""
    core = _DMA_COMPUTE.begin(dst=dst)
    _check_sources(dst, srcs, reduce_op, scales, unique_indices)
    skipping = _skips(_DMA_COMPUTE, oob_mode, (dst, *srcs))
    if oob_mode.name == "skip" and not skipping:
        raise _DMA_COMPUTE.refuse("oob_mode.skip without an indirect operand", "leave oob_mode out")
    total: Any = np.float32(0)
    skip: Any = None
    for src in srcs:
        total = total + rows_or_flat(src, skipping).reshape(dst.shape)
        if skipping and src.indirection is not None:
            outside = ~resolved(src)[1].reshape(dst.shape)
            skip = outside if skip is None else skip | outside
    write(dst, total, skip, skipping)
    return _DMA_COMPUTE.end(core, "dma", (dst,), tuple(srcs), name)


def rows_or_flat(src: NkiTensor, skipping: bool) -> Array:
    """Stored values as float32, out-of-range elements included (they are skipped later)."""
    from neuron_lab.nki.casts import to_float32

    return to_float32(read(src, skipping))


def _check_sources(dst: NkiTensor, srcs: Any, reduce_op: Any, scales: Any, unique: bool) -> None:
    from neuron_lab.nki.alu import op_name

    op_name(reduce_op, "nisa.dma_compute", ("add",))
    if len(srcs) > _MAX_DMA_SOURCES:
        raise _DMA_COMPUTE.over(
            "number of sources", len(srcs), _MAX_DMA_SOURCES, "dma_compute", "sum in two steps"
        )
    if scales is not None and any(scale != 1.0 for scale in scales):
        raise _DMA_COMPUTE.refuse(f"scales={list(scales)}; only 1.0 is taken", "scale on the vector engine")
    if not unique:
        raise _DMA_COMPUTE.refuse("unique_indices=False", "make the indices unique, or add row by row")
    for src in srcs:
        if not isinstance(src, NkiTensor) or src.buffer is MemoryRegion.psum:
            raise _DMA_COMPUTE.refuse("a source is no tensor in HBM or SBUF", "copy it there first")
        if src.size != dst.size:
            raise _DMA_COMPUTE.refuse(
                f"a source has {src.size} elements, dst has {dst.size}", "slice both alike", src.size, dst.size
            )
    if _by_row(dst) and len(srcs) != 2:
        raise _DMA_COMPUTE.refuse(
            f"{len(srcs)} sources with an indirect dst", "give two: the view itself and the data"
        )


def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: Any = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """`dst = src`, bit for bit between equal dtypes."""
    core = _TENSOR_COPY.begin(dst=dst, src=src)
    where = chosen_engine(engine, "vector", ("vector", "scalar", "gpsimd"), "nisa.tensor_copy")
    on_psum = MemoryRegion.psum in {dst.buffer, src.buffer}
    if where == "gpsimd" and on_psum:
        raise _TENSOR_COPY.refuse("GpSimd does not reach PSUM", "use engine.vector or engine.scalar")
    if where == "scalar" and core.target.generation < 3:
        raise _TENSOR_COPY.refuse("the scalar engine copies from NeuronCore-v3 on", "use engine.vector")
    _TENSOR_COPY.same_rows(dst=dst, src=src)
    write(dst, read(src))
    return _TENSOR_COPY.end(core, where, (dst,), (src,), name)


def memset(dst: NkiTensor, value: Any, engine: Any = engine.unknown, name: str | None = None) -> NkiInstruction:
    """Fill with a constant."""
    core = _MEMSET.begin(dst=dst)
    where = chosen_engine(engine, "vector", ("vector", "gpsimd"), "nisa.memset")
    if where == "gpsimd" and dst.buffer is MemoryRegion.psum:
        raise _MEMSET.refuse("GpSimd does not reach PSUM", "use engine.vector")
    _check_fill(dst, value)
    filled = np.full(dst.shape, value, _fill_type(dst))
    write(dst, filled)
    return _MEMSET.end(core, where, (dst,), (), name, {"zero": value == 0})


def _fill_type(dst: NkiTensor) -> Any:
    return np.int64 if dst.dtype.is_integer or dst.dtype.is_packed else np.float32


def _check_fill(dst: NkiTensor, value: Any) -> None:
    if dst.dtype.is_integer and isinstance(value, float):
        raise _MEMSET.refuse(
            f"the float {value} into {dst.dtype}", f"write {int(value)}", value=value, limit="int"
        )
    if dst.dtype.is_packed and value != 0:
        raise _MEMSET.refuse(
            f"{value} into packed {dst.dtype}", "only 0 fills a packed dtype", value=value, limit=0
        )


def tensor_copy_predicated(
    dst: NkiTensor, src: Any, predicate: NkiTensor, reverse_pred: bool = False, name: str | None = None
) -> NkiInstruction:
    """Copy where the predicate is not zero; elsewhere dst keeps its value."""
    core = _PREDICATED.begin(dst=dst, predicate=predicate)
    if predicate.dtype not in {dtypes.uint8, dtypes.uint16, dtypes.uint32}:
        raise _PREDICATED.refuse(f"predicate is {predicate.dtype}", "use uint8, uint16 or uint32")
    _PREDICATED.same_rows(dst=dst, predicate=predicate)
    if isinstance(src, NkiTensor):
        _check_predicated_source(dst, src, predicate)
    zero = (rows(predicate) == 0).reshape(dst.shape)
    values = read(src).reshape(dst.shape) if isinstance(src, NkiTensor) else np.full(dst.shape, src, np.float32)
    write(dst, values, ~zero if reverse_pred else zero)
    return _PREDICATED.end(core, "vector", (dst,), (src, predicate, dst), name)


def _check_predicated_source(dst: NkiTensor, src: NkiTensor, predicate: NkiTensor) -> None:
    _PREDICATED.begin(src=src)
    _PREDICATED.same_rows(dst=dst, src=src)
    if src.dtype != dst.dtype:
        raise _PREDICATED.refuse(f"src is {src.dtype}, dst is {dst.dtype}", "give both one dtype")
    if src.buffer is predicate.buffer is MemoryRegion.psum:
        raise _PREDICATED.refuse("src and predicate are both in PSUM", "copy one to SBUF")


_PREDICATED.buffers["src"] = (MemoryRegion.sbuf, MemoryRegion.psum)


def assign(dst: NkiTensor, value: Any) -> NkiInstruction:
    """`tensor[…] = value`: a DMA when HBM is involved, else a copy; a number fills."""
    if not isinstance(value, NkiTensor):
        return memset(dst, value)
    if dst.buffer in HBM or value.buffer in HBM:
        return dma_copy(dst, value)
    if value.shape != dst.shape and value.size == dst.size and value.ndim == dst.ndim == 2:
        raise _TENSOR_COPY.refuse(f"{list(value.shape)} into {list(dst.shape)}", "slice both alike")
    return tensor_copy(dst, value)


__all__ = [
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "memset",
    "rows_float32",
    "tensor_copy",
    "tensor_copy_predicated",
]
