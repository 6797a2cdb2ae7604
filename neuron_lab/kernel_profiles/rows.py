"""The rows of a kernel's summary, in words; text and HTML show the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from neuron_lab.hardware.interval import Interval
from neuron_lab.nki.places import place_text

if TYPE_CHECKING:
    from neuron_lab.kernel_profiles.profile import KernelProfile

LINES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    value: str
    how: str = ""


def time_text(time_ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if time_ns >= size:
            return f"{time_ns / size:.3g} {unit}"
    return f"{time_ns:.3g} ns"


def interval_text(interval: Interval) -> str:
    return f"{time_text(interval.low)} – {time_text(interval.high)}"


def title(profile: KernelProfile) -> str:
    return f"Kernel {profile.name}: {profile.timing.chip.name}, modelled from a run on CPU"


def alerts(profile: KernelProfile) -> Iterator[str]:
    if profile.run.error is not None:
        yield f"ended by {type(profile.run.error).__name__}; figures are of what ran before"
    for part in profile.run.unwritten:
        yield part.text
    for finding, count in profile.run.findings.items():
        yield f"{finding.text}, at {place_text(finding.place)}" + (f" ({count} times)" if count > 1 else "")


def rows(profile: KernelProfile) -> Iterator[Row]:
    timing = profile.timing
    yield Row("time", interval_text(profile.total_ns), "modelled")
    cores = f" on {len(timing.cores)} cores" if len(timing.cores) > 1 else ""
    yield Row("instructions", f"{timing.instructions:,}{cores}", "counted")
    for memory, peaks in (
        ("SBUF", [core.sbuf for core in profile.run.cores]),
        ("PSUM", [core.psum for core in profile.run.cores]),
    ):
        sizes = [peak.bytes_per_partition for peak in peaks if peak is not None]
        yield Row(f"{memory} peak", f"{max(sizes):,} bytes per partition" if sizes else "no reading", "counted")
    if profile.bound is not None:
        yield Row("bound", profile.bound.text, "modelled, low end")
        if profile.bound.line is not None:
            line = profile.bound.line
            yield Row("  mostly at", f"{line.opcode}, {_place(line.file, line.line)}")
        yield Row("change", profile.bound.cure)
    if profile.next is not None:
        following = profile.next
        yield Row("then", f"{time_text(following.total_ns)} at best: {following.text}", "modelled, low end")


ENGINE_HEADS = ("engine", "busy", "busy time", "instructions")


def engine_rows(profile: KernelProfile) -> list[tuple[str, str, str, str]]:
    core = profile.timing.slowest
    counts = Counter("dma" if one.engine == "dma" else one.engine for one in core.log)
    return [
        (engine, f"{share:.0%}", interval_text(core.busy_ns(engine)), f"{counts[engine]:,}")
        for engine, share in profile.utilisation.items()
    ]


LINE_HEADS = ("critical path", "share", "work", "waiting", "times")


def line_rows(profile: KernelProfile) -> list[tuple[str, str, str, str, str]]:
    path = profile.critical_path
    total = path.total_ns or 1.0
    return [
        (
            f"{row.opcode}, {_place(row.file, row.line)}",
            f"{row.total_ns / total:.0%}",
            time_text(row.work_ns),
            time_text(row.waiting_ns),
            f"{row.times:,}",
        )
        for row in path.lines[:LINES_SHOWN]
    ]


def _place(file: str, line: int) -> str:
    """The last two parts of the path; a notebook cell's file has none worth showing."""
    if "ipykernel_" in file or file.startswith("<ipython"):
        return f"cell line {line}"
    return place_text((PurePath(file).name, line))
