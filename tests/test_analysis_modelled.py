"""The modelled timeline of small traces, and its live counterpart."""

from typing import Any

import numpy as np
import pytest
from builders import Event, make_event, make_signature, make_trace

from neuron_lab.analysis.live_model import LiveModel
from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.analysis.two_ends import CoreKey
from neuron_lab.hardware.assumptions import DEFAULT, Assumption
from neuron_lab.hardware.chips import TRN2
from neuron_lab.hardware.cost import kernel_cost
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import work_of
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import GraphSpec, Kind, Signature, TraceHeader
from neuron_lab.trace.table import Trace

SMALL = make_signature(inputs=((1, 64), (64, 64)), outputs=((1, 64),), dtype="bfloat16")
LARGE = make_signature(inputs=((2048, 2048), (2048, 2048)), outputs=((2048, 2048),), dtype="bfloat16")
VIEW = make_signature("aten::t", ((2, 3),), ((3, 2),), compiles=False)

SMALL_NS = Interval(12, 5678)
LARGE_NS = Interval(108_734, 537_802)


def _trace(*events: Event, **header: Any) -> Trace:
    return make_trace(*events, **{"device": "emulated", "chip": "trn2", "lnc": 2, **header})


def _ops(*signatures: Signature, core: int = 0) -> list[Event]:
    return [
        make_event(Kind.OPERATOR, start_ns=1_000 * place, signature=signature, core=core)
        for place, signature in enumerate(signatures)
    ]


def _cost_ns(signature: Signature) -> Interval:
    return kernel_cost(work_of(signature.op, signature.inputs, signature.outputs), TRN2, 2).interval_ns


def test_the_costs_these_tests_count_with() -> None:
    assert (_cost_ns(SMALL), _cost_ns(LARGE)) == (SMALL_NS, LARGE_NS)


def test_small_kernels_wait_for_their_launches() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL, SMALL, SMALL)))
    assert timeline.start_ns.tolist() == [5_000, 10_000, 15_000]
    assert timeline.high_start_ns.tolist() == [50_000, 100_000, 150_000]


def test_large_kernels_follow_one_another() -> None:
    timeline = model_timeline(_trace(*_ops(LARGE, LARGE)))
    assert timeline.start_ns.tolist() == [5_000, 5_000 + 108_734]
    assert timeline.launch_start_ns.tolist() == [0, 5_000]


def test_span_and_busy_time_are_intervals() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL, SMALL)))
    assert timeline.span_ns == Interval(10_000 + 12, 100_000 + 5678)
    assert timeline.busy_ns == {CoreKey(0, 0): Interval(2 * 12, 2 * 5678)}


def test_busy_and_waiting_add_up_to_the_span_at_each_end() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL, SMALL)))
    assert timeline.waiting_ns() == {CoreKey(0, 0): Interval(10_012 - 24, 105_678 - 11_356)}


def test_the_busy_share_is_of_the_modelled_span() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL, SMALL)))
    assert timeline.busy_share() == Interval(24 / 10_012, 11_356 / 105_678)
    assert timeline.core_share() == {CoreKey(0, 0): Interval(24 / 10_012, 11_356 / 105_678)}


def test_two_cores_share_the_span() -> None:
    timeline = model_timeline(_trace(*_ops(LARGE, core=0), *_ops(LARGE, core=1)))
    span = 10_000 + 108_734
    share = timeline.busy_share()
    assert timeline.span_ns is not None
    assert timeline.span_ns.low == span
    assert share is not None
    assert share.high == pytest.approx(2 * 108_734 / (2 * span))


def test_views_host_work_and_fallbacks_run_no_kernel() -> None:
    fallback = make_signature("aten::sort", compiles=False)
    unassigned = make_event(Kind.OPERATOR, start_ns=9_000, signature=SMALL, core=-1)
    timeline = model_timeline(_trace(*_ops(VIEW, SMALL, fallback), unassigned))
    assert timeline.rows.tolist() == [1]


def test_each_kernel_names_what_limits_it() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL, LARGE)))
    assert timeline.bound_ns() == {"tensor": Interval(*_ends(LARGE_NS)), "hbm": Interval(*_ends(SMALL_NS))}


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def test_reading_a_result_makes_the_host_wait() -> None:
    copy = make_event(Kind.COPY, start_ns=500, direction="d2h")
    timeline = model_timeline(_trace(*_ops(LARGE, SMALL), copy))
    assert timeline.launch_start_ns.tolist() == [0, 113_734]


def test_writing_to_the_device_does_not_make_the_host_wait() -> None:
    copy = make_event(Kind.COPY, start_ns=500, direction="h2d")
    timeline = model_timeline(_trace(*_ops(LARGE, SMALL), copy))
    assert timeline.launch_start_ns.tolist() == [0, 5_000]


def test_a_fallback_makes_the_host_wait() -> None:
    timeline = model_timeline(_trace(*_ops(LARGE, SMALL), make_event(Kind.FALLBACK, start_ns=500)))
    assert timeline.launch_start_ns.tolist() == [0, 113_734]


def test_ranks_launch_on_their_own() -> None:
    events = [make_event(Kind.OPERATOR, signature=SMALL, rank=rank) for rank in (0, 1)]
    timeline = model_timeline(_trace(*events))
    assert (timeline.launch_start_ns.tolist(), list(timeline.busy_ns)) == (
        [0, 0],
        [CoreKey(0, 0), CoreKey(1, 0)],
    )


def test_a_compiled_graph_is_one_launch() -> None:
    run = Signature("neuron::graph", graph=0)
    trace = make_trace(
        make_event(Kind.OPERATOR, name="graph_0", signature=run),
        graphs=[GraphSpec("graph_0", (LARGE, LARGE))],
        chip="trn2",
        lnc=2,
    )
    timeline = model_timeline(trace)
    assert (timeline.low_ns.tolist(), timeline.start_ns.tolist()) == ([217_467], [5_000])


def test_an_override_of_the_launch_time_moves_the_schedule() -> None:
    faster = DEFAULT.replace(launch_ns=Assumption(100, 100, 100, "ns", "read on an instance"))
    assert model_timeline(_trace(*_ops(SMALL, SMALL)), faster).start_ns.tolist() == [100, 200]


def test_operators_costed_by_a_guess_are_named() -> None:
    odd = make_signature("mine::thing", ((2, 3),), ((2, 3),))
    assert model_timeline(_trace(*_ops(SMALL, odd, odd))).unknown_ops == {"mine::thing": 2}


def test_without_kernels_there_is_no_reading() -> None:
    timeline = model_timeline(_trace(*_ops(VIEW)))
    assert (timeline.span_ns, timeline.busy_share(), timeline.busy_ns) == (None, None, {})
    assert timeline.why_not == "no kernel ran on the device"


def test_without_a_chip_there_is_no_reading() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL), chip=""))
    assert (len(timeline), timeline.why_not) == (0, "the trace names no chip")


def test_an_unknown_chip_is_named() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL), chip="trn9"))
    assert timeline.why_not == "no figures for chip 'trn9'; known: trn1, inf2, trn2, trn3"


def test_an_instance_names_its_chip() -> None:
    timeline = model_timeline(_trace(*_ops(SMALL), chip="", instance="trn2.48xlarge"))
    assert (timeline.chip, len(timeline)) == ("trn2", 1)


def _long_trace(count: int, signatures: int = 500) -> Trace:
    builder = TraceBuilder()
    for width in range(1, signatures + 1):
        builder.signature(make_signature(inputs=((1, 64), (64, width)), outputs=((1, width),)))
    draw = np.random.default_rng(0)
    builder.extend(
        Kind.OPERATOR,
        {
            "name": "aten::mm",
            "start_ns": np.arange(count) * 1_000,
            "duration_ns": 900,
            "signature": draw.integers(0, signatures, count).astype(np.int32),
            "core": draw.integers(0, 2, count).astype(np.int16),
        },
    )
    reads = np.arange(0, count * 1_000, 97_300)
    builder.extend(Kind.COPY, {"name": "copy", "start_ns": reads, "direction": "d2h", "core": 0})
    return builder.freeze(TraceHeader(chip="trn2", lnc=2))


def test_the_live_model_ends_where_the_timeline_ends() -> None:
    trace = _long_trace(5_000)
    table, reads = trace.table(Kind.OPERATOR), trace.table(Kind.COPY).column("start_ns")
    live = LiveModel(TRN2, 2)
    begin = 0
    for batch in np.array_split(np.arange(5_000), 37):
        columns = {name: table.column(name)[batch] for name in ("start_ns", "core", "signature")}
        last_ns = int(columns["start_ns"][-1])
        live.add(columns, trace.signatures, (), reads[(reads >= begin) & (reads <= last_ns)])
        begin = last_ns + 1
    timeline = model_timeline(trace)
    assert live.span_ns == timeline.span_ns
    assert live.busy_share() == timeline.busy_share()
    assert {CoreKey(0, core): busy for core, busy in live.busy_ns.items()} == timeline.busy_ns


def test_a_read_back_after_a_batch_delays_the_next_batch() -> None:
    live = LiveModel(TRN2, 2)
    columns = {"start_ns": np.array([0]), "core": np.array([0]), "signature": np.array([0])}
    live.add(columns, [LARGE], (), [10])
    live.add(columns, [LARGE])
    assert live.span_ns is not None
    assert live.span_ns.low == 2 * (5_000 + 108_734)


def test_the_live_model_costs_new_signatures_as_they_come() -> None:
    live = LiveModel(TRN2, 2)
    live.add({"start_ns": [0], "core": [0], "signature": [0]}, [SMALL])
    live.add({"start_ns": [1], "core": [0], "signature": [1]}, [SMALL, LARGE])
    assert live.busy_ns == {0: SMALL_NS + LARGE_NS}


def test_the_live_model_has_no_reading_before_the_first_kernel() -> None:
    assert (LiveModel(TRN2).span_ns, LiveModel(TRN2).busy_share()) == (None, None)
