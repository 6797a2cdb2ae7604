"""What a profile returns: the trace with the questions people ask of it, and the files it can become."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_lab.analysis.compare import Comparison, compare
from neuron_lab.analysis.findings import Finding, findings
from neuron_lab.analysis.frames import FRAMES, frame
from neuron_lab.analysis.totals import Totals, totals
from neuron_lab.analysis.utilisation import Utilisation, utilisation
from neuron_lab.analysis.what_if import WhatIf, what_if
from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.reports.export import Export, export
from neuron_lab.reports.summary import Summary, summary
from neuron_lab.trace.table import Trace

if TYPE_CHECKING:
    import pandas


class Profile:
    """One profiled interval. Its repr is the summary; nothing in it changes any more."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @property
    def name(self) -> str:
        return self.trace.header.name

    def summary(self, assumptions: Assumptions | None = None) -> Summary:
        """What happened, on one screen; displays as text or as an HTML table.

        `assumptions`: other constants for the modelled figures, for instance those of `neuron_lab.calibrate`.
        """
        return self._summary if assumptions is None else summary(self.trace, assumptions)

    def totals(self) -> Totals:
        """The figures of the summary as plain data."""
        return self._totals

    def df(self, table: str) -> pandas.DataFrame:
        """One table as a pandas DataFrame: ops, eager_kernels, steps, breaks, …; `tables` has all names.

        Raises UsageError naming the valid tables.
        """
        return frame(self.trace, table)

    @property
    def tables(self) -> tuple[str, ...]:
        """What `df` offers."""
        return tuple(FRAMES)

    def findings(self, assumptions: Assumptions | None = None) -> tuple[Finding, ...]:
        """What stands out and what to do about it, most severe first; `df("findings")` is the same as a
        table."""
        return findings(self.trace, assumptions)

    def compare(self, *after: Profile, confidence: float = 0.95) -> Comparison:
        """By how much each operator is slower or faster in the profile given (+5 % = it takes longer there).

        Several profiles of the same run on the other side widen the intervals by what differs from run to run;
        for several on both sides use `neuron_lab.analysis.compare.compare`.
        """
        return compare(self.trace, [other.trace for other in after], confidence=confidence)

    def what_if(
        self,
        *,
        chip: str | None = None,
        instance: str | None = None,
        lnc: int | None = None,
        dtype: str | None = None,
        assumptions: Assumptions | None = None,
    ) -> WhatIf:
        """The same launches timed on the modelled clock for something else: `what_if(dtype="bfloat16")`.

        Raises UsageError when nothing is changed, or for an unknown chip, instance, grouping or dtype.
        """
        return what_if(self.trace, chip=chip, instance=instance, lnc=lnc, dtype=dtype, assumptions=assumptions)

    def utilisation(self, assumptions: Assumptions | None = None, *, cold: bool = False) -> Utilisation:
        """Where each core's modelled span goes; `cold` counts compiling without a cache as well."""
        return utilisation(self.trace, assumptions, cold=cold)

    def save(self, path: str | Path) -> Path:
        """Write the whole trace as Parquet (`*.neuron.parquet`); `neuron_lab.load` reads it back."""
        from neuron_lab.trace import parquet  # pyarrow takes 0.3 s to import, and most profiles are not saved

        return parquet.save(self.trace, path)

    def perfetto(self, path: str | Path, *, also: Sequence[Profile] = ()) -> Export:
        """Write a native Perfetto trace (`.pftrace`). `also`: other profiles for the same file."""
        return self._write(path, ".pftrace", also)

    def chrome(self, path: str | Path, *, also: Sequence[Profile] = ()) -> Export:
        """Write strict Chrome JSON (`.json`) for viewers that do not read Perfetto's own format."""
        return self._write(path, ".json", also)

    def export(self, path: str | Path, *, also: Sequence[Profile] = ()) -> Export:
        """Write the file its suffix names: .pftrace, .json or .parquet."""
        return export([self.trace, *(other.trace for other in also)], path)

    def _write(self, path: str | Path, suffix: str, also: Sequence[Profile]) -> Export:
        if Path(path).suffix != suffix:
            raise UsageError(f"{str(path)!r} does not end in {suffix}, which this format needs")
        return self.export(path, also=also)

    @functools.cached_property
    def _totals(self) -> Totals:
        return totals(self.trace)

    @functools.cached_property
    def _summary(self) -> Summary:
        return summary(self.trace)

    def __repr__(self) -> str:
        return self._summary.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self._summary._repr_mimebundle_(include, exclude)


def load(path: str | Path) -> Profile:
    """A saved profile. Raises TraceError when the file is not one, or is newer than this neuron_lab."""
    from neuron_lab.trace import parquet

    return Profile(parquet.load(path))


class _Last:
    """The process's latest profile; profiles end on any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.profile: Profile | None = None


_LAST = _Last()


def remember(profile: Profile) -> None:
    with _LAST.lock:
        _LAST.profile = profile


def last_profile() -> Profile:
    """The profile that ended last in this process. Raises UsageError when there is none yet."""
    with _LAST.lock:
        if _LAST.profile is None:
            raise UsageError("no profile has been taken in this process yet; run a cell under %%neuron_profile")
        return _LAST.profile
