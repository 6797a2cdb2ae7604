"""Turns what TorchDynamo does into events while armed: compiles, graph breaks, recompiles, reached limits.

Source of truth is Dynamo's structured trace (see `dynamo_internals`), checked against Dynamo's own break
counters: every break it counts becomes exactly one event, so the number of events is the framework's number.
A break the trace does not mention becomes an event without a place. Arming installs one log handler;
disarming removes it, and nothing is left behind. Rows wait in a buffer until the recorder drains them: a
compiling thread never waits for the recorder.

This module knows nothing of notebooks (see `places.CellOf`) and draws nothing.
"""

from __future__ import annotations

import logging
import threading
import types
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neuron_lab.compiler import break_reasons, dynamo_internals, graphs, guard_values, places, recompile_reasons
from neuron_lab.compiler.places import CellOf, Place
from neuron_lab.compiler.row_buffer import RowBuffer
from neuron_lab.compiler.shape_versions import ShapeChange
from neuron_lab.compiler.trace_records import GuardFailure, break_stack, parse_break_message, parse_recompile
from neuron_lab.compiler.uncompiled_calls import UncompiledCalls
from neuron_lab.trace.events import GraphSpec, Kind
from neuron_lab.trace.recorder import Sink, now_ns

_REASON_START = "Graph Break Reason: "
_STACK_START = "\nUser code traceback:"


@dataclass(frozen=True, slots=True)
class CompileCounts:
    """Totals since the process started, counted while armed. Subtract an earlier reading for an interval."""

    compiles: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    uncompiled_calls: int = 0  # calls after the recompile limit was reached

    def __sub__(self, earlier: CompileCounts) -> CompileCounts:
        return CompileCounts(
            self.compiles - earlier.compiles,
            self.graph_breaks - earlier.graph_breaks,
            self.recompiles - earlier.recompiles,
            self.uncompiled_calls - earlier.uncompiled_calls,
        )


@dataclass(frozen=True, slots=True)
class _Break:
    """A break the trace reported that is not yet matched with Dynamo's counter."""

    text: str
    place: Place
    start_ns: int
    compile_id: str


@dataclass(slots=True)
class _Recompile:
    """A failed guard whose compilation has not ended yet."""

    failure: GuardFailure
    new: str
    place: Place
    name: str
    start_ns: int
    code: types.CodeType | None


@dataclass(slots=True)
class _Pending:
    starts_ns: dict[str, int] = field(default_factory=dict)  # by compile id
    breaks: list[_Break] = field(default_factory=list)
    recompiles: dict[str, _Recompile] = field(default_factory=dict)


class CompileObserver:
    """A trace source; see the module's text. `cell_of` may be set by whoever knows the notebook."""

    def __init__(self) -> None:
        self.cell_of: CellOf | None = None
        self.notices: list[str] = []
        self._rows = RowBuffer()
        self._lock = threading.RLock()
        self._handler = _TraceHandler(self)
        self._pending = _Pending()
        self._baseline: dict[str, int] = {}
        self._counts = CompileCounts()
        self._tested = False
        self._armed = False
        self._given_up: dict[types.CodeType, _Recompile] = {}
        self._uncompiled = UncompiledCalls(self._ran_uncompiled)

    def start(self) -> None:
        """Begin to observe. What was compiled before is not reported."""
        self._baseline = dynamo_internals.break_counters()
        self._pending = _Pending()
        self._armed = True
        logging.getLogger(dynamo_internals.TRACE_LOGGER).addHandler(self._handler)

    def stop(self) -> None:
        """Leave Dynamo and logging as they were; what is buffered waits for one more `drain`."""
        logging.getLogger(dynamo_internals.TRACE_LOGGER).removeHandler(self._handler)
        self._armed = False
        self._uncompiled.stop()
        self._given_up.clear()

    def drain(self, sink: Sink) -> dict[str, int]:
        """Hand over all rows, and breaks counted that no finished compilation claimed. Drops nothing."""
        with self._lock:
            if not self._pending.starts_ns:
                self._report_breaks({})
        self._rows.drain(sink)
        return {}

    def counts(self) -> CompileCounts:
        """Totals so far; cheap, from any thread."""
        return self._counts

    def report_graph(self, spec: GraphSpec, compile_id: str, place: Place, start_ns: int) -> None:
        """A graph the backend compiled outside, or besides, what one of Dynamo's compilations is known by."""
        if self._armed:
            self._counts = _plus(self._counts, compiles=1)
            self._rows.add(
                Kind.COMPILE,
                name=spec.name,
                start_ns=start_ns,
                duration_ns=now_ns() - start_ns,
                compile_id=compile_id,
                place=place.place,
                cell=place.cell,
                graph=spec,
                node_count=len(spec.nodes),
            )

    def report_new_shape(self, name: str, change: ShapeChange, compile_id: str, place: Place) -> None:
        """The backend compiles one more static graph because a shape is new; Dynamo does not notice."""
        if self._armed:
            self._counts = _plus(self._counts, recompiles=1)
            failure = GuardFailure("", change.variable, "shape", "", change.old, change.new)
            recompile = _Recompile(failure, change.new, place, name, now_ns(), None)
            reason = recompile_reasons.plain_reason(failure, change.new)
            self._emit_recompile(compile_id, recompile, reason, 0, limit_reached=False)

    def handle(self, metadata: Mapping[str, Any], payload: str) -> None:
        """One record of the structured trace."""
        kind = dynamo_internals.record_type(metadata)
        with self._lock:
            if kind == dynamo_internals.COMPILE_START:
                self._begun(dynamo_internals.compile_id_text(metadata))
            elif kind == dynamo_internals.GRAPH_BREAK_ARTIFACT:
                self._broke(dynamo_internals.compile_id_text(metadata), payload)
            elif kind == dynamo_internals.RECOMPILE_ARTIFACT:
                self._guard_failed(dynamo_internals.compile_id_text(metadata), payload)
            elif kind == dynamo_internals.COMPILE_METRICS:
                self._ended(dynamo_internals.compile_id_text(metadata), metadata[kind])

    def notice(self, text: str) -> None:
        """Something the user should know about the observation itself; said once."""
        if text not in self.notices:
            self.notices.append(text)

    def _begun(self, compile_id: str) -> None:
        graphs.forget(compile_id)
        self._pending.starts_ns.setdefault(compile_id, now_ns())
        if not self._tested:
            self._tested = True
            for problem in dynamo_internals.self_test():
                self.notice(f"{problem}: breaks are counted, but some may have no place")

    def _broke(self, compile_id: str, payload: str) -> None:
        place = places.innermost(break_stack(payload), self.cell_of)
        self._pending.breaks.append(_Break(payload, place, now_ns(), compile_id))

    def _guard_failed(self, compile_id: str, payload: str) -> None:
        failure = parse_recompile(payload)
        frame = dynamo_internals.recompiling_frame()
        code = getattr(frame, "f_code", None)
        new = failure.new or (
            guard_values.value_text(failure.variable, ChainMap(frame.f_locals, frame.f_globals))
            if frame is not None
            else ""
        )
        place = places.innermost(failure.stack, self.cell_of)
        if place == places.UNKNOWN and code is not None:
            place = places.place_at(code.co_filename, code.co_firstlineno, self.cell_of)
        name = code.co_name if code is not None else "?"
        self._pending.recompiles[compile_id] = _Recompile(failure, new, place, name, now_ns(), code)

    def _ended(self, compile_id: str, metrics: Mapping[str, Any]) -> None:
        end_ns = now_ns()
        if metrics.get("is_forward") is False:
            return  # a backward graph made later: the backend reports its own compilation
        start_ns = self._pending.starts_ns.pop(compile_id, end_ns)
        recompile = self._pending.recompiles.pop(compile_id, None)
        if str(metrics.get("fail_reason") or "").startswith(dynamo_internals.LIMIT_MESSAGE):
            self._gave_up(compile_id, recompile)
        else:
            if recompile is not None:
                self._report_recompile(compile_id, recompile, end_ns)
            if metrics.get("has_guarded_code") and not metrics.get("fail_type"):
                self._report_compile(compile_id, metrics, start_ns, end_ns)
        self._report_breaks(metrics)

    def _report_compile(self, compile_id: str, metrics: Mapping[str, Any], start_ns: int, end_ns: int) -> None:
        made = graphs.made_by(compile_id)
        if made.deferred:
            return  # one static graph per shape is compiled when it is first called, and reported then
        self._counts = _plus(self._counts, compiles=1)
        file, line = metrics.get("co_filename") or "", metrics.get("co_firstlineno") or 0
        place = places.place_at(file, line, self.cell_of) if file else places.UNKNOWN
        self._rows.add(
            Kind.COMPILE,
            name=made.spec.name if made.spec is not None else readable_name(metrics.get("co_name") or "?"),
            start_ns=start_ns,
            duration_ns=end_ns - start_ns,
            compile_id=compile_id,
            place=place.place,
            cell=place.cell,
            graph=made.spec,
            node_count=len(made.spec.nodes)
            if made.spec is not None
            else int(metrics.get("graph_op_count") or 0),
        )

    def _report_recompile(self, compile_id: str, recompile: _Recompile, end_ns: int) -> None:
        self._counts = _plus(self._counts, recompiles=1)
        reason = recompile_reasons.plain_reason(recompile.failure, recompile.new)
        self._emit_recompile(compile_id, recompile, reason, end_ns - recompile.start_ns, limit_reached=False)

    def _gave_up(self, compile_id: str, recompile: _Recompile | None) -> None:
        if recompile is None:
            return
        self._report_uncompiled(compile_id, recompile)
        if recompile.code is not None:
            self._given_up[recompile.code] = recompile
        if recompile.code is None or not self._uncompiled.watch(recompile.code):
            self.notice("calls that run uncompiled after the recompile limit are not counted with this torch")

    def _ran_uncompiled(self, code: types.CodeType, names: Mapping[str, Any]) -> None:
        try:
            with self._lock:
                first = self._given_up[code]
                new = guard_values.value_text(first.failure.variable, names)
                again = _Recompile(first.failure, new, first.place, first.name, now_ns(), code)
                self._report_uncompiled("", again)
        except Exception as error:  # the user's call must go on whatever happens here
            self.notice(f"an uncompiled call could not be reported ({type(error).__name__}: {error})")

    def _report_uncompiled(self, compile_id: str, recompile: _Recompile) -> None:
        self._counts = _plus(self._counts, uncompiled_calls=1)
        limit = dynamo_internals.recompile_limit()
        reason = recompile_reasons.plain_reason(recompile.failure, recompile.new, limit or 0)
        self._emit_recompile(compile_id, recompile, reason, 0, limit_reached=True)

    def _emit_recompile(
        self, compile_id: str, recompile: _Recompile, reason: str, duration_ns: int, *, limit_reached: bool
    ) -> None:
        self._rows.add(
            Kind.RECOMPILE,
            name=readable_name(recompile.name),
            start_ns=recompile.start_ns,
            duration_ns=duration_ns,
            place=recompile.place.place,
            cell=recompile.place.cell,
            source=recompile.place.source,
            reason=reason,
            variable=recompile.failure.variable,
            old=recompile.failure.old,
            new=recompile.new or recompile.failure.new,
            compile_id=compile_id,
            limit_reached=limit_reached,
        )

    def _report_breaks(self, metrics: Mapping[str, Any]) -> None:
        """One event for every break Dynamo counted since the last time; see `_matched`."""
        counted = dynamo_internals.break_counters()
        new = _increase(self._baseline, counted)
        self._baseline = counted
        pending, self._pending.breaks = self._pending.breaks, []
        for message, reported in _matched(new, pending):
            self._report_break(message, reported or self._unplaced(metrics))

    def _unplaced(self, metrics: Mapping[str, Any]) -> _Break:
        file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
        place = places.place_at(file, line, self.cell_of) if file and line else places.UNKNOWN
        return _Break("", place, now_ns(), str(metrics.get("compile_id") or ""))

    def _report_break(self, message: str, reported: _Break) -> None:
        self._counts = _plus(self._counts, graph_breaks=1)
        parts = parse_break_message(message)
        self._rows.add(
            Kind.GRAPH_BREAK,
            name=parts[0].kind,
            start_ns=reported.start_ns,
            place=reported.place.place,
            cell=reported.place.cell,
            source=reported.place.source,
            reason=break_reasons.plain_reason(parts),
            detail=message,
            break_id=parts[0].break_id,
            compile_id=reported.compile_id,
        )


class _TraceHandler(logging.Handler):
    """Hands records to the observer. Nothing that goes wrong here may reach the user's compilation."""

    def __init__(self, observer: CompileObserver) -> None:
        super().__init__()
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        try:
            self._observer.handle(metadata, getattr(record, "payload", None) or "")
        except Exception as error:
            self._observer.notice(
                f"a compiler record could not be read ({type(error).__name__}: {error}): details may be missing"
            )


def readable_name(name: str) -> str:
    """`torch_dynamo_resume_in_forward_at_19` → `forward, resumed at line 19`."""
    if not name.startswith(dynamo_internals.RESUME_PREFIX):
        return name
    function, _, line = name.removeprefix(dynamo_internals.RESUME_PREFIX).rpartition("_at_")
    return f"{function}, resumed at line {line}"


def _plus(counts: CompileCounts, **more: int) -> CompileCounts:
    return CompileCounts(
        counts.compiles + more.get("compiles", 0),
        counts.graph_breaks + more.get("graph_breaks", 0),
        counts.recompiles + more.get("recompiles", 0),
        counts.uncompiled_calls + more.get("uncompiled_calls", 0),
    )


def _increase(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """How much each counter grew; one that shrank was cleared in between and counts from zero."""
    growth = {}
    for message, count in after.items():
        earlier = before.get(message, 0)
        more = count - earlier if count >= earlier else count
        if more > 0:
            growth[message] = more
    return growth


def _matched(counted: Mapping[str, int], reported: list[_Break]) -> list[tuple[str, _Break | None]]:
    """Pairs of message and trace record, exactly as many per message as Dynamo counted.

    A record belongs to the longest counted message its text contains. When Dynamo counts a break twice (once
    as itself, once as "break in a loop"), the second count shares the record and its full message. A record
    nobody counted is kept: a break must not vanish.
    """
    of_message: dict[str, list[_Break]] = {message: [] for message in counted}
    pairs: list[tuple[str, _Break | None]] = []
    for record in reported:
        containing = [message for message in counted if message in record.text]
        if containing:
            of_message[max(containing, key=len)].append(record)
        else:
            pairs.append((_message_in(record.text), record))
    for message, count in counted.items():
        own = of_message[message][-count:]
        pairs += [(message, record) for record in own]
        pairs += [_shared(message, of_message)] * (count - len(own))
    return pairs


def _shared(message: str, of_message: Mapping[str, list[_Break]]) -> tuple[str, _Break | None]:
    """A record of a longer message that contains this one, with that longer message."""
    for other, records in of_message.items():
        if records and message in other:
            return other, records[-1]
    return message, None


def _message_in(text: str) -> str:
    """Dynamo's message inside a record, when no counter tells it."""
    _, found, rest = text.partition(_REASON_START)
    return (rest if found else text).partition(_STACK_START)[0].strip()


OBSERVER = CompileObserver()
"""The process's observer: profiles are process-wide, so there is one."""
