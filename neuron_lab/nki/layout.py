"""Strided layouts as plain numbers: what a view method does to shape, strides and offset.

An element (i0, i1, …) sits at `offset + sum(stride_k * i_k)`, counted in elements. Nothing here knows memories.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

Ints = tuple[int, ...]


class LayoutError(ValueError):
    """The view does not exist in that layout; the message says why."""


class Layout(NamedTuple):
    shape: Ints
    strides: Ints
    offset: int

    def replaced(self, dim: int, sizes: Ints, strides: Ints, shift: int = 0) -> Layout:
        """Axis `dim` replaced by the given axes."""
        return Layout(
            self.shape[:dim] + sizes + self.shape[dim + 1 :],
            self.strides[:dim] + strides + self.strides[dim + 1 :],
            self.offset + shift,
        )


def row_major(shape: Sequence[int]) -> Ints:
    """Strides of a dense array."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def axis(layout: Layout, dim: int) -> int:
    """The axis number from 0, or an error that names the rank."""
    rank = len(layout.shape)
    if not -rank <= dim < rank:
        raise LayoutError(f"axis {dim} of a tensor with {rank} axes {layout.shape}")
    return dim % rank


def sliced(layout: Layout, dim: int, start: int, end: int, step: int = 1) -> Layout:
    size = layout.shape[dim]
    if not (0 <= start <= size and 0 <= end <= size):
        raise LayoutError(f"[{start}:{end}] of axis {dim}, whose size is {size}")
    if step < 1:
        raise LayoutError(f"step {step} of axis {dim}; steps are positive")
    count = max(0, -(-(end - start) // step))
    if not count:
        raise LayoutError(f"[{start}:{end}] of axis {dim} selects nothing")
    return layout.replaced(dim, (count,), (layout.strides[dim] * step,), start * layout.strides[dim])


def position(layout: Layout, dim: int, index: int) -> int:
    """`index` of axis `dim` counted from 0."""
    size = layout.shape[dim]
    if not -size <= index < size:
        raise LayoutError(f"index {index} of axis {dim}, whose size is {size}")
    return index % size


def selected(layout: Layout, dim: int, index: int) -> Layout:
    return layout.replaced(dim, (), (), position(layout, dim, index) * layout.strides[dim])


def permuted(layout: Layout, dims: Sequence[int]) -> Layout:
    if sorted(dims) != list(range(len(layout.shape))):
        raise LayoutError(f"{tuple(dims)} is no order of the axes 0–{len(layout.shape) - 1}")
    return Layout(tuple(layout.shape[d] for d in dims), tuple(layout.strides[d] for d in dims), layout.offset)


def broadcast(layout: Layout, dim: int, size: int) -> Layout:
    if layout.shape[dim] != 1:
        raise LayoutError(f"axis {dim} has size {layout.shape[dim]}; only size 1 broadcasts")
    return layout.replaced(dim, (size,), (0,))


def expanded(layout: Layout, dim: int) -> Layout:
    step = layout.shape[dim] * layout.strides[dim] if dim < len(layout.shape) else 1
    return Layout(
        (*layout.shape[:dim], 1, *layout.shape[dim:]),
        (*layout.strides[:dim], step, *layout.strides[dim:]),
        layout.offset,
    )


def squeezed(layout: Layout, dim: int) -> Layout:
    if layout.shape[dim] != 1:
        raise LayoutError(f"axis {dim} has size {layout.shape[dim]}; only size 1 can go")
    return layout.replaced(dim, (), ())


def with_known_sizes(sizes: Sequence[int], total: int) -> Ints:
    """One -1 replaced by what is left of `total`."""
    known = math.prod(size for size in sizes if size != -1)
    if sum(size == -1 for size in sizes) > 1:
        raise LayoutError(f"more than one -1 in {tuple(sizes)}")
    full = tuple(total // known if size == -1 and known else size for size in sizes)
    if math.prod(full) != total:
        raise LayoutError(f"{total} elements do not fit {tuple(sizes)}")
    return full


def split(layout: Layout, dim: int, sizes: Sequence[int]) -> Layout:
    full = with_known_sizes(sizes, layout.shape[dim])
    return layout.replaced(dim, full, tuple(step * layout.strides[dim] for step in row_major(full)))


def merged(layout: Layout, first: int, last: int) -> Layout:
    """Axes first..last as one; they must be contiguous with one another."""
    sizes, strides = layout.shape[first : last + 1], layout.strides[first : last + 1]
    kept = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    for (_, outer), (size, stride) in itertools.pairwise(kept):
        if outer != size * stride:
            raise LayoutError(f"axes {first}–{last} are not contiguous (sizes {sizes}, strides {strides})")
    step = kept[-1][1] if kept else strides[-1]
    return Layout(
        (*layout.shape[:first], math.prod(sizes), *layout.shape[last + 1 :]),
        (*layout.strides[:first], step, *layout.strides[last + 1 :]),
        layout.offset,
    )


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout:
    """The same elements in another shape, when strides can express it."""
    full = with_known_sizes(shape, math.prod(layout.shape))
    blocks = _dense_blocks(layout)
    strides: list[int] = []
    for size in full:
        if size == 1:
            strides.append(0)
            continue
        have, step = blocks[0]
        if have % size:
            raise LayoutError(f"{layout.shape} with strides {layout.strides} has no view of shape {full}")
        strides.append(step * (have // size))
        blocks[0] = (have // size, step)
        if have == size:
            del blocks[0]
    return Layout(full, _ones_strided(full, strides), layout.offset)


def _dense_blocks(layout: Layout) -> list[tuple[int, int]]:
    """(size, innermost stride) of the longest runs of axes that are contiguous with one another."""
    blocks: list[tuple[int, int]] = []
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        if size == 1:
            continue
        if blocks and blocks[-1][1] == size * stride:
            blocks[-1] = (blocks[-1][0] * size, stride)
        else:
            blocks.append((size, stride))
    return blocks


def _ones_strided(shape: Ints, strides: list[int]) -> Ints:
    """Size-1 axes get the stride a dense tensor would have there."""
    following = 1
    for k in reversed(range(len(shape))):
        if shape[k] == 1:
            strides[k] = following
        following = shape[k] * strides[k]
    return tuple(strides)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Row-major without gaps."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True
