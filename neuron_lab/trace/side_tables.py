"""Header, signatures, graphs and stacks of a trace as JSON-ready values, and back.

Tensor specifications and frames occur many times over and are written once. This module does not know the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Generic, TypeVar

from neuron_lab.trace.events import Frame, GraphSpec, Signature, TensorSpec, TraceHeader
from neuron_lab.trace.table import Table, Trace

Item = TypeVar("Item")


def pack(trace: Trace) -> dict[str, Any]:
    """Everything of a trace except the events themselves."""
    frames: _Interned[Frame] = _Interned()
    specs: _Interned[TensorSpec] = _Interned()
    return {
        "header": asdict(trace.header),
        "signatures": [_packed(signature, specs) for signature in trace.signatures],
        "graphs": [[graph.name, [_packed(node, specs) for node in graph.nodes]] for graph in trace.graphs],
        "stacks": [[frames.id(frame) for frame in stack] for stack in trace.stacks],
        "frames": [[frame.file, frame.line, frame.function] for frame in frames.items],
        "specs": [[spec.dtype, *spec.shape] for spec in specs.items],
    }


def unpack(packed: Mapping[str, Any], tables: Mapping[str, Table]) -> Trace:
    """The trace of what `pack` returned and the events. Raises LookupError, TypeError or ValueError."""
    specs = [TensorSpec(dtype, tuple(shape)) for dtype, *shape in packed["specs"]]
    frames = [Frame(*frame) for frame in packed["frames"]]
    return Trace(
        _header(packed["header"]),
        tables,
        tuple(_signature(each, specs) for each in packed["signatures"]),
        tuple(
            GraphSpec(name, tuple(_signature(node, specs) for node in nodes))
            for name, nodes in packed["graphs"]
        ),
        tuple(tuple(frames[frame] for frame in stack) for stack in packed["stacks"]),
    )


class _Interned(Generic[Item]):
    def __init__(self) -> None:
        self._ids: dict[Item, int] = {}

    @property
    def items(self) -> list[Item]:
        return list(self._ids)

    def id(self, item: Item) -> int:
        return self._ids.setdefault(item, len(self._ids))


def _header(saved: Mapping[str, Any]) -> TraceHeader:
    known = {field.name for field in fields(TraceHeader)}
    values = {name: value for name, value in saved.items() if name in known}
    return TraceHeader(**{**values, "ranks": tuple(saved["ranks"])})


def _packed(signature: Signature, specs: _Interned[TensorSpec]) -> list[Any]:
    return [
        signature.op,
        [specs.id(spec) for spec in signature.inputs],
        [specs.id(spec) for spec in signature.outputs],
        signature.static,
        signature.graph,
        signature.compiles,
        signature.stack,
    ]


def _signature(packed: Sequence[Any], specs: Sequence[TensorSpec]) -> Signature:
    op, inputs, outputs, static, graph, compiles, stack = packed
    return Signature(
        op,
        tuple(specs[spec] for spec in inputs),
        tuple(specs[spec] for spec in outputs),
        static,
        graph,
        compiles,
        stack,
    )
