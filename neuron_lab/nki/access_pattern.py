"""`NkiTensor.ap` and `NkiTensor.indirect`: hardware access patterns over a storage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from neuron_lab.nki import dtypes
from neuron_lab.nki.indirection import Indirection
from neuron_lab.nki.layout import Layout
from neuron_lab.nki.run import current

if TYPE_CHECKING:
    from neuron_lab.nki.tensor import NkiTensor


def pattern_view(
    base: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int | None,
    scalar_offset: Any,
    vector_offset: NkiTensor | None,
    indirect_dim: int,
    dtype: Any,
) -> NkiTensor:
    new = dtypes.dtype_of(dtype) if dtype is not None else base.dtype
    if new.itemsize != base.dtype.itemsize:
        base._check_bytes("ap", new)
    if any(len(pair) != 2 or int(pair[1]) < 1 for pair in pattern):
        raise base._refuse("ap", f"pattern {pattern}", "give [step, count] per axis, counts from 1")
    steps = tuple(int(step) for step, _ in pattern)
    counts = tuple(int(count) for _, count in pattern)
    start = _start(base, offset, new.itemsize)
    made = base._with(Layout(counts, steps, start), new)
    made.indirection = None
    _check_partition_step(made)
    made.indirection = _indirection(base, scalar_offset, vector_offset, indirect_dim, new.itemsize)
    _check_inside(made)
    return made


def _start(base: NkiTensor, offset: int | None, new_size: int) -> int:
    """An explicit offset replaces the view's own (documents also say it adds, which differs only on views)."""
    if offset is None:
        return base.offset * base.dtype.itemsize // new_size
    if base.offset:
        current().find(
            "ambiguous offset",
            f"ap(offset={offset}) on a view that starts at element {base.offset}: the documents disagree "
            "whether it replaces (as here) or adds; call ap on the whole tensor",
        )
    return int(offset)


def _check_partition_step(made: NkiTensor) -> None:
    if not made.on_chip or made.shape[0] == 1:
        return
    row = made.storage.partition_bytes // made.dtype.itemsize
    if made.strides[0] != row:
        raise made._refuse(
            "ap",
            f"first step is {made.strides[0]}, but a partition holds {row} elements and only consecutive "
            "partitions can be addressed",
            f"begin the pattern with [{row}, partitions]",
        )


def _check_inside(made: NkiTensor) -> None:
    """The pattern before indirection stays within the allocation."""
    size = made.storage.partitions * made.storage.partition_bytes // made.dtype.itemsize
    fixed = 0 if made.indirection is not None and made.indirection.kind == "vector" else None
    reach = sum(
        (count - 1) * step
        for dim, (count, step) in enumerate(zip(made.shape, made.strides, strict=True))
        if dim != fixed and step > 0
    )
    if made.offset < 0 or made.offset + reach >= size:
        raise made._refuse(
            "ap",
            f"the pattern reaches element {made.offset + reach}, the storage has {size}",
            "shorten the pattern or lower the offset",
        )


def _indirection(
    base: NkiTensor, scalar_offset: Any, vector_offset: NkiTensor | None, dim: int, new_size: int
) -> Indirection | None:
    if scalar_offset is None and vector_offset is None:
        return None
    if scalar_offset is not None and vector_offset is not None:
        raise base._refuse("ap", "scalar_offset and vector_offset together", "give one of them")
    shape = base.storage.shape
    scale = base.storage.dtype.itemsize
    if vector_offset is not None and dim != 0:
        raise base._refuse("ap", f"vector_offset on axis {dim}", "use indirect_dim=0")
    step = math.prod(shape[dim + 1 :]) * scale // new_size
    if vector_offset is not None:
        return Indirection.vector(base, vector_offset, step, shape[0])
    return Indirection.scalar(base, scalar_offset, step, dim, shape[dim])


def column_view(base: NkiTensor, index: NkiTensor, num_elem: int | None) -> NkiTensor:
    core = current()
    if core.target.generation < 4:
        raise base._refuse(
            "indirect",
            f"needs NeuronCore-v4, the target is {core.target.chip}",
            "gather with nisa.local_gather",
        )
    if base.indirection is not None or base.ndim != 2:
        raise base._refuse(
            "indirect", f"needs a direct tensor with 2 axes, found {base.ndim}", "flatten it first"
        )
    count = num_elem if num_elem is not None else index.free_size * min(16, index.shape[0])
    made = base._with(Layout((base.shape[0], count), base.strides, base.offset))
    made.indirection = Indirection.columns(base, index, base.strides[1], base.shape[1])
    return made
