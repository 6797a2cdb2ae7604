"""What profiling one kernel returns: its result, its time at both ends, and what to change."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from neuron_lab.hardware.interval import Interval
from neuron_lab.kernel_profiles.html import profile_html
from neuron_lab.kernel_profiles.kernel_trace import kernel_trace
from neuron_lab.kernel_profiles.text import profile_text
from neuron_lab.nki.launching import Run
from neuron_lab.nki.timing.bounds import Bound, Next, bound_of, next_bound, utilisation
from neuron_lab.nki.timing.critical_path import CriticalPath, critical_path
from neuron_lab.nki.timing.model import KernelTiming
from neuron_lab.reports.export import Export, export
from neuron_lab.trace.table import Trace


class KernelProfile:
    """One launch of one kernel. Its repr is the summary."""

    def __init__(self, run: Run, timing: KernelTiming) -> None:
        self.run = run
        self.timing = timing

    @property
    def result(self) -> Any:
        """What the kernel returned."""
        return self.run.result

    @property
    def name(self) -> str:
        return self.run.kernel

    @property
    def total_ns(self) -> Interval:
        """Modelled: from documented figures alone to the worst assumed ones."""
        return self.timing.total_ns

    @functools.cached_property
    def utilisation(self) -> Mapping[str, float]:
        """Share of the low end each engine of the slowest core works."""
        return utilisation(self.timing.slowest)

    @functools.cached_property
    def critical_path(self) -> CriticalPath:
        return critical_path(self.timing.slowest)

    @functools.cached_property
    def bound(self) -> Bound | None:
        return bound_of(self.timing, self.critical_path)

    @functools.cached_property
    def next(self) -> Next | None:
        """What bounds once the present bound is gone."""
        return None if self.bound is None else next_bound(self.timing, self.bound)

    @functools.cached_property
    def trace(self) -> Trace:
        """Engine slices and transfers as events on the modelled clock."""
        return kernel_trace(self.run, self.timing)

    def export(self, path: str | Path) -> Export:
        """Write the file its suffix names: .pftrace, .json or .parquet."""
        return export(self.trace, path)

    @functools.cached_property
    def text(self) -> str:
        return profile_text(self)

    @functools.cached_property
    def html(self) -> str:
        return profile_html(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        bundle = {"text/plain": self.text, "text/html": self.html}
        return {
            kind: data
            for kind, data in bundle.items()
            if (not include or kind in include) and kind not in (exclude or ())
        }
