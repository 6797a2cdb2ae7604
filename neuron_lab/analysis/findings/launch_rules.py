"""Rules about launching, fusing and waiting on the device."""

from __future__ import annotations

import numpy as np

from neuron_lab.analysis.findings.finding import MOST_EVIDENCE, Finding, Subject
from neuron_lab.analysis.utilisation import End
from neuron_lab.hardware.cost import BOUNDS
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import Work
from neuron_lab.trace.events import Kind

LAUNCH_SHARE = 0.5
FEW_LAUNCHES = 50
MEMORY_SHARE = 0.5
COPY_SHARE = 0.2
CAST_SHARE = 0.1


def launch_bound(subject: Subject) -> Finding | None:
    """Cores wait for the host at both ends of the model, for at least half of the span."""
    uses = subject.use.cores
    if not uses or len(subject.timeline) < FEW_LAUNCHES:
        return None
    ends: tuple[End, ...] = ("low", "high")
    shares = {
        end: sum(use.waiting_ns["launch"] for use in subject.use.of(end))
        / sum(use.span_ns for use in subject.use.of(end))
        for end in ends
    }
    if min(shares.values()) < LAUNCH_SHARE:
        return None
    waits = [max(use.waiting_ns["launch"] for use in subject.use.of(end)) for end in ends]
    return Finding(
        "launch_bound",
        "high",
        f"launch-bound: cores wait for launches {min(shares.values()):.0%} to "
        f"{max(shares.values()):.0%} of the "
        f"modelled span, over {len(subject.timeline):,} kernels",
        "compile the loop's body (torch.compile), so that many kernels become one launch",
        Kind.OPERATOR,
        subject.rows_of(np.arange(min(MOST_EVIDENCE, len(subject.timeline)))),
        len(subject.timeline),
        subject.place_of(np.arange(len(subject.timeline))),
        Interval(min(waits), max(waits)),
    )


def poor_overlap(subject: Subject) -> Finding | None:
    """Kernels bound by HBM or DMA take most of the kernel time: the compute engines wait for bytes."""
    timeline = subject.timeline
    if len(timeline) < FEW_LAUNCHES:
        return None
    codes = [BOUNDS.index("hbm"), BOUNDS.index("dma")]
    elementwise = np.array([work.kind in ("elementwise", "reduction") for work in subject.works], bool)
    bound = np.flatnonzero(np.isin(timeline.bound, codes) & elementwise[timeline.signature])
    share = subject.share_of(bound)
    if share < MEMORY_SHARE:
        return None
    return Finding(
        "poor_overlap",
        "medium",
        f"{len(bound):,} element-wise kernels wait for HBM: {share:.0%} of the kernel time at least",
        "fuse neighbours by compiling, so that intermediates stay on the chip",
        Kind.OPERATOR,
        subject.rows_of(bound),
        len(bound),
        subject.place_of(bound),
        Interval(0, subject.time_of(bound).high),
    )


def copies_dominate(subject: Subject) -> Finding | None:
    """Copies of device tensors (contiguous, cat, repeat, …) take a fifth of the kernel time."""
    chosen = subject.kernels_of([work.kind == "copy" and not _is_cast(op) for work, op in _with_ops(subject)])
    share = subject.share_of(chosen)
    if len(chosen) < 10 or share < COPY_SHARE:
        return None
    return Finding(
        "copies_dominate",
        "medium",
        f"copies on the device take {share:.0%} of the kernel time at least ({len(chosen):,} kernels)",
        "keep one layout (avoid transposing before contiguous()), write into preallocated tensors "
        "instead of cat",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
        subject.time_of(chosen),
    )


def dtype_ping_pong(subject: Subject) -> Finding | None:
    """One kernel in ten only converts dtypes."""
    chosen = subject.kernels_of([_is_cast(op) for _, op in _with_ops(subject)])
    if len(chosen) < 10 or len(chosen) < CAST_SHARE * len(subject.timeline):
        return None
    return Finding(
        "dtype_ping_pong",
        "medium",
        f"{len(chosen):,} of {len(subject.timeline):,} kernels convert between dtypes",
        "keep activations in one dtype; let autocast cover the whole forward pass or none of it",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
        subject.time_of(chosen),
    )


def unused_cores(subject: Subject) -> Finding | None:
    """Work on one core of several, and enough of it to matter."""
    cores = subject.trace.header.cores
    used = len(subject.timeline.busy_ns)
    if cores < 2 or used != 1 or len(subject.trace.header.ranks) > 1 or len(subject.timeline) < FEW_LAUNCHES:
        return None
    return Finding(
        "unused_cores",
        "low",
        f"{used} of {cores} cores did all the work",
        "shard over the cores (tensor or data parallel), or rent fewer",
        Kind.OPERATOR,
        subject.rows_of(np.arange(1)),
        len(subject.timeline),
    )


def _with_ops(subject: Subject) -> list[tuple[Work, str]]:
    return list(zip(subject.works, (each.op for each in subject.trace.signatures), strict=True))


def _is_cast(op: str) -> bool:
    return op.startswith(("aten::_to_copy", "aten::to.", "prims::convert_element_type"))
