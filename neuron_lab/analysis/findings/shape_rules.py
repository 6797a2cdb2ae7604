"""Rules about shapes and dtypes of kernels."""

from __future__ import annotations

import numpy as np

from neuron_lab.analysis.findings.finding import Finding, Subject
from neuron_lab.analysis.what_if import what_if
from neuron_lab.hardware.chips import CHIPS
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import Work
from neuron_lab.trace.events import Kind, Signature

PADDING = 1.25  # of the array's cycles over what the flops need
WORTH_NAMING = 0.05  # of the kernel time
FP32_SHARE = 0.2
THIN_ROWS = 64
SHORT_ROW_BYTES = 512
WIDE = ("float64", "int64", "uint64", "complex128")


def off_the_grid(subject: Subject) -> Finding | None:
    """Products of ample size whose padded tiles cost a quarter more than their flops."""
    chosen = subject.kernels_of([_padded(work) > PADDING and _ample(work) for work in subject.works])
    share = subject.share_of(chosen)
    if not len(chosen) or share < WORTH_NAMING:
        return None
    worst = max(_padded(subject.works[index]) for index in np.unique(subject.timeline.signature[chosen]))
    saved = subject.time_of(chosen).scale(1 - 1 / worst)
    return Finding(
        "off_the_grid",
        "medium",
        f"{len(chosen):,} products do not fill tiles of 128: up to {worst - 1:.0%} of the array's "
        f"cycles are padding",
        "choose inner and outer sizes that are multiples of 128",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
        Interval(0, saved.high),
    )


def _padded(work: Work) -> float:
    """Cycles counted in whole tiles over the cycles of the flops alone."""
    if not work.flops or not work.tensor_cycles:
        return 1.0
    return work.tensor_cycles / (work.flops / (2 * 128 * 128))


def _ample(work: Work) -> bool:
    """Not a vector: a vector cannot fill the array whatever its length is."""
    return work.flops > 2 * 128**3


def float32_products(subject: Subject) -> Finding | None:
    """Kernels and graphs that multiply in float32 take a fifth of the kernel time, at a quarter of the rate."""
    dtypes = np.array(subject.engines.dtype)
    chosen = subject.kernels_of((subject.engines.flops > 0) & np.isin(dtypes, ("float32", "float64")))
    share = subject.share_of(chosen)
    if not len(chosen) or share < FP32_SHARE:
        return None
    later = what_if(subject.trace, dtype="bfloat16").after
    now, then = (
        subject.time_of(chosen),
        Interval(int(later.low_ns[chosen].sum()), int(later.high_ns[chosen].sum())),
    )
    gain = sorted((now.low - then.low, now.high - then.high))
    return Finding(
        "float32_products",
        "high",
        f"{len(chosen):,} kernels or graphs multiply in float32, {share:.0%} of the kernel time at least",
        "use bfloat16 weights and activations, or torch.autocast('neuron', torch.bfloat16)",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
        Interval(max(0.0, gain[0]), max(0.0, gain[1])),
    )


def wide_dtypes(subject: Subject) -> Finding | None:
    """Arithmetic on 64-bit tensors, which the chip computes in 32 bits."""
    chosen = subject.kernels_of([_computes_wide(*pair) for pair in _pairs(subject)])
    if not len(chosen):
        return None
    return Finding(
        "wide_dtypes",
        "medium",
        f"{len(chosen):,} kernels compute on 64-bit tensors; the chip has 32 bits",
        "use float32 and int32; keep int64 for indices alone",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
    )


def _computes_wide(work: Work, signature: Signature) -> bool:
    """float64 anywhere; int64 only in arithmetic, with more than a handful of elements."""
    if work.kind not in ("elementwise", "reduction", "matmul", "attention", "unknown"):
        return False
    if any(spec.dtype in ("float64", "complex128") for spec in signature.inputs):
        return True
    return work.dtype in WIDE and work.vector_elements >= 128


def thin_products(subject: Subject) -> Finding | None:
    """Products with few rows read all weights for little work: bound by HBM whatever the tensor engine does."""
    chosen = subject.kernels_of([_thin(*pair) for pair in _pairs(subject)])
    share = subject.share_of(chosen)
    if len(chosen) < 10 or share < 0.5:
        return None
    chip = CHIPS[subject.timeline.chip]
    return Finding(
        "thin_products",
        "low",
        f"{len(chosen):,} products have fewer than {THIN_ROWS} rows and take {share:.0%} of the kernel time at "
        f"least: {chip.name} reads weights all the time",
        "run more sequences at once, or store weights in fewer bits",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
    )


def _thin(work: Work, signature: Signature) -> bool:
    if work.kind != "matmul" or not signature.outputs or not work.flops:
        return False
    shape = signature.outputs[0].shape
    return int(np.prod(shape[:-1])) < THIN_ROWS and work.read_bytes > 64 * work.write_bytes


def short_rows(subject: Subject) -> Finding | None:
    """Gathers whose rows are shorter than what DMA moves at full rate."""
    chosen = subject.kernels_of([0 < work.row_bytes < SHORT_ROW_BYTES for work in subject.works])
    if len(chosen) < 10 or subject.share_of(chosen) < WORTH_NAMING:
        return None
    least = min(subject.works[index].row_bytes for index in np.unique(subject.timeline.signature[chosen]))
    return Finding(
        "short_rows",
        "medium",
        f"{len(chosen):,} gathers move rows of {least} bytes or more; DMA reaches its rate from about 2 KiB on",
        "gather whole rows, or lay the gathered axis out last and wide",
        Kind.OPERATOR,
        subject.rows_of(chosen),
        len(chosen),
        subject.place_of(chosen),
        Interval(0, subject.time_of(chosen).high),
    )


def _pairs(subject: Subject) -> list[tuple[Work, Signature]]:
    return list(zip(subject.works, subject.trace.signatures, strict=True))
