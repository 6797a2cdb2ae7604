"""The process-wide recorder: hands what producers measure to every profile that is open.

A `Source` keeps its own buffers (the device core does) and is drained into columns; a Python producer calls
`emit`.
Profiles may be nested: each is a `Recording` with its own interval, and each sees every event of that interval.
Sources run while at least one recording is open. This module knows no source by name.

    recording = RECORDER.open()
    ...                                   # the profiled code; a live view may call RECORDER.pump()
    trace = recording.close(TraceHeader(name="demo"))
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from neuron_lab.trace.builder import Chunk, Registry, TraceBuilder
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TraceHeader
from neuron_lab.trace.table import Trace

MAX_EVENTS = 4_000_000
"""Per recording, for drained events and again for emitted ones: a flood of operators must not push out the
graph breaks. At about 70 bytes per operator this is 280 MB. What comes later is counted, not kept."""

now_ns = time.monotonic_ns
"""CLOCK_MONOTONIC, the clock of every wall-clock event; the device core reads the same one."""


class Sink(Protocol):
    """Where a source puts what it drained. Ids are valid for the life of the process: map yours once."""

    def extend(self, kind: Kind | str, columns: dict[str, Any]) -> None: ...
    def signature(self, signature: Signature) -> int: ...
    def graph(self, graph: GraphSpec) -> int: ...
    def stack(self, frames: Iterable[Frame]) -> int: ...


class Source(Protocol):
    """A producer with buffers of its own.

    All three are called with the recorder's lock held: a source must not wait for a thread that emits.
    """

    def start(self) -> None: ...

    def stop(self) -> None:
        """Stop recording; what is buffered stays there for one more `drain`."""

    def drain(self, sink: Sink) -> dict[str, int]:
        """Put everything recorded since the last drain into the sink.

        Returns how many records were lost since the last drain, by reason (a reader shows the reason as it is).
        Times are `now_ns` times. Events need no order.
        """


class Recorder:
    """Use the process's one instance, `RECORDER`. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._registry = Registry()
        self._sources: list[Source] = []
        self._lock = threading.RLock()
        self._open: tuple[Recording, ...] = ()

    @property
    def active(self) -> bool:
        """True while a recording is open. One attribute read: cheap enough for every call."""
        return bool(self._open)

    @property
    def newest_start_ns(self) -> int:
        """When the innermost open recording began; 0 when none is open. Earlier events are not part of it."""
        recordings = self._open
        return recordings[-1].start_ns if recordings else 0

    def add_source(self, source: Source) -> None:
        """Drain this source from now on; it is started at once when a recording is open."""
        with self._lock:
            if source in self._sources:
                return
            if self._open:
                source.start()
            self._sources.append(source)

    def remove_source(self, source: Source) -> None:
        """Forget the source; when a recording is open, what it holds is drained first."""
        with self._lock:
            if source not in self._sources:
                return
            self._sources.remove(source)
            if self._open:
                source.stop()
                self._drain(source)

    def open(self, *, max_events: int = MAX_EVENTS) -> Recording:
        """Begin a recording at this moment."""
        with self._lock:
            if self._open:
                self.pump()  # what happened until now belongs to the outer recordings only
            else:
                self._start_sources()
            recording = Recording(self, self._registry, max_events)
            self._open = (*self._open, recording)
            return recording

    def emit(
        self,
        kind: Kind | str,
        *,
        name: str,
        start_ns: int | None = None,
        duration_ns: int = 0,
        **columns: Any,
    ) -> None:
        """One event from Python, into every open recording; does nothing when none is open.

        `start_ns` is a `now_ns` time, this moment by default. A `signature`, `graph` or `stack` is given as the
        object itself.
        """
        if not self._open:
            return
        begin_ns = now_ns() if start_ns is None else start_ns
        with self._lock:
            columns = {column: self._number(value) for column, value in columns.items()}
            columns |= {"name": name, "start_ns": begin_ns, "duration_ns": duration_ns}
            self._deliver(self._registry.chunk(kind, columns), emitted=True)

    def pump(self) -> None:
        """Drain all sources into the open recordings; without recordings it does nothing."""
        with self._lock:
            if self._open:
                for source in self._sources:
                    self._drain(source)

    def _close(self, recording: Recording) -> int:
        with self._lock:
            if recording not in self._open:
                raise RuntimeError("this recording is closed already")
            end_ns = now_ns()
            try:
                if len(self._open) == 1:
                    self._stop_sources()
                self.pump()
            finally:
                self._open = tuple(other for other in self._open if other is not recording)
            return end_ns

    def _drain(self, source: Source) -> None:
        dropped = source.drain(_RecordingSink(self._registry, self._deliver))
        for recording in self._open:
            recording._count_dropped(dropped)

    def _deliver(self, chunk: Chunk, emitted: bool = False) -> None:
        for recording in self._open:
            recording._append(chunk, emitted)

    def _number(self, value: object) -> object:
        if isinstance(value, Signature):
            return self._registry.signature(value)
        if isinstance(value, GraphSpec):
            return self._registry.graph(value)
        if isinstance(value, tuple) and all(isinstance(frame, Frame) for frame in value):
            return self._registry.stack(value) if value else -1
        return value

    def _start_sources(self) -> None:
        with ExitStack() as undo:
            for source in self._sources:
                source.start()
                undo.callback(source.stop)
            undo.pop_all()  # all of them started: leave them on

    def _stop_sources(self) -> None:
        with ExitStack() as stack:  # stops every one, even when one raises
            for source in self._sources:
                stack.callback(source.stop)

    def _forget_recordings(self) -> None:
        """For a forked child: its parent records, and a lock that another thread held would stay locked."""
        self._lock = threading.RLock()
        self._open = ()


class Recording:
    """One interval being recorded; made by `Recorder.open`."""

    def __init__(self, recorder: Recorder, registry: Registry, max_events: int) -> None:
        self.max_events = max_events
        self.start_ns = now_ns()
        self.origin_unix_ns = time.time_ns()
        self._recorder = recorder
        self._builder = TraceBuilder(registry)
        self._dropped: dict[str, int] = {}
        self._kept = {False: 0, True: 0}  # by "was emitted"

    def __len__(self) -> int:
        """Events kept so far. What sources still hold is not counted before the next `pump`."""
        return len(self._builder)

    def count(self, kind: Kind | str) -> int:
        """Events of one kind kept so far."""
        return self._builder.count(kind)

    @property
    def dropped_count(self) -> int:
        """Records lost so far, for whatever reason."""
        return sum(self._dropped.values())

    def rows_after(self, kind: Kind | str, count: int) -> list[Chunk]:
        """What was kept of one kind in the order it came, without the first `count`: a live view keeps up."""
        with self._recorder._lock:
            return self._builder.rows_after(kind, count)

    @property
    def vocabulary(self) -> Sequence[str]:
        """What the codes of text columns refer to. Grows while the recorder is used."""
        return self._builder.registry.pool.strings

    @property
    def signatures(self) -> Sequence[Signature]:
        """What `signature` columns refer to. Grows while the recorder is used; ids never change."""
        return self._builder.registry.signatures

    @property
    def graphs(self) -> Sequence[GraphSpec]:
        """What `Signature.graph` refers to. Grows like `signatures`."""
        return self._builder.registry.graphs

    def close(self, header: TraceHeader) -> Trace:
        """End the recording now. Origin, duration and losses are filled into the header."""
        end_ns = self._recorder._close(self)
        self._count_dropped(header.dropped)
        header = replace(
            header,
            origin_unix_ns=self.origin_unix_ns,
            duration_ns=end_ns - self.start_ns,
            dropped=dict(self._dropped),
        )
        return self._builder.freeze(header, start_ns=self.start_ns, end_ns=end_ns, only_used=True)

    def _append(self, chunk: Chunk, emitted: bool) -> None:
        room = self.max_events - self._kept[emitted]
        if len(chunk) > room:
            self._count_dropped({f"more than {self.max_events} events": len(chunk) - room})
            chunk = chunk.where(np.arange(room))
        if len(chunk):
            self._builder.append(chunk)
            self._kept[emitted] += len(chunk)

    def _count_dropped(self, dropped: dict[str, int]) -> None:
        for reason, count in dropped.items():
            if count:
                self._dropped[reason] = self._dropped.get(reason, 0) + count


class _RecordingSink:
    """The sink a source sees: its events go to every open recording."""

    def __init__(self, registry: Registry, deliver: Callable[[Chunk], None]) -> None:
        self._registry = registry
        self._deliver = deliver
        self.signature = registry.signature
        self.graph = registry.graph
        self.stack = registry.stack

    def extend(self, kind: Kind | str, columns: dict[str, Any]) -> None:
        self._deliver(self._registry.chunk(kind, columns))


RECORDER = Recorder()
os.register_at_fork(after_in_child=RECORDER._forget_recordings)
