"""Every rule: a planted positive that it finds, and a near miss on which it stays silent."""

from collections.abc import Callable
from typing import Any

import pytest
from builders import Event, make_event, make_signature, make_trace

from neuron_lab.analysis.findings import RULES, Finding, findings
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature
from neuron_lab.trace.table import Trace

GIB = 2**30
SMALL = make_signature(inputs=((1, 64), (64, 64)), outputs=((1, 64),), dtype="bfloat16")
LARGE = make_signature(inputs=((4096, 4096),) * 2, outputs=((4096, 4096),), dtype="bfloat16")
LARGE_32 = make_signature(inputs=((4096, 4096),) * 2, outputs=((4096, 4096),))
LARGE_16 = LARGE
ODD = make_signature(inputs=((4096, 130), (130, 4096)), outputs=((4096, 4096),), dtype="bfloat16")
ADD = make_signature("aten::add.Tensor", ((4096, 4096),) * 2, ((4096, 4096),), dtype="bfloat16")
THIN = make_signature(inputs=((1, 8192), (8192, 8192)), outputs=((1, 8192),), dtype="bfloat16")
THICK = make_signature(inputs=((64, 8192), (8192, 8192)), outputs=((64, 8192),), dtype="bfloat16")
CAT = make_signature("aten::cat", ((4096, 4096),), ((4096, 4096),), dtype="bfloat16")
CAST = make_signature("aten::_to_copy", ((512, 512),), ((512, 512),))
ROWS_64 = make_signature("aten::embedding", ((50_000, 32), (4096,)), ((4096, 32),), dtype="bfloat16")
ROWS_512 = make_signature("aten::embedding", ((50_000, 256), (4096,)), ((4096, 256),), dtype="bfloat16")
DOUBLE = make_signature("aten::mul.Tensor", ((8, 8),) * 2, ((8, 8),), dtype="float64")
LONG = make_signature("aten::mul.Tensor", ((32, 32),) * 2, ((32, 32),), dtype="int64")
INDEX = make_signature("aten::add.Tensor", ((1,),) * 2, ((1,),), dtype="int64")
UNKNOWN = make_signature("mine::thing", ((8, 8),), ((8, 8),))


def trace_of(*events: Event, **header: Any) -> Trace:
    return make_trace(*events, **{"instance": "trn2.3xlarge", "chip": "trn2", "lnc": 2, "cores": 4, **header})


def ops(*signatures: Signature, start_ns: int = 0, **columns: Any) -> list[Event]:
    return [
        make_event(
            Kind.OPERATOR, name=each.op, start_ns=start_ns + place, duration_ns=1, signature=each, **columns
        )
        for place, each in enumerate(signatures)
    ]


def steps(count: int, name: str = "token", length: int = 1000, first: int = 0) -> list[Event]:
    lengths = [first or length] + [length] * (count - 1)
    starts = [sum(lengths[:index]) for index in range(count)]
    return [
        make_event(Kind.STEP, name=name, start_ns=start, duration_ns=each, index=index)
        for index, (start, each) in enumerate(zip(starts, lengths, strict=True))
    ]


def in_each_step(count: int, kind: Kind, **columns: Any) -> list[Event]:
    return [make_event(kind, start_ns=1000 * index + 500, **columns) for index in range(count)]


def growing(tokens: int, repeats_last: bool = False) -> list[Event]:
    shapes = [(1, 64 + (index if not repeats_last or index < tokens - 1 else 0)) for index in range(tokens)]
    made = [make_signature("aten::relu", (shape,), (shape,)) for shape in shapes]
    return [
        make_event(Kind.OPERATOR, name=each.op, start_ns=1000 * index + 1, signature=each)
        for index, each in enumerate(made)
    ]


def recompiles(count: int, limit: bool = False) -> list[Event]:
    columns = {"variable": "x", "old": "1", "new": "2", "place": "a.py:3", "limit_reached": limit}
    return [make_event(Kind.RECOMPILE, name="forward", start_ns=index, **columns) for index in range(count)]


def collectives(count: int, size_bytes: int, **columns: Any) -> list[Event]:
    return [
        make_event(
            Kind.COLLECTIVE, name="all_reduce", start_ns=100 + index, size_bytes=size_bytes, core=0, **columns
        )
        for index in range(count)
    ]


def waited(rank: int, wait_ns: int, count: int = 5) -> list[Event]:
    return [
        make_event(
            Kind.COLLECTIVE,
            start_ns=1000 * index,
            duration_ns=900,
            rank=rank,
            core=0,
            wait_ns=wait_ns,
            group="g",
        )
        for index in range(count)
    ]


def allocated(*levels: int, at: int = 1000) -> list[Event]:
    changes = [after - before for before, after in zip((0, *levels), levels, strict=False)]
    return [
        make_event(Kind.ALLOC, start_ns=at * index + 500, size_bytes=change, allocated_bytes=level)
        for index, (change, level) in enumerate(zip(changes, levels, strict=True))
    ]


def back_copies(count: int) -> list[Event]:
    return in_each_step(count, Kind.COPY, direction="d2h", size_bytes=4)


def breaks(count: int) -> list[Event]:
    return [make_event(Kind.GRAPH_BREAK, place=f"a.py:{index}", reason="print") for index in range(count)]


GRAPH = Signature("neuron::graph", graph=0)
MARK = make_event(Kind.MARK, name="forward", start_ns=0, duration_ns=100)

# rule: (planted positive, near miss)
PLANTED: dict[str, tuple[Callable[[], Trace], Callable[[], Trace]]] = {
    "launch_bound": (
        lambda: trace_of(*ops(*[SMALL] * 50)),
        lambda: trace_of(*ops(*[SMALL] * 50, *[LARGE] * 10)),
    ),
    "poor_overlap": (
        lambda: trace_of(*ops(*[ADD] * 50)),
        lambda: trace_of(*ops(*[ADD] * 50, *[LARGE] * 45)),
    ),
    "copies_dominate": (
        lambda: trace_of(*ops(*[CAT] * 10)),
        lambda: trace_of(*ops(*[CAT] * 10, *[LARGE] * 12)),
    ),
    "dtype_ping_pong": (
        lambda: trace_of(*ops(*[CAST] * 10, *[SMALL] * 90)),
        lambda: trace_of(*ops(*[CAST] * 10, *[SMALL] * 91)),
    ),
    "unused_cores": (
        lambda: trace_of(*ops(*[SMALL] * 50)),
        lambda: trace_of(*ops(*[SMALL] * 50), *ops(SMALL, core=1)),
    ),
    "off_the_grid": (
        lambda: trace_of(*ops(ODD, LARGE)),
        lambda: trace_of(*ops(LARGE, SMALL)),
    ),
    "float32_products": (
        lambda: trace_of(*ops(LARGE_32, LARGE_16)),
        lambda: trace_of(*ops(LARGE_16, LARGE_16)),
    ),
    "wide_dtypes": (
        lambda: trace_of(*ops(DOUBLE)),
        lambda: trace_of(*ops(INDEX)),
    ),
    "thin_products": (
        lambda: trace_of(*ops(*[THIN] * 10)),
        lambda: trace_of(*ops(*[THICK] * 10)),
    ),
    "short_rows": (
        lambda: trace_of(*ops(*[ROWS_64] * 10)),
        lambda: trace_of(*ops(*[ROWS_512] * 10)),
    ),
    "fallback_on_the_hot_path": (
        lambda: trace_of(*steps(4), *in_each_step(3, Kind.FALLBACK)),
        lambda: trace_of(*steps(4), *in_each_step(2, Kind.FALLBACK)),
    ),
    "read_back_every_step": (
        lambda: trace_of(*steps(3, "optimizer step"), *back_copies(3)),
        lambda: trace_of(*steps(3, "optimizer step"), *back_copies(2)),
    ),
    "many_small_copies": (
        lambda: trace_of(*[make_event(Kind.COPY, direction="h2d", size_bytes=4096)] * 100),
        lambda: trace_of(*[make_event(Kind.COPY, direction="h2d", size_bytes=4097)] * 100),
    ),
    "unsynchronised_timing": (
        lambda: trace_of(*ops(SMALL, start_ns=10), MARK, make_event(Kind.COPY, start_ns=101, direction="d2h")),
        lambda: trace_of(*ops(SMALL, start_ns=10), MARK, make_event(Kind.COPY, start_ns=99, direction="d2h")),
    ),
    "first_iteration_counted": (
        lambda: trace_of(*steps(4, first=2001), make_event(Kind.EAGER_KERNEL, start_ns=5)),
        lambda: trace_of(*steps(4, first=2000), make_event(Kind.EAGER_KERNEL, start_ns=5)),
    ),
    "growing_cache": (
        lambda: trace_of(*steps(4), *growing(4)),
        lambda: trace_of(*steps(4), *growing(4, repeats_last=True)),
    ),
    "new_kernels_every_step": (
        lambda: trace_of(*steps(4, "optimizer step"), *growing(4)),
        lambda: trace_of(*steps(4, "optimizer step"), *growing(4, repeats_last=True)),
    ),
    "recompile_limit": (
        lambda: trace_of(*recompiles(1, limit=True)),
        lambda: trace_of(*recompiles(1)),
    ),
    "repeated_recompiles": (
        lambda: trace_of(*recompiles(3)),
        lambda: trace_of(*recompiles(2)),
    ),
    "many_graph_breaks": (lambda: trace_of(*breaks(3)), lambda: trace_of(*breaks(2))),
    "records_dropped": (lambda: trace_of(dropped={"full": 1}), lambda: trace_of(dropped={"full": 0})),
    "costed_by_a_guess": (
        lambda: trace_of(*ops(UNKNOWN, *[SMALL] * 9)),
        lambda: trace_of(*ops(UNKNOWN, *[SMALL] * 10)),
    ),
    "near_the_limit": (
        lambda: trace_of(*allocated(18, 9), hbm_limit_bytes=20),
        lambda: trace_of(*allocated(17, 9), hbm_limit_bytes=20),
    ),
    "memory_grows": (
        lambda: trace_of(*steps(5, "optimizer step"), *allocated(10, 20, 30, 40, 50)),
        lambda: trace_of(*steps(5, "optimizer step"), *allocated(10, 20, 30, 30, 50)),
    ),
    "tiny_collectives": (
        lambda: trace_of(*collectives(16, 65_535)),
        lambda: trace_of(*collectives(16, 65_536)),
    ),
    "straggler": (
        lambda: trace_of(*waited(0, 400), *waited(1, 10), *waited(2, 390), *waited(3, 410)),
        lambda: trace_of(*waited(0, 400), *waited(1, 300), *waited(2, 390), *waited(3, 410)),
    ),
    "exposed_collectives": (
        lambda: trace_of(
            *ops(SMALL),
            *collectives(4, 1000, group="g"),
            *ops(SMALL, rank=1),
            *collectives(4, 1000, group="g", rank=1),
        ),
        lambda: trace_of(*ops(*[LARGE] * 60), *collectives(1, 1000, group="g"), *ops(SMALL, rank=1)),
    ),
}


def _found(trace: Trace, rule: str) -> list[Finding]:
    return [finding for finding in findings(trace) if finding.rule == rule]


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_positive_is_found(rule: str) -> None:
    assert len(_found(PLANTED[rule][0](), rule)) == 1


@pytest.mark.parametrize("rule", PLANTED)
def test_a_near_miss_is_not(rule: str) -> None:
    assert _found(PLANTED[rule][1](), rule) == []


def test_every_rule_is_planted() -> None:
    assert sorted(rule.__name__ for rule in RULES) == sorted(PLANTED)


@pytest.mark.parametrize("rule", PLANTED)
def test_evidence_names_existing_rows(rule: str) -> None:
    trace = PLANTED[rule][0]()
    (finding,) = _found(trace, rule)
    assert all(row < len(trace.table(finding.kind)) for row in finding.rows)
    assert finding.count > 0
    assert finding.cure


def test_findings_come_most_severe_first() -> None:
    trace = trace_of(*ops(*[SMALL] * 50), *recompiles(1, limit=True), dropped={"full": 3})
    severities = [finding.severity for finding in findings(trace)]
    assert severities == sorted(severities, key=("high", "medium", "low").index)
    assert severities[0] == "high"


def test_a_finding_says_where_the_kernel_was_first_needed() -> None:
    double = make_signature("aten::mul.Tensor", ((8, 8),) * 2, ((8, 8),), dtype="float64", stack=0)
    trace = trace_of(*ops(double), stacks=[(Frame("model.py", 7, "forward"),)])
    assert _found(trace, "wide_dtypes")[0].place == "model.py:7"


def test_the_gain_of_bf16_is_the_difference_of_the_two_models() -> None:
    (finding,) = _found(trace_of(*ops(LARGE_32)), "float32_products")
    low = round(2 * 4096**3 / 40e3) - round(2 * 4096**3 / 158e3)
    assert finding.gain_ns is not None
    assert finding.gain_ns.low == pytest.approx(low, abs=2)


def test_int64_arithmetic_on_many_elements_counts_as_wide() -> None:
    assert _found(trace_of(*ops(LONG)), "wide_dtypes")[0].count == 1


def test_generation_may_read_back_every_token() -> None:
    assert _found(trace_of(*steps(5), *back_copies(5)), "read_back_every_step") == []


def test_a_fallback_without_steps_needs_many_to_be_hot() -> None:
    few = [make_event(Kind.FALLBACK, start_ns=index) for index in range(29)]
    assert _found(trace_of(*few), "fallback_on_the_hot_path") == []
    assert len(_found(trace_of(*few, make_event(Kind.FALLBACK)), "fallback_on_the_hot_path")) == 1


def test_an_empty_trace_has_no_findings() -> None:
    assert findings(make_trace()) == ()


def test_graphs_are_no_eager_kernels_to_the_rules_of_shapes() -> None:
    trace = trace_of(*ops(GRAPH), graphs=[GraphSpec("g", (LARGE_32,))])
    assert _found(trace, "wide_dtypes") == []


def test_a_finding_reads_as_a_sentence() -> None:
    (finding,) = _found(trace_of(dropped={"full": 1}), "records_dropped")
    assert str(finding) == (
        "[medium] 1 events were lost while recording: every count and time is too low. "
        "profile fewer steps, or without stacks."
    )


def test_float32_in_a_compiled_graph_is_found_too() -> None:
    trace = trace_of(*ops(GRAPH), graphs=[GraphSpec("g", (LARGE_32,))])
    assert _found(trace, "float32_products")[0].count == 1


def test_a_growing_list_of_token_ids_is_not_a_growing_cache() -> None:
    """It grows with a static cache too, on integers."""
    ids = [
        make_signature("aten::cat", ((1, 64 + index),), ((1, 65 + index),), dtype="int64") for index in range(4)
    ]
    events = [
        make_event(Kind.OPERATOR, name=each.op, start_ns=1000 * index + 1, signature=each)
        for index, each in enumerate(ids)
    ]
    assert _found(trace_of(*steps(4), *events), "growing_cache") == []


def test_a_growing_cache_gains_the_time_of_its_compilations() -> None:
    (finding,) = _found(trace_of(*steps(4), *growing(4)), "growing_cache")
    assert (finding.gain_ns.low, finding.gain_ns.high) == (3e9, 90e9)  # type: ignore[union-attr]


def test_ranges_that_torch_names_itself_are_not_the_users_timing() -> None:
    mark = make_event(Kind.MARK, name="Optimizer.step#AdamW.step", start_ns=0, duration_ns=100)
    assert _found(trace_of(*ops(SMALL, start_ns=10), mark), "unsynchronised_timing") == []


def test_a_gain_reads_in_the_unit_that_fits() -> None:
    (finding,) = _found(trace_of(*steps(4), *growing(4)), "growing_cache")
    assert str(finding).endswith("Could save 3 to 90 s, modelled.")
