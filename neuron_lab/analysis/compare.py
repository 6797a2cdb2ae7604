"""Two profiles side by side: by how much each operator became slower or faster, with a confidence interval.

Times are wall times, measured; on hardware profiles they are the device's own when both have them. Calls of one
operator with different shapes are told apart. With one profile on each side the calls are cut into blocks in
time and a block is one observation, so drift within a run widens the interval; what differs from run to run
only (a warmer machine) is not in it. With three profiles or more on both sides a profile is one observation,
and it is.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.two_ends import Array
from neuron_lab.errors import UsageError
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import UNFINISHED, Clock, Kind, Signature
from neuron_lab.trace.table import Table, Trace

BLOCKS = 12  # few and long: a block should be longer than what the machine takes to drift
FEWEST_CALLS = 16
FEWEST_RUNS = 3
LEAST_SHARE = 0.001  # of the time; rarer operators are not tested
LEAST_CHANGE = 0.02  # smaller changes are shown but give no finding
ALL = "all operators"


@dataclass(frozen=True, slots=True)
class Delta:
    """`change` 0.05 is five per cent slower. The interval holds for all rows together at the confidence
    given."""

    op: str
    calls: tuple[int, int]
    before_ns: float  # median of a call
    after_ns: float
    change: float
    interval: Interval

    @property
    def is_finding(self) -> bool:
        return abs(self.change) >= LEAST_CHANGE and not self.interval.contains(0)

    def __str__(self) -> str:
        return (
            f"{self.op}: {self.change:+.1%} ({self.interval.low:+.1%} to {self.interval.high:+.1%}), "
            f"median {self.before_ns / 1e3:.3g} → {self.after_ns / 1e3:.3g} µs, measured"
        )


@dataclass(frozen=True)
class Comparison:
    """Largest change first. `only_before` and `only_after` are operators that one side lacks."""

    deltas: tuple[Delta, ...]
    confidence: float
    clock: str
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()  # too few calls

    @property
    def findings(self) -> tuple[Delta, ...]:
        return tuple(delta for delta in self.deltas if delta.is_finding)

    def __str__(self) -> str:
        if not self.deltas:
            return "nothing to compare: no operator has enough calls on both sides"
        lines = [str(delta) for delta in self.findings]
        head = (
            f"{len(lines)} of {len(self.deltas)} operators changed ({self.confidence:.0%} confidence for all)"
        )
        return "\n".join([head, *lines])


def compare(
    before: Trace | Sequence[Trace], after: Trace | Sequence[Trace], *, confidence: float = 0.95
) -> Comparison:
    """Raises UsageError without a trace on either side, or for a confidence outside (0, 1)."""
    sides = [[side] if isinstance(side, Trace) else list(side) for side in (before, after)]
    if not all(sides):
        raise UsageError("compare() needs at least one profile on each side")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence={confidence}: must lie between 0 and 1, for example 0.95")
    clock = _clock([*sides[0], *sides[1]])
    calls = [[_calls(trace, clock) for trace in side] for side in sides]
    known = [set().union(*(each.keys() for each in side)) for side in calls]
    every = dict.fromkeys(key for side in calls for each in side for key in each)
    shared = [key for key in every if key in known[0] and key in known[1]]
    by_op: dict[str, list[_Key]] = {}
    for key in shared:
        by_op.setdefault(key[0], []).append(key)
    whole = sum(_time(each, shared) for side in calls for each in side) or 1.0
    tested = {
        op: keys
        for op, keys in by_op.items()
        if min(sum(_count(each, keys) for each in side) for side in calls) >= FEWEST_CALLS
        and sum(_time(each, keys) for side in calls for each in side) >= LEAST_SHARE * whole
    }
    rows = {ALL: [key for keys in tested.values() for key in keys], **tested} if tested else {}
    alpha = (1 - confidence) / max(1, len(rows))
    drift = _drift(rows[ALL], calls) if rows else 0.0
    deltas = [_delta(op, keys, calls, alpha, drift) for op, keys in rows.items()]
    deltas.sort(key=lambda delta: -abs(delta.change))
    ops = [{key[0] for key in side} for side in known]
    return Comparison(
        tuple(deltas),
        confidence,
        clock,
        tuple(sorted(ops[0] - ops[1])),
        tuple(sorted(ops[1] - ops[0])),
        tuple(sorted(set(by_op) - set(tested))),
    )


_Key = tuple[str, Signature | None]
_Calls = dict[_Key, tuple[Array, Array]]  # start and duration of each call, in order


def _clock(traces: Sequence[Trace]) -> str:
    measured = all(_measured_kernels(trace) is not None for trace in traces)
    return Clock.MEASURED if measured else Clock.WALL


def _measured_kernels(trace: Trace) -> Table | None:
    table = trace.table(Kind.KERNEL)
    table = table.where(table.matches("clock", Clock.MEASURED)) if len(table) else table
    return table if len(table) else None


def _calls(trace: Trace, clock: str) -> _Calls:
    table = _measured_kernels(trace) if clock == Clock.MEASURED else trace.table(Kind.OPERATOR)
    assert table is not None
    table = table.where((table.column("duration_ns") != UNFINISHED) & (table.column("duration_ns") > 0))
    codes, signature = table.codes("name").astype(np.int64), table.column("signature").astype(np.int64)
    combined = (codes + 1) * (len(trace.signatures) + 1) + signature + 1
    order = np.argsort(combined, kind="stable")
    words = [*table.vocabulary, ""]
    found: _Calls = {}
    for rows in np.split(order, np.flatnonzero(np.diff(combined[order])) + 1):
        if len(rows):
            index = int(signature[rows[0]])
            known = trace.signatures[index] if 0 <= index < len(trace.signatures) else None
            plain = None if known is None else _plain(known)
            key = (words[codes[rows[0]]], plain)
            found[key] = (table.column("start_ns")[rows], table.column("duration_ns")[rows])
    return found


def _plain(signature: Signature) -> Signature:
    """Without the numbers that differ from trace to trace."""
    return dataclasses.replace(signature, graph=-1, stack=-1)


def _time(calls: _Calls, keys: Sequence[_Key]) -> float:
    return float(sum(calls[key][1].sum() for key in keys if key in calls))


def _count(calls: _Calls, keys: Sequence[_Key]) -> int:
    return sum(len(calls[key][1]) for key in keys if key in calls)


def _delta(op: str, keys: Sequence[_Key], calls: list[list[_Calls]], alpha: float, drift: float) -> Delta:
    """Difference of mean logarithms, so that 5 % means the same for short and long calls."""
    samples = [_observations(side) for side in _sides(keys, calls)]
    change, half = _difference(samples[0], samples[1], alpha, drift)
    medians = [_median(side, keys) for side in calls]
    counts = [sum(_count(each, keys) for each in side) for side in calls]
    return Delta(
        op,
        (counts[0], counts[1]),
        medians[0],
        medians[1],
        math.expm1(change),
        Interval(math.expm1(change - half), math.expm1(change + half)),
    )


def _sides(keys: Sequence[_Key], calls: list[list[_Calls]]) -> list[list[tuple[Array, Array]]]:
    centre = {key: _pooled(key, calls) for key in keys}
    weight = {key: _weight(key, calls) for key in keys}
    return [[_residuals(each, keys, centre, weight) for each in side] for side in calls]


def _drift(keys: Sequence[_Key], calls: list[list[_Calls]]) -> float:
    """Variance of the machine's own speed from quarter to quarter of a run, over all operators together.

    One run on a side cannot say how runs differ; that they differ by as much as its quarters is the least.
    """
    if min(map(len, calls)) >= FEWEST_RUNS:
        return 0.0
    found = []
    for logs, weights in (run for side in _sides(keys, calls) for run in side):
        parts = zip(np.array_split(logs, 4), np.array_split(weights, 4), strict=True)
        quarters = [float(np.average(part, weights=each)) for part, each in parts if len(part)]
        noise = float(np.average((logs - np.average(logs, weights=weights)) ** 2, weights=weights**2))
        noise *= float((weights**2).sum() / weights.sum() ** 2) * 4
        found.append(max(0.0, float(np.var(quarters, ddof=1)) - noise))
    return sum(found) / len(found)


def _pooled(key: _Key, calls: list[list[_Calls]]) -> float:
    logs = [np.log(each[key][1]) for side in calls for each in side if key in each]
    return float(np.median(np.concatenate(logs)))


def _weight(key: _Key, calls: list[list[_Calls]]) -> float:
    """Mean time of a call: a change of a long operator counts for more in the sum of all."""
    return float(np.mean(np.concatenate([each[key][1] for side in calls for each in side if key in each])))


def _residuals(
    calls: _Calls, keys: Sequence[_Key], centre: dict[_Key, float], weight: dict[_Key, float]
) -> tuple[Array, Array]:
    """Logarithms relative to their shape's usual, in order of time, with weights."""
    present = [key for key in keys if key in calls]
    if not present:
        return np.empty(0), np.empty(0)
    starts = np.concatenate([calls[key][0] for key in present])
    logs = np.concatenate([np.log(calls[key][1]) - centre[key] for key in present])
    weights = np.concatenate([np.full(len(calls[key][1]), weight[key]) for key in present])
    order = np.argsort(starts, kind="stable")
    return _clipped(logs[order]), weights[order]


def _clipped(logs: Array) -> Array:
    """A call that another process interrupted should not decide: beyond five times the usual spread it is
    cut."""
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))
    return np.clip(logs, middle - 5 * spread, middle + 5 * spread) if spread else logs


def _observations(runs: list[tuple[Array, Array]]) -> Array:
    if len(runs) >= FEWEST_RUNS:
        return np.array([np.average(logs, weights=weights) for logs, weights in runs if len(logs)])
    blocks = []
    for logs, weights in runs:
        count = min(BLOCKS, max(2, len(logs) // 4))
        pairs = zip(np.array_split(logs, count), np.array_split(weights, count), strict=True)
        blocks += [float(np.average(part, weights=each)) for part, each in pairs if len(part)]
    return np.array(blocks)


def _difference(before: Array, after: Array, alpha: float, drift: float) -> tuple[float, float]:
    """Difference of means and half its confidence interval (Welch, with blocks that follow one another)."""
    change = float(after.mean() - before.mean())
    errors = [(error + drift, worth) for error, worth in map(_squared_error, (before, after))]
    whole = sum(error for error, _ in errors)
    if whole == 0:
        return change, 0.0
    freedom = whole**2 / sum(error**2 / (count - 1) for error, count in errors if error)
    return change, quantile_t(1 - alpha / 2, max(2.0, freedom)) * math.sqrt(whole)


def _squared_error(side: Array) -> tuple[float, float]:
    """Squared standard error of a mean, and how many independent observations the blocks are worth."""
    count = len(side)
    if count < 2:
        return math.inf, 2.0
    variance = float(side.var(ddof=1))
    deviation = side - side.mean()
    lag = float((deviation[1:] * deviation[:-1]).sum() / max((deviation**2).sum(), 1e-300))
    lag = min(0.9, max(0.0, lag + (1 + 3 * max(lag, 0)) / count))  # it is biased downwards by so much
    inflation = (1 + lag) / (1 - lag)
    variance *= (count - 1) / max(1.0, count - inflation)  # blocks alike spread less than they should
    worth = max(2.0, count / inflation)
    return variance / worth, worth


def quantile_t(probability: float, freedom: float) -> float:
    """Student's t, by the expansion around the normal quantile; within 1 % from four degrees of freedom on."""
    z = statistics.NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def _median(side: list[_Calls], keys: Sequence[_Key]) -> float:
    return float(np.median(np.concatenate([each[key][1] for each in side for key in keys if key in each])))
