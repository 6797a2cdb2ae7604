"""Small traces for exact-value tests.

    trace = make_trace(
        make_event(Kind.OPERATOR, name="aten::mm", start_ns=0, duration_ns=2_000, signature=make_signature()),
        make_event(Kind.COPY, size_bytes=4_096, direction="h2d"),
        instance="trn2.3xlarge", cores=4,          # any field of TraceHeader
    )

Every event starts at 0 and lasts 1000 ns unless told otherwise. A `signature`, `graph` or `stack` may be given
as the object itself; it is numbered in order of first use (after those in `signatures=`, `graphs=`, `stacks=`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TensorSpec, TraceHeader
from neuron_lab.trace.table import Trace

_NAMES = {
    Kind.OPERATOR: "aten::mm",
    Kind.EAGER_KERNEL: "aten::mm",
    Kind.FALLBACK: "aten::sort",
    Kind.COPY: "copy",
    Kind.KERNEL: "aten::mm",
    Kind.COLLECTIVE: "all_reduce",
}
_DEFAULTS: dict[str, dict[str, object]] = {
    Kind.OPERATOR: {"core": 0, "track": 1},
    Kind.EAGER_KERNEL: {"core": 0, "track": 1},
    Kind.FALLBACK: {"core": 0, "track": 1, "size_bytes": 0, "reason": "falls back per the April 2026 list"},
    Kind.COPY: {"core": 0, "track": 1, "direction": "h2d", "size_bytes": 0},
    Kind.ALLOC: {"core": 0, "duration_ns": 0, "size_bytes": 0, "allocated_bytes": 0},
    Kind.FREE: {"core": 0, "duration_ns": 0, "size_bytes": 0, "allocated_bytes": 0},
    Kind.GRAPH_BREAK: {"duration_ns": 0},
    Kind.RECOMPILE: {"duration_ns": 0},
    Kind.KERNEL: {"core": 0, "clock": "modelled"},
    Kind.ENGINE_SLICE: {"core": 0, "clock": "modelled"},
    Kind.DMA: {"core": 0, "clock": "modelled"},
}


@dataclass(frozen=True)
class Event:
    """One row to be: its kind and the columns that differ from the builder's defaults."""

    kind: Kind | str
    columns: dict[str, Any] = field(default_factory=dict)


def make_event(kind: Kind | str = Kind.OPERATOR, **columns: Any) -> Event:
    """One event with sensible defaults for its kind."""
    name = _NAMES.get(kind, str(kind)) if isinstance(kind, Kind) else str(kind)
    defaults = {"name": name, "start_ns": 0, "duration_ns": 1_000, **_DEFAULTS.get(kind, {})}
    return Event(kind, {**defaults, **columns})


def make_signature(
    op: str = "aten::mm",
    inputs: Iterable[tuple[int, ...]] = ((2, 3), (3, 4)),
    outputs: Iterable[tuple[int, ...]] = ((2, 4),),
    *,
    dtype: str = "float32",
    **fields: Any,
) -> Signature:
    """A signature from plain shapes, all of one dtype."""
    return Signature(
        op,
        tuple(TensorSpec(dtype, tuple(shape)) for shape in inputs),
        tuple(TensorSpec(dtype, tuple(shape)) for shape in outputs),
        **fields,
    )


def make_trace(
    *events: Event,
    signatures: Iterable[Signature] = (),
    graphs: Iterable[GraphSpec] = (),
    stacks: Iterable[tuple[Frame, ...]] = (),
    **header: Any,
) -> Trace:
    """A trace of these events; other keywords are fields of the header."""
    builder = TraceBuilder()
    for graph in graphs:
        builder.graph(graph)
    for stack in stacks:
        builder.stack(stack)
    for signature in signatures:
        builder.signature(signature)
    number = {"signature": builder.signature, "graph": builder.graph, "stack": builder.stack}
    for event in events:
        columns = {
            name: number[name](value) if name in number and not isinstance(value, int) else value  # type: ignore[operator]
            for name, value in event.columns.items()
        }
        builder.add(event.kind, **columns)
    return builder.freeze(TraceHeader(**{"name": "test", **header}))


def rows(trace: Trace, kind: Kind | str, *columns: str) -> list[tuple[Any, ...]]:
    """The named columns of one kind as plain Python rows, for exact comparison."""
    table = trace.table(kind)
    lists = [table.strings(name) if table.is_text(name) else table.column(name).tolist() for name in columns]
    return list(zip(*lists, strict=True))


def assert_same_trace(left: Trace, right: Trace) -> None:
    """Header, tables (every column, in text form) and side tables are equal."""
    assert left.header == right.header
    assert left.signatures == right.signatures
    assert left.graphs == right.graphs
    assert left.stacks == right.stacks
    assert set(left.kinds()) == set(right.kinds())
    for kind in left.kinds():
        assert set(left.table(kind).columns) == set(right.table(kind).columns)
        names = sorted(left.table(kind).columns)
        assert [name for name in names if left.table(kind).is_text(name)] == [
            name for name in names if right.table(kind).is_text(name)
        ]
        assert repr(rows(left, kind, *names)) == repr(rows(right, kind, *names))  # repr: NaN equals NaN


__all__ = [
    "Event",
    "assert_same_trace",
    "make_event",
    "make_signature",
    "make_trace",
    "rows",
]
