"""What a run has to compile: every graph and eager kernel, with the line that first needs it; and what a later
run needed besides.

Made from a trace, of an emulated run or of a real one, so that the prediction can be held against the next run.
An entry is known by what is compiled (operators, dtypes, shapes, static arguments), not by its number or place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from neuron_lab.analysis.findings.finding import place_of
from neuron_lab.errors import OutputError, TraceError
from neuron_lab.reports.wording import signature_text
from neuron_lab.trace.events import GraphSpec, Kind
from neuron_lab.trace.table import Trace

FORMAT, VERSION = "neuron_lab warm-up manifest", 1


@dataclass(frozen=True, order=True)
class Entry:
    """`key` says what is compiled: a kernel's shapes and arguments, a graph's digest and size."""

    kind: str  # "graph" or "kernel"
    name: str
    key: str
    place: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.kind, self.name, self.key

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.key}" + (f", first at {self.place}" if self.place else "")


@dataclass(frozen=True)
class Manifest:
    """Entries are sorted, graphs first; `instance` and `lnc` are part of what a compiled file is made for."""

    instance: str
    lnc: int
    entries: tuple[Entry, ...]

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, one entry per line so that differences read well. Raises OutputError."""
        target = Path(path)
        head = {"format": FORMAT, "version": VERSION, "instance": self.instance, "lnc": self.lnc}
        lines = ",\n".join(f"  {json.dumps(asdict(entry), ensure_ascii=False)}" for entry in self.entries)
        text = json.dumps(head, ensure_ascii=False)[:-1] + f', "entries": [\n{lines}\n]}}\n'
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"the manifest cannot be written to {str(target)!r}: {error.strerror}") from error
        return target


@dataclass(frozen=True)
class Difference:
    """Of two runs: `missed` were not predicted and compile when first needed, `unused` were predicted only."""

    predicted: Manifest
    actual: Manifest

    @property
    def missed(self) -> tuple[Entry, ...]:
        return _without(self.actual, self.predicted)

    @property
    def unused(self) -> tuple[Entry, ...]:
        return _without(self.predicted, self.actual)

    @property
    def other_machine(self) -> bool:
        """Compiled for something else, so that nothing of it can be used."""
        return (self.predicted.instance, self.predicted.lnc) != (self.actual.instance, self.actual.lnc)

    def __str__(self) -> str:
        return "\n".join(_difference_lines(self))


def manifest_of(trace: Trace) -> Manifest:
    entries: dict[tuple[str, str, str], Entry] = {}
    for entry in (*_graphs(trace), *_kernels(trace)):
        entries.setdefault(entry.identity, entry)
    return Manifest(trace.header.instance, trace.header.lnc, tuple(sorted(entries.values())))


def load_manifest(path: str | Path) -> Manifest:
    """A saved manifest. Raises TraceError when the file is not a manifest, or is newer than this neuron_lab."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"the manifest {str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TraceError(f"{str(path)!r} is not a warm-up manifest: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TraceError(f"{str(path)!r} is not a warm-up manifest: it does not say so")
    if content.get("version") != VERSION:
        raise TraceError(
            f"{str(path)!r} is a manifest of version {content.get('version')!r}, this reads {VERSION}"
        )
    try:
        entries = tuple(Entry(**entry) for entry in content["entries"])
        return Manifest(content["instance"], content["lnc"], entries)
    except (KeyError, TypeError) as error:
        raise TraceError(f"{str(path)!r} is not a complete manifest: {error}") from error


def difference(predicted: Manifest, actual: Manifest) -> Difference:
    return Difference(predicted, actual)


def _graphs(trace: Trace) -> Iterator[Entry]:
    table = trace.table(Kind.COMPILE)
    columns = (table.column("graph").tolist(), table.strings("place"), table.strings("cell"))
    for graph, place, cell in zip(*columns, strict=True):
        if graph >= 0 and trace.graphs[graph].nodes:
            yield _graph_entry(trace.graphs[graph], cell or place)
    for index in _used_signatures(trace):
        graph = trace.signatures[index].graph
        if graph >= 0 and trace.graphs[graph].nodes:
            yield _graph_entry(trace.graphs[graph], "")


def _graph_entry(graph: GraphSpec, place: str) -> Entry:
    """The number in a graph's name counts what the process compiled, so it is left out."""
    text = "\n".join(f"{node.op} {signature_text(node)}" for node in graph.nodes)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Entry(
        "graph", graph.name.rpartition(" #")[0] or graph.name, f"{digest} of {len(graph.nodes)} nodes", place
    )


def _kernels(trace: Trace) -> Iterator[Entry]:
    for index in _used_signatures(trace):
        signature = trace.signatures[index]
        if signature.compiles and signature.graph < 0:
            yield Entry("kernel", signature.op, signature_text(signature), place_of(trace, signature))


def _used_signatures(trace: Trace) -> list[int]:
    used = np.unique(trace.table(Kind.OPERATOR).column("signature"))
    return [index for index in used.tolist() if 0 <= index < len(trace.signatures)]


def _without(some: Manifest, others: Manifest) -> tuple[Entry, ...]:
    known = {entry.identity for entry in others.entries}
    return tuple(entry for entry in some.entries if entry.identity not in known)


def _difference_lines(found: Difference) -> Iterator[str]:
    predicted, actual = found.predicted, found.actual
    if found.other_machine:
        yield (
            f"predicted for {predicted.instance} at LNC {predicted.lnc}, run on {actual.instance} at LNC "
            f"{actual.lnc}: everything compiles again"
        )
    hits = len(actual.entries) - len(found.missed)
    yield f"{hits} of {len(actual.entries)} were predicted, {len(found.unused)} predicted ones were not needed"
    yield from (f"  not predicted: {entry}" for entry in found.missed)
    yield from (f"  not needed: {entry}" for entry in found.unused)
