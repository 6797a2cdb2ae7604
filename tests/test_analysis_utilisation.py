"""Where the modelled span goes: exact parts of small traces, and that parts always sum to the span."""

from typing import Any

import numpy as np
import pytest
from builders import Event, make_event, make_signature, make_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_lab.analysis.engine_slices import engine_slices
from neuron_lab.analysis.engine_times import engine_table
from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.analysis.roofline import roofline
from neuron_lab.analysis.two_ends import CoreKey
from neuron_lab.analysis.utilisation import CoreUse, Utilisation, utilisation
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import GraphSpec, Kind, Signature
from neuron_lab.trace.table import Trace

SMALL = make_signature(inputs=((1, 64), (64, 64)), outputs=((1, 64),), dtype="bfloat16")  # 12 ns, HBM bound
LARGE = make_signature(inputs=((2048, 2048),) * 2, outputs=((2048, 2048),), dtype="bfloat16")  # 108 734 ns
ADD = make_signature("aten::add.Tensor", ((512, 512),) * 2, ((512, 512),))


def _trace(*events: Event, **header: Any) -> Trace:
    return make_trace(*events, **{"device": "emulated", "instance": "trn2.3xlarge", "lnc": 2, **header})


def _op(signature: Signature, start_ns: int = 0, **columns: Any) -> Event:
    return make_event(Kind.OPERATOR, name=signature.op, start_ns=start_ns, signature=signature, **columns)


def _low(found: Utilisation) -> dict[CoreKey, CoreUse]:
    return {use.core: use for use in found.of("low")}


def test_small_kernels_wait_for_launches_and_for_bytes() -> None:
    use = _low(utilisation(_trace(_op(SMALL), _op(SMALL, 1))))[CoreKey(0, 0)]
    assert use.span_ns == 10_012
    assert use.waiting_ns == {"dma": 22, "collective": 0, "launch": 9_988, "compile": 0, "dependency": 0}
    assert (use.computing_ns, use.idle_ns) == (2, 0)


def test_a_core_that_ends_early_is_idle() -> None:
    found = _low(utilisation(_trace(_op(SMALL, core=1), _op(LARGE, 1, core=0))))
    assert found[CoreKey(0, 1)].idle_ns == 10_000 + 108_734 - 5_012


def test_waiting_for_another_cores_result_is_a_dependency() -> None:
    read = make_event(Kind.COPY, start_ns=2, direction="d2h")
    trace = _trace(_op(SMALL, core=1), _op(LARGE, 1, core=0), read, _op(SMALL, 3, core=1))
    use = _low(utilisation(trace))[CoreKey(0, 1)]
    # after its first end at 5012: 4988 ns of the other core's launch, 108 734 ns of its kernel, its own launch
    assert (use.waiting_ns["launch"], use.waiting_ns["dependency"]) == (5_000 + 4_988 + 5_000, 108_734)


def test_compiling_counts_on_a_cold_cache_only() -> None:
    trace = _trace(_op(SMALL), _op(SMALL, 1), make_event(Kind.EAGER_KERNEL, signature=SMALL))
    warm, cold = utilisation(trace), utilisation(trace, cold=True)
    assert [use.waiting_ns["compile"] for use in warm.cores] == [0, 0]
    assert [use.waiting_ns["compile"] for use in cold.cores] == [1_000_000_000, 30_000_000_000]


def test_a_graph_compiles_with_its_nodes() -> None:
    trace = make_trace(
        _op(Signature("neuron::graph", graph=0)),
        make_event(Kind.COMPILE, node_count=2),
        graphs=[GraphSpec("g", (LARGE, LARGE))],
        chip="trn2",
        lnc=2,
    )
    assert utilisation(trace, cold=True).cores[0].waiting_ns["compile"] == 1_020_000_000


def _collective(rank: int, start_ns: int, group: str = "0,1") -> Event:
    columns = {"size_bytes": 0, "group": group, "rank": rank, "core": 0, "clock": "wall"}
    return make_event(Kind.COLLECTIVE, name="all_reduce", start_ns=start_ns, **columns)


def test_ranks_wait_for_one_another_at_a_collective() -> None:
    trace = _trace(
        _op(SMALL, 0, rank=0),
        _collective(0, 5),
        _op(LARGE, 0, rank=1),
        _collective(1, 5),
        _op(SMALL, 9, rank=0),
    )
    timeline = model_timeline(trace)
    early, late = timeline.collectives.placed
    assert (early.start_ns.low, late.start_ns.low) == (10_000, 113_734)
    assert (early.wait_ns[0], late.wait_ns[0], early.cost_ns[0]) == (103_734, 0, 5_000)
    assert timeline.start_ns.tolist() == [5_000, 118_734, 5_000]
    assert _low(utilisation(trace))[CoreKey(0, 0)].waiting_ns["collective"] == 108_734


def test_collectives_of_different_groups_do_not_wait() -> None:
    trace = _trace(_op(SMALL, 0, rank=0), _collective(0, 5, "a"), _op(LARGE, 0, rank=1), _collective(1, 5, "b"))
    assert [each.wait_ns for each in model_timeline(trace).collectives.placed] == [(0, 0), (0, 0)]


def test_a_collective_that_a_rank_lacks_holds_nobody() -> None:
    trace = _trace(
        _op(SMALL, 0, rank=0), _collective(0, 5), _collective(0, 6), _op(SMALL, 0, rank=1), _collective(1, 5)
    )
    assert len(model_timeline(trace).collectives.placed) == 3


def test_collectives_without_a_known_machine_are_not_modelled_and_say_so() -> None:
    timeline = model_timeline(_trace(_op(SMALL), _collective(0, 5), instance="", chip="trn2"))
    assert timeline.collectives.placed == ()
    assert timeline.collectives.why_not.startswith("the trace names no known instance")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["small", "large", "add", "read", "meet"]),
        st.integers(0, 1),  # core
        st.integers(0, 1),  # rank
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(EVENTS, st.booleans())
@settings(max_examples=120, deadline=None)
def test_the_parts_of_every_core_sum_to_the_span(events: list[tuple[str, int, int, bool]], cold: bool) -> None:
    signatures = {"small": SMALL, "large": LARGE, "add": ADD}
    rows = []
    for place, (what, core, rank, new) in enumerate(events):
        if what == "read":
            rows.append(make_event(Kind.COPY, start_ns=place, direction="d2h", rank=rank))
        elif what == "meet":
            rows.append(_collective(rank, place))
        else:
            rows.append(_op(signatures[what], place, core=core, rank=rank))
            if new:
                rows.append(make_event(Kind.EAGER_KERNEL, signature=signatures[what], start_ns=place))
    found = utilisation(_trace(*rows), cold=cold)
    for use in found.cores:
        assert use.parts_ns == use.span_ns
        assert min(use.computing_ns, use.idle_ns, *use.waiting_ns.values(), *use.engine_ns.values()) >= 0
        assert max(use.engine_ns.values()) <= use.computing_ns + use.waiting_ns["dma"]


def test_nothing_modelled_is_no_reading() -> None:
    found = utilisation(_trace())
    assert (found.cores, found.model_flops_share, found.why_not) == ((), None, "no kernel ran on the device")


def test_mfu_is_flops_over_the_peak_of_the_cores_used() -> None:
    found = utilisation(_trace(_op(LARGE)))
    flops = 2 * 2048**3
    assert found.flops == flops
    assert found.model_flops_share is not None
    assert found.model_flops_share.high == pytest.approx(flops / (2 * 79e3 * (5_000 + 108_734)))


def test_each_engine_of_a_kernel_is_a_slice() -> None:
    trace = _trace(_op(SMALL), _op(ADD, 1))
    timeline = model_timeline(trace)
    slices = engine_slices(timeline, engine_table(trace, timeline))
    assert slices.engine_names() == ["tensor", "hbm", "dma", "vector", "hbm", "dma"]
    assert slices.kernel.tolist() == [0, 0, 0, 1, 1, 1]
    assert slices.start_ns.tolist() == [5_000] * 3 + [10_000] * 3
    assert slices.low_ns.tolist()[3] == int(np.ceil(512 * 512 / (256 * 0.96 * 2)))


def test_a_kernels_slices_never_outlast_it() -> None:
    trace = _trace(_op(SMALL), _op(LARGE, 1), _op(ADD, 2))
    timeline = model_timeline(trace)
    slices = engine_slices(timeline, engine_table(trace, timeline))
    assert (slices.low_ns <= timeline.low_ns[slices.kernel]).all()
    assert (slices.low_ns <= slices.high_ns).all()


def test_a_roofline_point_has_intensity_rate_and_ceiling() -> None:
    trace = _trace(_op(LARGE))
    timeline = model_timeline(trace)
    point = roofline(trace, timeline, engine_table(trace, timeline))[0]
    assert point.intensity == pytest.approx(2 * 2048**3 / (3 * 2 * 2048**2))
    assert point.ceiling == 158
    assert point.reached is not None
    assert point.reached.high == pytest.approx(158, rel=0.001)


def test_a_thin_product_is_under_the_slanted_roof() -> None:
    trace = _trace(_op(SMALL))
    timeline = model_timeline(trace)
    point = roofline(trace, timeline, engine_table(trace, timeline))[0]
    size_bytes = 2 * (64 + 64 * 64 + 64)
    assert point.ceiling == pytest.approx(2 * 64 * 64 / size_bytes * 750 / 1e3)


def test_every_step_has_its_point() -> None:
    steps = [
        make_event(Kind.STEP, name="token", start_ns=0, duration_ns=10, index=0),
        make_event(Kind.STEP, name="token", start_ns=10, duration_ns=10, index=1),
    ]
    trace = _trace(_op(SMALL, 1), _op(LARGE, 11), _op(LARGE, 12), *steps)
    timeline = model_timeline(trace)
    points = [
        point for point in roofline(trace, timeline, engine_table(trace, timeline)) if point.scope == "token"
    ]
    assert [(point.name, point.kernels, point.time_ns) for point in points] == [
        ("0", 1, Interval(12, 5_678)),
        ("1", 2, Interval(217_468, 2 * 537_802)),
    ]
