"""Rules about device memory."""

from __future__ import annotations

import numpy as np

from neuron_lab.analysis.findings.finding import Finding, Subject, first_rows
from neuron_lab.trace.events import Kind

NEAR = 0.9
STEPS = 5


def near_the_limit(subject: Subject) -> Finding | None:
    """A core's peak is within a tenth of its limit."""
    full = [
        core
        for core in subject.memory
        if core.peak_bytes is not None and core.limit_bytes and core.peak_bytes >= NEAR * core.limit_bytes
    ]
    if not full:
        return None
    worst = max(full, key=lambda core: core.peak_bytes or 0)
    assert worst.peak_bytes is not None
    assert worst.limit_bytes is not None
    allocations = subject.table(Kind.ALLOC)
    return Finding(
        "near_the_limit",
        "high",
        f"core {worst.core} of rank {worst.rank} used {worst.peak_bytes / worst.limit_bytes:.0%} of its HBM",
        "reduce batch or length, shard over more cores, or use fewer bits; the compiler needs room as well",
        Kind.ALLOC,
        first_rows(allocations.column("allocated_bytes") == worst.peak_bytes),
        1,
    )


def memory_grows(subject: Subject) -> Finding | None:
    """Each step ends with more memory than the step before: something keeps a reference."""
    changes, levels = _levels(subject)
    for steps in subject.steps:
        if len(steps.end_ns) < STEPS or not len(changes):
            continue
        at = np.searchsorted(changes, steps.end_ns, side="right") - 1
        ends = np.where(at >= 0, levels[np.maximum(at, 0)], 0)[1:]
        grown = int(ends[-1] - ends[0])
        if "token" not in steps.name and (np.diff(ends) > 0).all() and grown > 0.01 * max(1, ends[0]):
            return Finding(
                "memory_grows",
                "medium",
                f"every {steps.name} ends with more device memory, {grown / (len(ends) - 1):,.0f} bytes each",
                "look for a list that keeps losses or outputs with their graphs; use .detach() or .item()",
                Kind.STEP,
                tuple(range(min(20, len(ends)))),
                len(ends),
            )
    return None


def _levels(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """When memory changed on any core, and the sum of all sizes from then on."""
    allocs, frees = subject.table(Kind.ALLOC), subject.table(Kind.FREE)
    starts = np.concatenate([allocs.column("start_ns"), frees.column("start_ns")])
    sizes = np.concatenate([allocs.column("size_bytes"), -frees.column("size_bytes")])
    order = np.argsort(starts, kind="stable")
    begin = sum(core.start_bytes or 0 for core in subject.memory)
    return starts[order], begin + np.cumsum(sizes[order])
