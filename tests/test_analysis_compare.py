"""Comparing profiles: a planted slowdown is found, identical runs give no finding, whatever the noise."""

import numpy as np
import pytest
from builders import make_signature, make_trace

from neuron_lab.analysis.compare import ALL, compare, quantile_t
from neuron_lab.errors import UsageError
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.table import Trace

OPS = {"aten::mm": 80_000, "aten::add.Tensor": 9_000, "aten::silu": 12_000, "aten::mul.Tensor": 7_000}
CALLS = 400


def run(seed: int, slower: dict[str, float] | None = None, drift: float = 0.03, calls: int = CALLS) -> Trace:
    """Four operators in two shapes each, noise that wanders slowly, now and then an interruption."""
    draw = np.random.default_rng(seed)
    builder = TraceBuilder()
    wander = np.zeros(calls)
    for place in range(1, calls):
        wander[place] = 0.95 * wander[place - 1] + draw.normal(0, drift * 0.3)
    for number, (op, usual) in enumerate(OPS.items()):
        for shape, factor in ((64, 1.0), (256, 3.0)):
            signature = builder.signature(make_signature(op, ((shape, 8),), ((shape, 8),)))
            noise = draw.normal(0, 0.08, calls) + wander
            late = draw.random(calls) < 0.01
            length = usual * factor * np.exp(noise) * (slower or {}).get(op, 1.0) * np.where(late, 20, 1)
            columns = {"name": op, "start_ns": np.arange(calls) * 1_000_000 + number, "signature": signature}
            builder.extend(Kind.OPERATOR, {**columns, "duration_ns": length.astype(np.int64), "core": 0})
    return builder.freeze(TraceHeader())


def test_a_planted_slowdown_of_five_percent_is_found_in_its_operator_alone() -> None:
    found = compare(run(1, drift=0.0), run(2, {"aten::mm": 1.05}, drift=0.0))
    assert "aten::mm" in {delta.op for delta in found.findings}
    assert {delta.op for delta in found.findings} <= {"aten::mm", ALL}
    (delta,) = [each for each in found.findings if each.op == "aten::mm"]
    assert delta.interval.contains(0.05)


def test_the_slowdown_is_found_in_most_of_twenty_pairs() -> None:
    hits = sum(
        "aten::mm"
        in {
            delta.op
            for delta in compare(run(seed, drift=0.01), run(seed + 500, {"aten::mm": 1.05}, 0.01)).findings
        }
        for seed in range(20)
    )
    assert hits >= 16


@pytest.mark.parametrize("drift", [0.0, 0.02])
def test_identical_runs_give_findings_in_at_most_five_of_a_hundred_pairs(drift: float) -> None:
    wrong = sum(
        bool(compare(run(seed, drift=drift, calls=400), run(seed + 1000, drift=drift, calls=400)).findings)
        for seed in range(100)
    )
    assert wrong <= 5


def test_the_same_trace_has_no_change() -> None:
    found = compare(run(1), run(1))
    assert {delta.change for delta in found.deltas} == {0.0}
    assert found.findings == ()


def test_three_runs_on_each_side_take_a_run_as_one_observation() -> None:
    before = [run(seed, drift=0.005) for seed in range(4)]
    after = [run(seed, {"aten::silu": 1.2}, drift=0.005) for seed in range(10, 14)]
    assert {delta.op for delta in compare(before, after).findings} - {ALL} == {"aten::silu"}


def test_another_mix_of_shapes_is_no_slowdown() -> None:
    short = make_signature(inputs=((1, 8),), outputs=((1, 8),))
    long = make_signature(inputs=((9, 8),), outputs=((9, 8),))

    def mixed(shorts: int, longs: int) -> Trace:
        builder = TraceBuilder()
        for signature, count, length in ((short, shorts, 1_000), (long, longs, 9_000)):
            lengths = length + np.arange(count) % 7
            columns = {
                "name": "aten::mm",
                "start_ns": np.arange(count) * 10,
                "signature": builder.signature(signature),
            }
            builder.extend(Kind.OPERATOR, {**columns, "duration_ns": lengths, "core": 0})
        return builder.freeze(TraceHeader())

    assert compare(mixed(300, 100), mixed(100, 300)).findings == ()


def test_operators_of_one_side_are_named() -> None:
    only = TraceBuilder()
    only.extend(Kind.OPERATOR, {"name": "aten::exp", "start_ns": np.arange(30), "duration_ns": 5, "core": 0})
    found = compare(run(1, calls=30), only.freeze(TraceHeader()))
    assert (found.only_before, found.only_after, found.deltas) == (tuple(sorted(OPS)), ("aten::exp",), ())


def test_few_calls_are_not_tested_and_said_so() -> None:
    found = compare(run(1, calls=7), run(2, calls=7))
    assert (found.deltas, found.untested) == ((), tuple(sorted(OPS)))
    assert str(found) == "nothing to compare: no operator has enough calls on both sides"


def test_measured_kernels_win_over_wall_times_when_both_have_them() -> None:
    def hardware(length: int) -> Trace:
        builder = TraceBuilder()
        columns = {"name": "aten::mm", "start_ns": np.arange(100), "core": 0, "clock": "measured"}
        builder.extend(Kind.KERNEL, {**columns, "duration_ns": length + np.arange(100) % 5})
        return builder.freeze(TraceHeader())

    found = compare(hardware(1000), hardware(1100))
    assert (found.clock, len(found.findings)) == ("measured", 2)


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 10, 2.228), (0.975, 38, 2.024), (0.995, 5, 4.032), (0.9995, 20, 3.850)],
)
def test_the_quantile_of_students_t(probability: float, freedom: float, value: float) -> None:
    assert quantile_t(probability, freedom) == pytest.approx(value, rel=0.01)


def test_a_confidence_outside_its_range_is_refused() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        compare(make_trace(), make_trace(), confidence=95)


def test_no_profile_on_a_side_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one profile"):
        compare([], make_trace())


def test_a_delta_reads_with_its_interval() -> None:
    found = compare(run(1), run(1)).deltas[0]
    assert found.interval == Interval(found.interval.low, found.interval.high)
    assert "measured" in str(found)
