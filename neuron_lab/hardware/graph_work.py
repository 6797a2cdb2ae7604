"""What a compiled graph asks of the chip: its nodes' work, and the bytes that must cross HBM at least.

A graph's nodes are known by operator, shapes and dtypes, not by data flow. A tensor counts as coming from
outside when no earlier node made one of the same shape and dtype; one that two nodes read counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from neuron_lab.hardware import operator_kinds as kinds
from neuron_lab.hardware.operator_kinds import base_name
from neuron_lab.hardware.work import Tensor, Work, size_bytes, work_of


class Node(Protocol):
    """One operator of a graph."""

    @property
    def op(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Tensor]: ...
    @property
    def outputs(self) -> Sequence[Tensor]: ...
    @property
    def static(self) -> str: ...


@dataclass(frozen=True, slots=True)
class GraphWork:
    """`nodes` are those that run something; `boundary_bytes` is read from outside plus written at the end."""

    nodes: tuple[Work, ...]
    boundary_bytes: int


def graph_work(nodes: Sequence[Node]) -> GraphWork:
    works = []
    made: set[tuple[str, tuple[int, ...]]] = set()
    boundary_bytes = 0
    last_outputs: Sequence[Tensor] = ()
    for node in nodes:
        outside = [spec for spec in node.inputs if (spec.dtype, tuple(spec.shape)) not in made]
        work = work_of(node.op, node.inputs, node.outputs, node.static)
        if work.is_none:
            if outside:
                continue  # a view of an outside tensor is still that tensor
        else:
            works.append(work)
            boundary_bytes += _outside_bytes(node, work, outside)
            last_outputs = node.outputs
        made.update((spec.dtype, tuple(spec.shape)) for spec in node.outputs)
    return GraphWork(tuple(works), boundary_bytes + size_bytes(last_outputs))


def _outside_bytes(node: Node, work: Work, outside: Sequence[Tensor]) -> int:
    """A gather reads only the rows it picks, and a fill reads nothing."""
    if base_name(node.op) in kinds.GATHER:
        return min(work.read_bytes, size_bytes(outside))
    return 0 if work.kind == "fill" else size_bytes(outside)
