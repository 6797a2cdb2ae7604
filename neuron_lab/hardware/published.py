"""Published times beside the interval this model shows for them: how often it contains them, how well it ranks.

The rows are vendor measurements of whole software stacks (Neuron SDK documentation, August 2026). No constant
of the model is fitted to them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from neuron_lab.hardware.chips import TRN1
from neuron_lab.hardware.instances import instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.selective_scan import scan_kernel_ns, unfused_scan_ns
from neuron_lab.hardware.transformer import DECODERS, Estimate, decode_step, prompt_pass, training_step

MACHINE = "trn1.32xlarge"
RANKS = 32
WORTH_RANKING = 1.1  # pairs that differ by no more are not compared


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One published time in milliseconds, beside the modelled one."""

    table: str
    name: str
    measured_ms: float
    modelled_ms: Interval
    remark: str = ""

    @property
    def inside(self) -> bool:
        return self.modelled_ms.contains(self.measured_ms)

    @property
    def width(self) -> float:
        return self.modelled_ms.high / self.modelled_ms.low

    @property
    def middle_ms(self) -> float:
        """Geometric: what ranking uses."""
        return sqrt(self.modelled_ms.low * self.modelled_ms.high)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How rows and model agree."""

    rows: int
    inside: int
    pairs: int
    ranked_right: int
    median_width: float

    @property
    def inside_share(self) -> float:
        return self.inside / self.rows

    @property
    def ranked_share(self) -> float:
        return self.ranked_right / self.pairs


def agreement(rows: Sequence[PublishedRow]) -> Agreement:
    """Pairs are those within one table whose measured times differ by more than a tenth."""
    pairs = [pair for pair in combinations(rows, 2) if _worth_ranking(*pair)]
    right = sum((a.measured_ms < b.measured_ms) == (a.middle_ms < b.middle_ms) for a, b in pairs)
    inside = sum(row.inside for row in rows)
    return Agreement(len(rows), inside, len(pairs), right, statistics.median(row.width for row in rows))


def _worth_ranking(one: PublishedRow, other: PublishedRow) -> bool:
    low, high = sorted((one.measured_ms, other.measured_ms))
    return one.table == other.table and high > WORTH_RANKING * low


def published_rows() -> tuple[PublishedRow, ...]:
    return (*scan_rows(), *decode_rows(), *prompt_rows(), *training_rows())


# model, sequence, weights, time per output token in ms, time to first token in ms
_SERVING = (
    ("Llama-3-8B", 8192, "int8", 7.03, 17.1),
    ("Llama-3-70B", 4096, "bfloat16", 26.20, 547.0),
    ("Llama-2-7b", 8192, "bfloat16", 6.70, 13.3),
    ("Llama-2-70b", 256, "bfloat16", 25.18, 53.9),
    ("Llama-2-70b", 2048, "bfloat16", 26.04, 232.5),
    ("Mistral-7B-Instruct-v0.2", 16384, "bfloat16", 9.89, 1322.9),
)
_TOO_FAST = (
    "below what the peak rate allows for a prompt of this length: the prompt measured must have been shorter"
)


def decode_rows() -> Iterable[PublishedRow]:
    for name, length, weights, token_ms, _ in _SERVING:
        estimate = decode_of(name, length, weights)
        yield PublishedRow(
            "time per output token, TP 32", f"{name}, {length}, {weights}", token_ms, _ms(estimate.total_ns)
        )


def decode_of(name: str, length: int, weights: str) -> Estimate:
    return decode_step(DECODERS[name], instance(MACHINE), ranks=RANKS, length=length, weights=weights)


def prompt_rows() -> Iterable[PublishedRow]:
    for name, length, weights, _, first_ms in _SERVING:
        estimate = prompt_pass(
            DECODERS[name], instance(MACHINE), ranks=RANKS, length=length, weights=weights
        ).total_ns
        remark = _TOO_FAST if first_ms * 1e6 < estimate.low else ""
        yield PublishedRow(
            "time to first token, TP 32", f"{name}, {length}, {weights}", first_ms, _ms(estimate), remark
        )


# channels, length, version, ms
_SCAN = (
    (256, 512, 1, 0.173),
    (4096, 512, 1, 2.34),
    (4096, 512, 2, 1.61),
    (4096, 512, 3, 1.6),
    (4096, 2048, 2, 8.9),
    (4096, 2048, 3, 6.6),
    (4096, 4096, 2, 17.6),
    (4096, 4096, 3, 13.3),
    (4096, 6144, 2, 27.5),
    (4096, 6144, 3, 19.6),
    (4096, 8192, 2, 52.2),
    (4096, 8192, 3, 27.8),
)
_SCAN_STATES = 16


def scan_rows() -> Iterable[PublishedRow]:
    for channels, length, version, measured_ms in _SCAN:
        modelled = scan_kernel_ns(channels, length, _SCAN_STATES, version, TRN1)
        yield PublishedRow(
            "fused selective scan",
            f"version {version}, {channels} channels, {length} long",
            measured_ms,
            _ms(modelled),
        )
    unfused = unfused_scan_ns(256, 512, _SCAN_STATES, TRN1)
    yield PublishedRow(
        "fused selective scan",
        "the same by the framework's compiler, 256 channels, 512 long",
        151.83,
        _ms(unfused),
        "rests on an assumption about the compiler: one HBM round trip per step of the loop",
    )


def training_rows() -> Iterable[PublishedRow]:
    step = training_step(
        DECODERS["Llama-3.1-8B"], instance(MACHINE), ranks=RANKS, replicas=32, batch=1024, length=8192
    )
    yield PublishedRow(
        "training step",
        "Llama-3.1-8B, 32 machines, TP 32, DP 32, 1024 × 8192",
        1024 / 47.95 * 1e3,
        _ms(step.total_ns),
    )


def _ms(interval_ns: Interval) -> Interval:
    return interval_ns.scale(1e-6)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One decode row predicted by a time per all-reduce that was fitted to the other rows."""

    name: str
    measured_ms: float
    predicted_ms: float
    all_reduce_us: float

    @property
    def error(self) -> float:
        return self.predicted_ms / self.measured_ms - 1


def leave_one_out() -> tuple[LeftOut, ...]:
    """The hypothesis that all-reduces explain what the weight-read roofline leaves over, tested on unseen rows.

    The fitted time is shown and never used by the model.
    """
    fits = []
    for name, length, weights, token_ms, _ in _SERVING:
        estimate = decode_of(name, length, weights)
        roofline_ms = estimate.compute_ns.low * 1e-6
        fits.append((f"{name}, {length}", token_ms, roofline_ms, estimate.collectives))
    found = []
    for index, (name, measured, roofline, count) in enumerate(fits):
        others = [each for place, each in enumerate(fits) if place != index]
        each_ms = statistics.median((ms - base) / times for _, ms, base, times in others)
        found.append(LeftOut(name, measured, roofline + count * each_ms, each_ms * 1e3))
    return tuple(found)
