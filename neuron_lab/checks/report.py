"""One screen: the verdict, counts, the five costliest causes, settings, and the exit status for scripts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neuron_lab.analysis.findings import Finding, findings
from neuron_lab.analysis.totals import Totals, totals
from neuron_lab.checks.advice import Advice, Seen, advice
from neuron_lab.checks.causes import Cause, causes
from neuron_lab.checks.manifest import Manifest, manifest_of
from neuron_lab.checks.outcome import TRACE_FILE, Outcome
from neuron_lab.hardware.cost import compile_seconds
from neuron_lab.reports.summary_lines import device_line
from neuron_lab.reports.wording import bytes_text, count_text, plural, time_interval_text
from neuron_lab.session import Profile, load
from neuron_lab.trace.events import Kind

MOST_CAUSES = 5
CLEAN, HAS_CAUSES, WRONG_USE, DID_NOT_END, TIMED_OUT = 0, 1, 2, 3, 4
LAST_OUTPUT_LINES = 5


@dataclass(frozen=True)
class CheckReport:
    """What a check found. `profile` is None when the process was lost; then there are no counts."""

    name: str
    outcome: Outcome
    profile: Profile | None
    environ: Mapping[str, str] = field(repr=False)
    output: str = field(default="", repr=False)

    @functools.cached_property
    def totals(self) -> Totals | None:
        return None if self.profile is None else totals(self.profile.trace)

    @functools.cached_property
    def causes(self) -> tuple[Cause, ...]:
        return () if self.profile is None or self.totals is None else causes(self.profile.trace, self.totals)

    @functools.cached_property
    def findings(self) -> tuple[Finding, ...]:
        return () if self.profile is None else findings(self.profile.trace)

    @functools.cached_property
    def advice(self) -> tuple[Advice, ...]:
        if self.totals is None:
            return ()
        return advice(Seen(self.totals, self.findings, self.outcome, self.environ))

    @functools.cached_property
    def manifest(self) -> Manifest | None:
        """What the run had to compile; None when the process was lost."""
        return None if self.profile is None else manifest_of(self.profile.trace)

    @property
    def complete(self) -> bool:
        return self.outcome.status == "finished"

    @property
    def exit_code(self) -> int:
        """0: as it should be. 1: causes to look at. 3: it raised, or its process was lost. 4: out of time."""
        if self.outcome.status == "timeout":
            return TIMED_OUT
        if not self.complete:
            return DID_NOT_END
        return HAS_CAUSES if self.causes else CLEAN

    @property
    def verdict(self) -> str:
        """One sentence; "predicted" because nothing here ran on a chip."""
        if self.outcome.status == "timeout":
            where = f" at {self.outcome.place}" if self.outcome.place else ""
            return f"did not end: {self.outcome.detail}{where}; what follows is what was counted until then"
        if not self.complete:
            where = f" at {self.outcome.place}" if self.outcome.place else ""
            partial = "; what follows is what was counted until then" if self.profile is not None else ""
            return f"does not run: {self.outcome.detail}{where}{partial}"
        if not self.causes:
            return "predicted to run as it is: no breaks, recompiles, fallbacks or growing shapes"
        return f"predicted to run, with {plural(len(self.causes), 'cause')} of waiting to look at"

    @property
    def text(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return self.text


def report_of(
    name: str, folder: Path, outcome: Outcome, environ: Mapping[str, str], output: str = ""
) -> CheckReport:
    trace = folder / TRACE_FILE
    return CheckReport(name, outcome, load(trace) if trace.is_file() else None, dict(environ), output)


def _lines(report: CheckReport) -> Iterator[str]:
    yield f"Check of {report.name}: {report.verdict}"
    found = report.totals
    if found is not None:
        yield f"  {device_line(found.header)}"
        yield from (f"  {label:<18} {value}" for label, value in _counts(report, found))
    shown = report.causes[:MOST_CAUSES]
    if shown:
        many = f"{len(shown)} of {len(report.causes)}"
        yield f"Costliest first ({many}; compile seconds are modelled, without a cache):"
    for number, cause in enumerate(shown, 1):
        first, _, rest = str(cause).partition("\n")
        yield f"  {number}. {first}"
        yield f"     {rest}"
    if report.advice:
        yield "Settings:"
    for each in report.advice:
        where = f" (seen at {each.place})" if each.place else ""
        yield f"  {each.line}"
        yield f"     {each.reason}{where}"
    yield from (f"Note: {notice}" for notice in report.outcome.notices)
    if not report.complete and report.output.strip():
        yield "Last output:"
        yield from (f"  {line}" for line in report.output.splitlines()[-LAST_OUTPUT_LINES:])


def _counts(report: CheckReport, found: Totals) -> Iterator[tuple[str, str]]:
    health, kernels = found.compile, found.kernels
    nodes = report.profile.trace.table(Kind.COMPILE).column("node_count") if report.profile else ()
    yield "graphs", f"{count_text(kernels.graphs_compiled)} compiled, {count_text(kernels.graph_runs)} runs"
    places = f" at {plural(health.break_places, 'place')}" if health.breaks else ""
    yield "graph breaks", f"{count_text(health.break_count)}{places}"
    limit = (
        f"; limit reached: {plural(health.uncompiled_call_count, 'call')} uncompiled"
        if health.limit_reached
        else ""
    )
    yield "recompiles", f"{count_text(health.recompile_count)}{limit}"
    yield "eager kernels", f"{count_text(kernels.distinct)} distinct in {count_text(kernels.runs)} runs"
    for steps in kernels.steps:
        distinct, unseen = steps.distinct_spread.median, steps.unseen_spread.median
        value = f"{count_text(distinct)} distinct, {count_text(unseen)} not used before (median)"
        yield f"  per {steps.name}", value
    moved = f", {bytes_text(found.fallback_bytes)} moved" if found.fallbacks else ""
    yield "fallbacks", f"{count_text(found.fallback_count)}{moved} (by the list of April 2026)"
    for finding in report.findings:
        if finding.rule == "wide_dtypes":
            yield "dtypes", finding.title
    limit_bytes = found.header.hbm_limit_bytes
    yield "memory peak", f"{bytes_text(found.peak_bytes)} of {bytes_text(limit_bytes or None)} per core"
    node_counts = [int(count) for count in nodes if count > 0]
    cost = compile_seconds(kernels.distinct, node_counts).scale(1e9)
    yield "compiling it all", f"{time_interval_text(cost)}, modelled, without a cache"
