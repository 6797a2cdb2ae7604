"""Graph breaks, recompiles and uncompiled calls, grouped by place and cause, with totals."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_lab.analysis.text_rows import counted, texts
from neuron_lab.trace.events import UNFINISHED, Kind
from neuron_lab.trace.table import Table, Trace


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """One cause at one place. `count` is how often the framework counted it."""

    place: str
    cell: str
    source: str
    reason: str
    detail: str
    break_id: str
    count: int


@dataclass(frozen=True, slots=True)
class Recompile:
    """Recompilations of one function for one variable. `changes` are the old and new values in order."""

    name: str
    place: str
    cell: str
    source: str
    reason: str  # of the first one
    variable: str
    changes: tuple[tuple[str, str], ...]
    count: int


@dataclass(frozen=True)
class CompileHealth:
    """`recompiles` were compiled again; `uncompiled` calls ran eagerly because the limit was reached."""

    compile_count: int
    compile_wall_ns: int  # measured on this machine; nested compilations are counted in each
    breaks: tuple[GraphBreak, ...]
    break_count: int
    recompiles: tuple[Recompile, ...]
    recompile_count: int
    uncompiled: tuple[Recompile, ...]
    uncompiled_call_count: int

    @property
    def break_places(self) -> int:
        """Distinct places, where the framework's own counter counts every time."""
        return len({(found.place, found.source) for found in self.breaks})

    @property
    def limit_reached(self) -> bool:
        return self.uncompiled_call_count > 0


def compile_health(trace: Trace) -> CompileHealth:
    """What the compiler did during the profile."""
    compiles, breaks, recompiles = (
        trace.table(kind) for kind in (Kind.COMPILE, Kind.GRAPH_BREAK, Kind.RECOMPILE)
    )
    gave_up = recompiles.column("limit_reached").astype(bool)
    durations = compiles.column("duration_ns")
    return CompileHealth(
        compile_count=len(compiles),
        compile_wall_ns=int(durations[durations != UNFINISHED].sum()),
        breaks=_breaks(breaks),
        break_count=len(breaks),
        recompiles=_recompiles(recompiles.where(~gave_up)),
        recompile_count=int((~gave_up).sum()),
        uncompiled=_recompiles(recompiles.where(gave_up)),
        uncompiled_call_count=int(gave_up.sum()),
    )


def _breaks(table: Table) -> tuple[GraphBreak, ...]:
    """One per place and reason; details of the first."""
    keys = texts(table, ("place", "cell", "source", "reason"))
    details = dict(zip(reversed(keys), reversed(texts(table, ("detail", "break_id"))), strict=True))
    found = []
    for (place, cell, source, reason), count in counted(keys):
        detail, break_id = details[place, cell, source, reason]
        found.append(GraphBreak(place, cell, source, reason, detail, break_id, count))
    return tuple(found)


def _recompiles(table: Table) -> tuple[Recompile, ...]:
    keys = texts(table, ("name", "place", "cell", "source", "variable"))
    changes: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    reasons: dict[tuple[str, ...], str] = {}
    for key, (old, new, reason) in zip(keys, texts(table, ("old", "new", "reason")), strict=True):
        changes.setdefault(key, []).append((old, new))
        reasons.setdefault(key, reason)
    found = []
    for key, count in counted(keys):
        name, place, cell, source, variable = key
        found.append(Recompile(name, place, cell, source, reasons[key], variable, tuple(changes[key]), count))
    return tuple(found)
