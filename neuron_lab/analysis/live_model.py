"""Modelled totals that keep up with a running cell: each batch of new operators costs only its own length.

Given all operators in order of start, the final values equal `model_timeline`'s. Batches whose operators
overlap in time (several threads) may order a few kernels differently: that can move the span, never the busy
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuron_lab.analysis.modelled import kernel_rows
from neuron_lab.analysis.signature_costs import SignatureCosts
from neuron_lab.analysis.two_ends import Array, TwoEnds, busy_share, waits
from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.instances import DEFAULT_LNC
from neuron_lab.hardware.interval import Interval, total
from neuron_lab.trace.events import GraphSpec, Signature


class LiveModel:
    """Busy time per core and modelled span so far, of one process. Not thread safe: one thread uses it."""

    def __init__(self, chip: Chip, lnc: int = DEFAULT_LNC, assumptions: Assumptions = DEFAULT) -> None:
        self._costs = SignatureCosts(chip, lnc, assumptions)
        self._ends = TwoEnds.begin(assumptions.launch_ns)

    def add(
        self,
        operators: Mapping[str, Any],
        signatures: Sequence[Signature],
        graphs: Sequence[GraphSpec] = (),
        read_back_start_ns: Array | Sequence[int] = (),
    ) -> None:
        """New operator rows (columns `start_ns`, `core`, `signature`) and the start times of new read-backs.

        `signatures` and `graphs` are the whole tables the ids refer to; they only ever grow. Read-backs are
        copies to the host and CPU fallbacks.
        """
        self._costs.update(signatures, graphs)
        signature, core, start_ns = (np.asarray(operators[name]) for name in ("signature", "core", "start_ns"))
        rows = kernel_rows(signature, core, self._costs)
        rows = rows[np.argsort(start_ns[rows], kind="stable")]
        wait_before, wait_after = waits(start_ns[rows], np.asarray(read_back_start_ns, np.int64))
        picked = signature[rows]
        self._ends.run(core[rows], self._costs.low_ns[picked], self._costs.high_ns[picked], wait_before)
        if wait_after:
            self._ends.synchronise()

    @property
    def span_ns(self) -> Interval | None:
        return self._ends.span_ns

    @property
    def busy_ns(self) -> dict[int, Interval]:
        """By core."""
        return self._ends.busy_ns

    def busy_share(self) -> Interval | None:
        """Busy part of the modelled span over the cores that ran something; None before any kernel."""
        span, busy = self.span_ns, self.busy_ns
        return None if span is None else busy_share(total(busy.values()), span, len(busy))
