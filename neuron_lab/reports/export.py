"""Write a profile to a file of the format its suffix names.

`.pftrace` is Perfetto's native format, `.json` Chrome trace JSON, `.parquet` the whole event table. A file
appears whole or not at all. Browsers cannot open very large drawings: past a stated number of rows per kind
the rest is left out, and the result says how many.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from neuron_lab.errors import OutputError, UsageError
from neuron_lab.reports.chrome import chrome_chunks
from neuron_lab.reports.drawing import Drawing
from neuron_lab.reports.layout import draw
from neuron_lab.reports.perfetto import perfetto_chunks
from neuron_lab.reports.wording import bytes_text
from neuron_lab.trace.table import Trace


@dataclass(frozen=True, slots=True)
class Format:
    """How a drawing is written, and the most rows of one kind of event the file holds."""

    chunks: Callable[[Drawing], Iterator[bytes]]
    max_rows: int


FORMATS = {
    ".pftrace": Format(perfetto_chunks, 1_000_000),  # ≤ about 250 MB with every operator modelled as well
    ".json": Format(chrome_chunks, 100_000),  # ≤ about 100 MB
}
WHOLE_TRACE = ".parquet"  # not a drawing: the event table itself
SUFFIXES = (*FORMATS, WHOLE_TRACE)


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    path: Path
    size_bytes: int
    events: int  # slices drawn, or rows saved
    cut: dict[str, int] = field(default_factory=dict)  # rows left out, by kind; empty = everything was written
    max_rows: int = 0

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        text = f"wrote {self.path} ({bytes_text(self.size_bytes)}, {self.events:,} events)"
        if self.cut:
            left_out = ", ".join(f"{count:,} {kind} rows" for kind, count in self.cut.items())
            text += (
                f"; left out {left_out}: a {self.path.suffix} file takes the first {self.max_rows:,} of a kind"
            )
        return text


def export(traces: Trace | Sequence[Trace], path: str | os.PathLike[str]) -> Export:
    """Write one profile, or several side by side, in the format of the path's suffix."""
    target = Path(path)
    check_suffix(target)
    profiles = [traces] if isinstance(traces, Trace) else list(traces)
    if target.suffix.lower() == WHOLE_TRACE:
        return _save(profiles, target)
    format_ = FORMATS[target.suffix.lower()]
    drawing = draw(profiles, max_rows=format_.max_rows)
    size_bytes = write_whole(target, format_.chunks(drawing))
    return Export(target, size_bytes, drawing.slice_count, dict(drawing.cut), format_.max_rows)


def check_suffix(path: str | os.PathLike[str]) -> None:
    """A UsageError that lists the valid suffixes, unless the path has one of them."""
    suffix = Path(path).suffix
    if suffix.lower() not in SUFFIXES:
        given = f"suffix {suffix!r}" if suffix else "no suffix"
        raise UsageError(f"cannot export to {str(path)!r}: {given}; valid: {', '.join(SUFFIXES)}")


def _save(traces: Sequence[Trace], target: Path) -> Export:
    if len(traces) != 1:
        raise UsageError(
            f"cannot export to {str(target)!r}: {WHOLE_TRACE} holds one profile, got {len(traces)}"
        )
    from neuron_lab.trace.parquet import save  # pyarrow takes 0.3 s to import, and most profiles are not saved

    save(traces[0], target)
    return Export(target, target.stat().st_size, len(traces[0]))


def write_whole(path: Path, chunks: Iterable[bytes]) -> int:
    """Write beside the target, then rename onto it. Returns the size in bytes."""
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                size_bytes = file.tell()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise OutputError(
            f"cannot write {str(path)!r}: {why}. The profile is kept; export it to another path"
        ) from error
    return size_bytes
