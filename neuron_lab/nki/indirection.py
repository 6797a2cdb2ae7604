"""Views whose place is read from a tensor or register when the instruction runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from neuron_lab.nki.dtypes import Array

if TYPE_CHECKING:
    from neuron_lab.nki.tensor import NkiTensor

SNAKE_ROWS = 16  # index i of a snake is at [i % 16, i // 16]; 32 rows for the tensor engine


@dataclass(frozen=True, slots=True)
class Indirection:
    """How an index moves a view.

    scalar: one index for the whole view. vector: one index per partition. columns: one index per free element.
    """

    kind: Literal["scalar", "vector", "columns"]
    index: Any  # tensor or register
    step: int  # elements per unit of the index
    dim: int
    limit: int  # indices are 0 … limit - 1

    @classmethod
    def scalar(cls, of: NkiTensor, index: Any, step: int, dim: int, limit: int) -> Indirection:
        cls._only_once(of)
        return cls("scalar", index, step, dim, limit)

    @classmethod
    def vector(cls, of: NkiTensor, index: NkiTensor, step: int, limit: int) -> Indirection:
        cls._only_once(of)
        return cls("vector", index, step, 0, limit)

    @classmethod
    def columns(cls, of: NkiTensor, index: NkiTensor, step: int, limit: int) -> Indirection:
        cls._only_once(of)
        return cls("columns", index, step, 1, limit)

    @staticmethod
    def _only_once(of: NkiTensor) -> None:
        if of.indirection is not None:
            raise of._refuse("indirect", "the view is indirect already", "start from the tensor itself")

    def fixes(self, dim: int) -> bool:
        """Whether that axis cannot be sliced any more."""
        return self.kind != "scalar" and dim == self.dim

    def positions(self, tensor: NkiTensor, index: Array) -> tuple[Array, Array]:
        """Flat element positions of the view's shape, and which of them are inside the tensor."""
        grid = self._pattern(tensor)
        moved = self._moves(tensor, index.astype(np.int64))
        inside = (moved >= 0) & (moved < self.limit)
        where = grid + np.where(inside, moved, 0) * self.step
        return where, np.broadcast_to(inside, where.shape)

    def _pattern(self, tensor: NkiTensor) -> Array:
        """Positions without the index: the indexed axis contributes nothing."""
        steps = list(tensor.strides)
        if self.kind != "scalar":
            steps[self.dim] = 0
        total: Array = np.array(tensor.offset, np.int64)
        for axis in np.ix_(*[np.arange(size) * step for size, step in zip(tensor.shape, steps, strict=True)]):
            total = total + axis
        return np.broadcast_to(total, tensor.shape)

    def _moves(self, tensor: NkiTensor, index: Array) -> Array:
        if self.kind == "scalar":
            return index.reshape(-1)[:1].reshape([1] * len(tensor.shape))
        if self.kind == "vector":
            return index.reshape(-1)[: tensor.shape[0]].reshape(-1, *[1] * (len(tensor.shape) - 1))
        return self._snake(tensor, index)

    def _snake(self, tensor: NkiTensor, index: Array) -> Array:
        """Every group of partitions has its own list of columns."""
        partitions, count = tensor.shape[0], tensor.shape[1]
        rows = min(SNAKE_ROWS, index.shape[0])
        groups = index.reshape(-1, rows, index.shape[-1])
        lists = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :count]
        per_partition = np.repeat(lists, -(-partitions // len(groups)), axis=0)[:partitions]
        return per_partition.reshape(partitions, count)
