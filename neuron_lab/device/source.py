"""The device as a source of events: drains the core's packed records into columns of the trace.

Never one Python object per event: a batch of records becomes a few numpy arrays. The core numbers operators,
signatures and stacks for the life of the process; this module maps each number once to the trace's own.
"""

from __future__ import annotations

import os
import sysconfig
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.device import graphs
from neuron_lab.device.core import load_core
from neuron_lab.hardware.op_support import FALLBACK_REASON
from neuron_lab.trace.columns import Text
from neuron_lab.trace.events import NO_CORE, UNFINISHED, Frame, Kind, Signature, TensorSpec
from neuron_lab.trace.recorder import Sink

Array = npt.NDArray[Any]

# The core's record kinds and flags (csrc/record.h).
OPERATOR, COPY_H2D, COPY_D2H, COPY_D2D, ALLOC, FREE, GRAPH, USER_RANGE = range(8)
NEW_KERNEL, FALLBACK, RAISED = 1, 2, 4

DIRECTIONS = ("h2d", "d2h", "d2d")
DROPPED = "the device recorder's buffers were full"
GRAPH_OP = "neuron::graph"


CellOf = Callable[[str], str | None]
"""File name of a notebook cell's code → "In [n]", or None for any other file."""


class HostFallbackWarning(UserWarning):
    """An operator that the real device computes on the host. Given once per operator and process."""


class CoreSource:
    """The `Source` of the emulated device; use `SOURCE`."""

    def __init__(self, stacks: bool = False) -> None:
        self.stacks = stacks
        self.cell_of: CellOf | None = None
        self._vocabulary = _Vocabulary()
        self._range_names: list[str] = []
        self._dropped = 0

    def start(self) -> None:
        self._dropped = 0
        load_core().recorder_start(stacks=self.stacks)

    def stop(self) -> None:
        load_core().recorder_stop()
        warn_of_new_fallbacks()

    def drain(self, sink: Sink) -> dict[str, int]:
        core = load_core()
        records = np.frombuffer(core.recorder_drain(), dtype=record_dtype())
        if len(records):
            self._vocabulary.update(sink, self.cell_of)
            self._extend(sink, records)
        dropped = int(core.recorder_dropped())
        new, self._dropped = dropped - self._dropped, dropped
        return {DROPPED: new} if new else {}

    def _extend(self, sink: Sink, records: Array) -> None:
        kind, flags = records["kind"], records["flags"]
        operators = (kind == OPERATOR) | (kind == GRAPH)
        self._operators(sink, records[operators])
        self._eager_kernels(sink, records[operators & (flags & NEW_KERNEL != 0)])
        self._fallbacks(sink, records[operators & (flags & FALLBACK != 0)])
        self._copies(sink, records[(kind >= COPY_H2D) & (kind <= COPY_D2D)])
        self._memory(sink, Kind.ALLOC, "alloc", records[kind == ALLOC])
        self._memory(sink, Kind.FREE, "free", records[kind == FREE])
        self._user_ranges(sink, records[kind == USER_RANGE])

    def _operators(self, sink: Sink, records: Array) -> None:
        if len(records):
            known = self._vocabulary
            sink.extend(
                Kind.OPERATOR,
                {
                    **_common(records),
                    "name": known.names(records["signature"]),
                    "signature": known.signatures(records["signature"]),
                    "stream": records["stream"],
                    "stack": known.stacks(records["stack"]),
                },
            )

    def _eager_kernels(self, sink: Sink, records: Array) -> None:
        if len(records):
            known = self._vocabulary
            sink.extend(
                Kind.EAGER_KERNEL,
                {
                    **_common(records),
                    "name": known.names(records["signature"]),
                    "signature": known.signatures(records["signature"]),
                    "place": known.places(records["signature"]),
                },
            )

    def _fallbacks(self, sink: Sink, records: Array) -> None:
        if len(records):
            known = self._vocabulary
            sink.extend(
                Kind.FALLBACK,
                {
                    **_common(records),
                    "name": known.names(records["signature"]),
                    "signature": known.signatures(records["signature"]),
                    "size_bytes": records["value0"],
                    "reason": FALLBACK_REASON,
                    "place": known.places_of_stacks(records["stack"]),
                    "stack": known.stacks(records["stack"]),
                },
            )

    def _copies(self, sink: Sink, records: Array) -> None:
        if len(records):
            direction = (records["kind"] - COPY_H2D).astype(np.int32)
            sink.extend(
                Kind.COPY,
                {
                    **_common(records),
                    "name": Text(direction, [f"copy {name}" for name in DIRECTIONS]),
                    "direction": Text(direction, DIRECTIONS),
                    "size_bytes": records["value0"],
                    "stream": records["stream"],
                },
            )

    def _user_ranges(self, sink: Sink, records: Array) -> None:
        if len(records):
            self._range_names += load_core().user_range_names(len(self._range_names))
            names = Text(records["signature"].astype(np.int32), self._range_names)
            sink.extend(Kind.MARK, {**_common(records), "name": names})

    def _memory(self, sink: Sink, kind: Kind, name: str, records: Array) -> None:
        if len(records):
            sink.extend(
                kind,
                {
                    **_common(records),
                    "name": name,
                    "duration_ns": 0,
                    "size_bytes": records["value0"],
                    "allocated_bytes": records["value1"],
                },
            )


def record_dtype() -> np.dtype[Any]:
    return np.dtype(load_core().recorder_dtype())


def _common(records: Array) -> dict[str, Array]:
    unfinished = records["flags"] & RAISED != 0
    return {
        "start_ns": records["start_ns"],
        "duration_ns": np.where(unfinished, UNFINISHED, records["end_ns"] - records["start_ns"]),
        "core": np.maximum(records["core"], NO_CORE),
        "track": records["thread"].astype(np.int64),
        "correlation": records["correlation"],
    }


def warn_of_new_fallbacks() -> None:
    """One Python warning per operator and process that the April 2026 list gives to the host."""
    for op in load_core().new_fallbacks():
        warnings.warn_explicit(
            f"{op} {FALLBACK_REASON}: the real device computes it on the host and copies its tensors both ways "
            "(the list is older than the product)",
            HostFallbackWarning,
            filename="neuron_lab",  # the line that needs it is in the profile; this one is nobody's
            lineno=0,
        )


class _Vocabulary:
    """The core's numbers for operators, signatures and stacks, and what each is in the trace."""

    def __init__(self) -> None:
        self._signature_ids: list[int] = []
        self._name_of_signature: list[int] = []
        self._place_of_signature: list[int] = []
        self._names = _Strings()
        self._places = _Strings()
        self._stack_ids: list[int] = []
        self._stack_places: list[int] = []

    def update(self, sink: Sink, cell_of: CellOf | None) -> None:
        """Learn what the core has numbered since the last time."""
        core = load_core()
        for frames in core.stacks(len(self._stack_ids)):
            self._stack_ids.append(sink.stack(Frame(*frame) for frame in frames))
            self._stack_places.append(self._places.code(place_of(frames, cell_of)))
        rows = core.signatures(len(self._signature_ids))
        ops = core.ops() if rows else []
        for op_id, inputs, outputs, static, compiles, stack in rows:
            graph = graphs.spec_of(len(self._signature_ids))
            known_stack = 0 <= stack < len(self._stack_ids)
            signature = Signature(
                op=ops[op_id] if graph is None else GRAPH_OP,
                inputs=_specs(inputs),
                outputs=_specs(outputs),
                static=static,
                graph=-1 if graph is None else sink.graph(graph),
                compiles=compiles,
                stack=self._stack_ids[stack] if known_stack else -1,
            )
            self._signature_ids.append(sink.signature(signature))
            self._name_of_signature.append(self._names.code(graph.name if graph else signature.op))
            self._place_of_signature.append(self._stack_places[stack] if known_stack else -1)

    def names(self, signatures: Array) -> Text:
        return Text(_pick(self._name_of_signature, signatures), self._names.strings)

    def places(self, signatures: Array) -> Text:
        return Text(_pick(self._place_of_signature, signatures), self._places.strings)

    def places_of_stacks(self, stacks: Array) -> Text:
        return Text(_pick(self._stack_places, stacks), self._places.strings)

    def signatures(self, signatures: Array) -> Array:
        return _pick(self._signature_ids, signatures)

    def stacks(self, stacks: Array) -> Array:
        return _pick(self._stack_ids, stacks)


class _Strings:
    """Strings numbered as they come."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self.strings))
        if code == len(self.strings):
            self.strings.append(text)
        return code


def _pick(values: Sequence[int], index: Array) -> Array:
    """values[index], and -1 where the core's number means none."""
    table = np.array([*values, -1], dtype=np.int32)
    return table[np.where(index < len(values), index, len(values))]


def _specs(tensors: Sequence[tuple[str, Sequence[int]]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in tensors)


_TORCH_FOLDER = f"{os.sep}torch{os.sep}"
_PACKAGES = f"{os.sep}site-packages{os.sep}"
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_OWN_FOLDER = str(Path(__file__).resolve().parent.parent) + os.sep


def place_of(frames: Sequence[tuple[str, int, str]], cell_of: CellOf | None = None) -> str:
    """The user's own line, and in brackets the library's line that ran the operator, where there is one.

    `In [6], line 2 (transformers/cache_utils.py:119)`, or a file name instead of the cell.
    """
    frames = [frame for frame in frames if not frame[0].startswith(_OWN_FOLDER)]
    if not frames:
        return ""
    file, line, _ = next((frame for frame in frames if not _is_library(frame[0])), frames[-1])
    label = cell_of(file) if cell_of is not None else None
    place = f"{label}, line {line}" if label else f"{file}:{line}"
    inner, inner_line, _ = next((frame for frame in frames if _TORCH_FOLDER not in frame[0]), frames[0])
    return place if inner == file else f"{place} ({_short(inner)}:{inner_line})"


def _is_library(file: str) -> bool:
    return _PACKAGES in file or file.startswith((_STANDARD_LIBRARY, "<frozen"))


def _short(file: str) -> str:
    """A library's file as one would import it: without the folder it is installed in."""
    return file.rpartition(_PACKAGES)[2]


SOURCE = CoreSource()
"""The one to add to the recorder: the core has one set of buffers."""
