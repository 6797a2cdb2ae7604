"""`NkiTensor`: an allocation seen through a strided view, with the indexing and view methods of kernels.

Views share their storage. On chip axis 0 is the partition axis, which no view may move, split or drop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuron_lab.nki import dtypes, layout
from neuron_lab.nki.dtypes import Array, DType
from neuron_lab.nki.indirection import Indirection
from neuron_lab.nki.layout import Layout, LayoutError
from neuron_lab.nki.refusal import NkiValidationError, refusal
from neuron_lab.nki.storage import Access, MemoryRegion, Storage, ViewKey

if TYPE_CHECKING:
    from neuron_lab.nki.registers import VirtualRegister

Index = Any  # int, slice, Ellipsis, register, or a tuple of them


class NKIObject:
    """Base of the classes a kernel may define and use."""


class NkiTensor(NKIObject):
    """Shape, strides and offset count elements of `dtype`."""

    __slots__ = ("_array", "buffer", "dtype", "indirection", "offset", "shape", "storage", "strides")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        storage: Storage,
        buffer: MemoryRegion | None = None,
        name: str = "",
    ) -> None:
        self.shape = tuple(shape)
        self.dtype: DType = dtypes.dtype_of(dtype)
        self.storage = storage
        self.strides: tuple[int, ...] = layout.row_major(self.shape)
        self.offset = 0
        self.buffer = buffer or storage.buffer
        self.indirection: Indirection | None = None
        self._array: Array | None = None
        if name:
            storage.name = name

    # what it is

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def on_chip(self) -> bool:
        return self.storage.on_chip

    @property
    def partition(self) -> int:
        """First partition, counted within the allocation's own address."""
        storage = self.storage
        first = self.offset * self.dtype.itemsize // storage.partition_bytes if self.offset else 0
        return first + (storage.address[0] if storage.address else 0)

    @property
    def free_size(self) -> int:
        """Elements per partition."""
        return math.prod(self.shape[1:])

    @property
    def layout(self) -> Layout:
        return Layout(self.shape, self.strides, self.offset)

    @property
    def key(self) -> ViewKey:
        return (self.offset, self.shape, self.strides, self.dtype)

    @property
    def array(self) -> Array:
        """The elements as a numpy view; for an indirect tensor the pattern before indirection."""
        found = self._array
        if found is None:
            found = self._array = self.storage.array(self.shape, self.strides, self.offset, self.dtype)
        return found

    def is_contiguous(self) -> bool:
        """On chip only the free axes count."""
        first = 1 if self.on_chip else 0
        return layout.is_dense(self.shape[first:], self.strides[first:])

    def get_pattern(self) -> list[list[int]]:
        """`[[stride, count], …]` per axis."""
        return [[stride, size] for stride, size in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        return self.indirection is not None

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        return f"<NkiTensor{label} {list(self.shape)} {self.dtype} {self.buffer.value}>"

    def access(self) -> Access:
        """The box it touches, remembered per view of the storage; an index may lead anywhere in it."""
        if self.indirection is not None:
            return _access(self)._replace(start_byte=0, stop_byte=self.storage.partition_bytes)
        found = self.storage.accesses.get(self.key)
        if found is None:
            found = self.storage.accesses[self.key] = _access(self)
        return found

    # views

    def _with(self, new: Layout, dtype: DType | None = None) -> NkiTensor:
        made = object.__new__(NkiTensor)
        made.shape, made.strides, made.offset = new
        made.dtype = dtype or self.dtype
        made.storage = self.storage
        made.buffer = self.buffer
        made.indirection = self.indirection
        made._array = None
        return made

    def _view(self, method: str, change: Callable[[Layout], Layout]) -> NkiTensor:
        try:
            return self._with(change(self.layout))
        except LayoutError as problem:
            raise self._refuse(method, str(problem)) from None

    def _refuse(self, method: str, problem: str, cure: str = "") -> NkiValidationError:
        return refusal(
            f"NkiTensor.{method}",
            f"{problem}, on {self!r}",
            cure=cure or f"choose a view inside {list(self.shape)}",
        )

    def _free_axis(self, method: str, dim: int) -> int:
        """The axis from 0; axis 0 of an on-chip tensor is refused."""
        try:
            found = layout.axis(self.layout, dim)
        except LayoutError as problem:
            raise self._refuse(method, str(problem)) from None
        if found == 0 and self.on_chip:
            raise self._refuse(
                method,
                "axis 0 is the partition axis, which no view changes",
                "copy the data to another tile instead",
            )
        return found

    def _axis(self, method: str, dim: int) -> int:
        try:
            return layout.axis(self.layout, dim)
        except LayoutError as problem:
            raise self._refuse(method, str(problem)) from None

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        at = self._axis("slice", dim)
        self._whole_partitions(at, step)
        self._direct_axis("slice", at)
        return self._view("slice", lambda old: layout.sliced(old, at, int(start), int(end), step))

    def _whole_partitions(self, dim: int, step: int) -> None:
        if dim == 0 and step != 1 and self.on_chip:
            raise self._refuse(
                "slice",
                f"partition step {step}; an operand occupies consecutive partitions",
                "take the partitions one after another, or lay the data out differently",
            )

    def _direct_axis(self, method: str, dim: int) -> None:
        if self.indirection is not None and self.indirection.fixes(dim):
            raise self._refuse(
                method, f"axis {dim} is chosen by an index tensor", "slice before making it indirect"
            )

    def select(self, dim: int, index: Any) -> NkiTensor:
        """One position of an axis; a tensor or register chooses it when the instruction runs."""
        at = self._axis("select", dim)
        if isinstance(index, NkiTensor):
            chosen = self._select_by(index, at)
            return chosen._view("select", lambda old: layout.selected(old, at, 0))
        self._free_axis("select", dim)
        return self._view("select", lambda old: layout.selected(old, at, int(index)))

    def _select_by(self, index: NkiTensor, dim: int) -> NkiTensor:
        one = self._view("select", lambda old: layout.sliced(old, dim, 0, 1))
        one.indirection = Indirection.scalar(self, index, self.strides[dim], dim, self.shape[dim])
        return one

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Rows of axis 0 chosen per partition by a (P, 1) tensor."""
        if dim != 0:
            raise self._refuse("vector_select", f"axis {dim}; rows are chosen on axis 0", "use dim=0")
        rows = Layout((vector_offset.shape[0], *self.shape[1:]), self.strides, self.offset)
        made = self._with(rows)
        made.indirection = Indirection.vector(self, vector_offset, self.strides[0], self.shape[0])
        return made

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        if self.on_chip and dims[0] != 0:
            self._free_axis("permute", 0)
        return self._view("permute", lambda old: layout.permuted(old, dims))

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        at = self._free_axis("broadcast", dim)
        return self._view("broadcast", lambda old: layout.broadcast(old, at, size))

    def expand_dim(self, dim: int) -> NkiTensor:
        if self.on_chip and dim == 0:
            self._free_axis("expand_dim", 0)
        at = dim if dim >= 0 else dim + self.ndim + 1
        if not 0 <= at <= self.ndim:
            raise self._refuse("expand_dim", f"axis {dim} of a tensor with {self.ndim} axes")
        return self._view("expand_dim", lambda old: layout.expanded(old, at))

    def squeeze_dim(self, dim: int) -> NkiTensor:
        at = self._free_axis("squeeze_dim", dim)
        return self._view("squeeze_dim", lambda old: layout.squeezed(old, at))

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        at = self._free_axis("reshape_dim", dim)
        return self._view("reshape_dim", lambda old: layout.split(old, at, shape))

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        first = self._free_axis("flatten_dims", start_dim)
        last = self._axis("flatten_dims", end_dim)
        return self._view("flatten_dims", lambda old: layout.merged(old, first, last))

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        if self.on_chip and tuple(shape[:1]) not in {(-1,), (self.shape[0],)}:
            raise self._refuse(
                "reshape", f"shape {tuple(shape)} changes the partition axis", f"keep {self.shape[0]} in front"
            )
        return self._view("reshape", lambda old: layout.reshaped(old, shape))

    def rearrange(
        self,
        src_pattern: Sequence[Any],
        dst_pattern: Sequence[Any],
        fixed_sizes: Mapping[str, int] | None = None,
    ) -> NkiTensor:
        """Axes by name: nested tuples split an axis on the left and join axes on the right."""
        from neuron_lab.nki.rearrangement import rearranged

        if self.on_chip and src_pattern[0] != dst_pattern[0]:
            self._free_axis("rearrange", 0)
        return self._view("rearrange", lambda old: rearranged(old, src_pattern, dst_pattern, fixed_sizes or {}))

    def view(self, dtype: Any) -> NkiTensor:
        """The same bytes as another dtype; the last axis scales."""
        new = dtypes.dtype_of(dtype)
        old_size, new_size = self.dtype.itemsize, new.itemsize
        self._check_bytes("view", new)
        if old_size == new_size:
            return self._with(self.layout, new)
        if self.strides[-1] != 1 and self.shape[-1] != 1:
            raise self._refuse("view", f"the last axis has stride {self.strides[-1]}", "view before slicing")
        inner = [*self.strides[:-1], self.offset, self.shape[-1]]
        if any(number * old_size % new_size for number in inner):
            raise self._refuse("view", f"{self.dtype} does not divide into {new}", "align size and offset")
        scaled = [number * old_size // new_size for number in inner]
        return self._with(Layout((*self.shape[:-1], scaled[-1]), (*scaled[:-2], 1), scaled[-2]), new)

    def _check_bytes(self, method: str, new: DType) -> None:
        """Without precise storage the bytes of low-precision floats are not there to be looked at."""
        precise = self.storage.precise
        for dtype in (self.dtype, new):
            if dtypes.stored_as(dtype, precise) != dtypes.stored_as(dtype, True):
                raise self._refuse(
                    method,
                    f"NKI_PRECISE_FP=0 keeps {dtype} as float32, so its bytes do not exist",
                    "set it to 1",
                )

    reinterpret_cast = view

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: NkiTensor | VirtualRegister | None = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """An access pattern over the storage: `[[step, count], …]` from `offset`, in elements of `dtype`.

        It ignores the view it is called on, except for the offset when none is given.
        """
        from neuron_lab.nki.access_pattern import pattern_view

        return pattern_view(self, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype)

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Columns of the free axis chosen by an index tensor laid out as a snake over 16 partitions (trn3)."""
        from neuron_lab.nki.access_pattern import column_view

        return column_view(self, index, num_elem)

    # indexing

    def __getitem__(self, key: Index) -> NkiTensor:
        items = _full_index(self, key)
        try:
            new = self._indexed(items)
        except LayoutError as problem:
            raise self._refuse("__getitem__", str(problem)) from None
        return self._with(new)

    def _indexed(self, items: list[Any]) -> Layout:
        shape: list[int] = []
        strides: list[int] = []
        offset = self.offset
        old = self.layout
        on_chip = self.on_chip
        direct = self.indirection is None
        for dim, item in enumerate(items):
            size, stride = self.shape[dim], self.strides[dim]
            if item.__class__ is slice:
                if item == _EVERYTHING:
                    shape.append(size)
                    strides.append(stride)
                    continue
                start, count, step = _bounds(old, dim, item)
                if step != 1:
                    self._whole_partitions(dim, step)
                if not direct:
                    self._direct_axis("__getitem__", dim)
                offset += start * stride
                shape.append(count)
                strides.append(stride * step)
                continue
            if not direct:
                self._direct_axis("__getitem__", dim)
            offset += layout.position(old, dim, int(item)) * stride
            last = dim == len(items) - 1
            if on_chip and (dim == 0 or (last and len(shape) < 2)):
                shape.append(1)
                strides.append(stride)
        if not shape:
            shape, strides = [1], [1]
        return Layout(tuple(shape), tuple(strides), offset)

    def __setitem__(self, key: Index, value: Any) -> None:
        from neuron_lab.nki.isa.movement import assign

        assign(self[key], value)

    def __iter__(self) -> None:
        raise self._refuse("__iter__", "a tensor is not iterable", "loop over range(n) and index it")

    def __array__(self, *args: Any, **kwargs: Any) -> None:
        raise self._refuse(
            "__array__", "its values do not exist when the kernel is built", "read results after the kernel"
        )


_EVERYTHING = slice(None)


def _full_index(tensor: NkiTensor, key: Index) -> list[Any]:
    """One int or slice per axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    for position, item in enumerate(items):
        if item is Ellipsis:
            missing = tensor.ndim - len(items) + 1
            items[position : position + 1] = [_EVERYTHING] * missing
            break
    if len(items) > tensor.ndim:
        raise tensor._refuse("__getitem__", f"{len(items)} indices for {tensor.ndim} axes")
    for item in items:
        if not isinstance(item, slice) and not hasattr(item, "__index__"):
            raise tensor._refuse("__getitem__", f"index {item!r}", "index with integers, slices, nl.ds or ...")
    return items + [_EVERYTHING] * (tensor.ndim - len(items))


def _bounds(old: Layout, dim: int, item: slice) -> tuple[int, int, int]:
    """(start, count, step) of a slice, refusing what reaches outside."""
    size = old.shape[dim]
    start = 0 if item.start is None else int(item.start)
    end = size if item.stop is None else int(item.stop)
    step = 1 if item.step is None else int(item.step)
    if start < 0:
        start += size
    if end < 0:
        end += size
    if not 0 <= start < end <= size or step < 1:
        layout.sliced(old, dim, start, end, step)  # says what is wrong
    return start, -(-(end - start) // step), step


def _access(tensor: NkiTensor) -> Access:
    size = tensor.dtype.itemsize
    first = 1 if tensor.on_chip else 0
    sizes, strides = tensor.shape[first:], tensor.strides[first:]
    low = sum(min(0, (n - 1) * s) for n, s in zip(sizes, strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(sizes, strides, strict=True)) + 1
    row = tensor.storage.partition_bytes // size if tensor.on_chip else 0
    start = tensor.offset % row if row else tensor.offset
    run, count = 1, 1
    for n, s in zip(reversed(sizes), reversed(strides), strict=True):
        if n != 1 and s == run and count == run:
            run *= n
        count *= n
    inner = next((s for n, s in zip(reversed(sizes), reversed(strides), strict=True) if n != 1), 1)
    partitions = tensor.shape[0] if tensor.on_chip else 1
    return Access(
        tensor.storage.number,
        tensor.buffer,
        tensor.dtype,
        tensor.partition if tensor.on_chip else 0,
        partitions,
        (start + low) * size,
        (start + high) * size,
        int(np.prod(sizes, dtype=np.int64)),
        inner * size,
        partitions * (count // run),
    )
