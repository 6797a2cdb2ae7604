"""What an event is: its kind, its clock, and the payload columns each kind carries.

This module is the format. It knows nothing of who records events and nothing of who draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

SCHEMA_VERSION = 1
"""Raised when a column changes its meaning. Readers refuse newer files and keep unknown kinds."""


class Clock(StrEnum):
    """Which clock an event's times belong to. Times of two clocks are never added or compared."""

    WALL = "wall"  # nanoseconds measured on this machine, relative to the profile's start
    MODELLED = "modelled"  # nanoseconds a Trainium core would take, computed after the fact
    MEASURED = "measured"  # nanoseconds read from a real device's profile


class Kind(StrEnum):
    """The kinds of event. A kind decides which payload columns a row has."""

    OPERATOR = "operator"  # one operator dispatched to the device, host side
    EAGER_KERNEL = "eager_kernel"  # first use of (operator, dtypes, shapes, static arguments) in this process
    FALLBACK = "fallback"  # an operator the real device computes on the host
    COPY = "copy"  # bytes moved between host and device
    ALLOC = "alloc"  # device memory taken
    FREE = "free"  # device memory given back
    COMPILE = "compile"  # Dynamo compiled one frame
    GRAPH_BREAK = "graph_break"
    RECOMPILE = "recompile"
    KERNEL = "kernel"  # one kernel on a device core (modelled or measured clock)
    ENGINE_SLICE = "engine_slice"
    DMA = "dma"
    COLLECTIVE = "collective"
    STEP = "step"  # one generated token, or one optimizer step
    MARK = "mark"  # a user's named range
    COUNTER = "counter"


COMMON_COLUMNS: dict[str, str] = {
    "start_ns": "int64",
    "duration_ns": "int64",  # UNFINISHED when the end was never recorded
    "name": "text",
    "rank": "int16",
    "core": "int16",  # NO_CORE when the event belongs to the host
    "track": "int64",  # host thread id, engine or stream index; NO_TRACK when the kind has none
    "clock": "text",
    "correlation": "uint64",  # ties a host event to its device work; 0 = none
    "parent": "int64",  # id of the enclosing event; -1 = none
}

PAYLOAD_COLUMNS: dict[Kind, dict[str, str]] = {
    Kind.OPERATOR: {"signature": "int32", "stream": "int16", "stack": "int32"},
    Kind.EAGER_KERNEL: {"signature": "int32", "place": "text"},
    Kind.FALLBACK: {
        "signature": "int32",
        "size_bytes": "int64",  # moved between device and host
        "reason": "text",
        "place": "text",
        "stack": "int32",
    },
    Kind.COPY: {"direction": "text", "size_bytes": "int64", "stream": "int16"},
    Kind.ALLOC: {
        "size_bytes": "int64",
        "allocated_bytes": "int64",
        "block": "int64",  # the same number in an allocation and its release
        "category": "text",  # parameters, gradients, optimizer, activations, cache
        "stack": "int32",
    },
    Kind.FREE: {"size_bytes": "int64", "allocated_bytes": "int64", "block": "int64"},
    Kind.COMPILE: {
        "compile_id": "text",
        "place": "text",
        "cell": "text",
        "graph": "int32",
        "node_count": "int64",
    },
    Kind.GRAPH_BREAK: {
        "place": "text",  # file:line of the user's code
        "cell": "text",  # "In [n], line m" when the place is a notebook cell
        "source": "text",  # the line's text
        "reason": "text",  # one plain sentence
        "detail": "text",  # the compiler's own words
        "break_id": "text",  # gbNNNN of torch's catalogue
        "compile_id": "text",
    },
    Kind.RECOMPILE: {
        "place": "text",
        "cell": "text",
        "source": "text",
        "reason": "text",
        "variable": "text",
        "old": "text",
        "new": "text",
        "compile_id": "text",
        "limit_reached": "bool",  # True: Dynamo gave up and the calls run eagerly
    },
    Kind.KERNEL: {"high_ns": "int64", "bound": "text", "stream": "int16", "signature": "int32"},
    Kind.ENGINE_SLICE: {"engine": "text", "high_ns": "int64", "stack": "int32"},
    Kind.DMA: {"size_bytes": "int64", "queue": "text", "high_ns": "int64", "stack": "int32"},
    Kind.COLLECTIVE: {
        "group": "text",
        "size_bytes": "int64",
        "dtype": "text",
        "algorithm": "text",
        "wait_ns": "int64",
    },
    Kind.STEP: {"index": "int64"},
    Kind.MARK: {},
    Kind.COUNTER: {"value": "float64", "unit": "text"},
}

UNFINISHED = -1
NO_CORE = -1
NO_TRACK = -1


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Dtype (without `torch.`) and shape of one tensor argument."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What the device compiles a kernel for: operator, input dtypes and shapes, static arguments.

    `op` is the dispatcher's name with overload (`aten::mm`, `aten::add.Tensor`). A compiled graph's execution
    has `op == "neuron::graph"` and `graph` pointing into `Trace.graphs`. `compiles` is False for what needs no
    kernel (views, allocation, host copies) and for host fallbacks.
    """

    op: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    static: str = ""
    graph: int = -1
    compiles: bool = True
    stack: int = -1  # where it was first needed, into Trace.stacks


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """A compiled graph: its name and the operators in it, in execution order."""

    name: str
    nodes: tuple[Signature, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One user-visible Python frame."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class TraceHeader:
    """What is true of the whole trace. `origin_unix_ns` is the Unix time of `start_ns == 0`."""

    name: str = ""
    schema_version: int = SCHEMA_VERSION
    device: str = "none"  # "emulated", "hardware" or "none"
    instance: str = ""
    chip: str = ""
    lnc: int = 0
    cores: int = 0
    hbm_limit_bytes: int = 0  # per core
    origin_unix_ns: int = 0
    duration_ns: int = 0  # wall length of the profiled interval
    ranks: tuple[int, ...] = (0,)
    versions: dict[str, str] = field(default_factory=dict)
    host: str = ""
    context: dict[str, str] = field(default_factory=dict)  # git commit, notebook cell
    dropped: dict[str, int] = field(default_factory=dict)  # records lost, by reason; empty = nothing was lost
    error: str = ""  # the exception that ended the profiled block, if any
    counters: dict[str, float] = field(
        default_factory=dict
    )  # totals read at the end (hbm peak, torch counters)
