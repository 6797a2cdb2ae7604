"""Merging: every event of every rank once, nothing of two ranks confused."""

from __future__ import annotations

import numpy as np
import pytest
from builders import assert_same_trace, make_event, make_signature, make_trace, rows

from neuron_lab.errors import UsageError
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TraceHeader
from neuron_lab.trace.table import Trace


def test_tr_6_two_ranks_in_one_trace_do_not_share_a_lane() -> None:
    first = make_trace(*[make_event(start_ns=start, track=1) for start in (0, 10, 20)])
    second = make_trace(*[make_event(start_ns=start, track=1) for start in (5, 10, 15)])
    merged = Trace.merge([first, second])
    assert len(merged) == 6
    assert merged.header.ranks == (0, 1)
    assert rows(merged, Kind.OPERATOR, "rank", "track", "start_ns") == [
        (0, 1, 0),
        (1, 1, 5),
        (0, 1, 10),
        (1, 1, 10),
        (1, 1, 15),
        (0, 1, 20),
    ]


def test_ranks_that_differ_already_stay() -> None:
    merged = Trace.merge(
        [make_trace(make_event(rank=rank), ranks=(rank,), name=f"rank {rank}") for rank in (5, 2)]
    )
    assert merged.header.ranks == (2, 5)
    assert merged.table(Kind.OPERATOR).column("rank").tolist() == [5, 2]


def test_one_shared_rank_numbers_all_of_them_anew() -> None:
    first = make_trace(make_event(rank=0), make_event(rank=4), ranks=(0, 4))
    second = make_trace(make_event(rank=4), ranks=(4,))
    merged = Trace.merge([first, second])
    assert merged.table(Kind.OPERATOR).column("rank").tolist() == [0, 1, 2]


def test_every_kind_is_merged_and_unknown_ones_too() -> None:
    first = make_trace(
        make_event(Kind.COPY, size_bytes=1, direction="h2d"), make_event("teleport", target="Mars")
    )
    second = make_trace(make_event(Kind.COPY, size_bytes=2, direction="d2h"), make_event("teleport", speed=2))
    merged = Trace.merge([first, second])
    assert rows(merged, Kind.COPY, "size_bytes", "direction") == [(1, "h2d"), (2, "d2h")]
    assert rows(merged, "teleport", "target", "speed") == [("Mars", None), ("", 2)]


def test_texts_and_signatures_of_two_traces_are_not_mixed_up() -> None:
    first = make_trace(
        make_event(name="aten::mm", signature=make_signature("aten::mm")),
        make_event(name="aten::add", signature=make_signature("aten::add")),
    )
    second = make_trace(
        make_event(name="aten::sub", signature=make_signature("aten::sub")),
        make_event(name="aten::add", signature=make_signature("aten::add")),
    )
    merged = Trace.merge([first, second])
    named = [
        (name, merged.signatures[signature].op)
        for name, signature in rows(merged, Kind.OPERATOR, "name", "signature")
    ]
    assert named == [(op, op) for op in ("aten::mm", "aten::add", "aten::sub", "aten::add")]
    assert len(merged.signatures) == 3


def test_graphs_and_stacks_follow_their_signatures() -> None:
    def one(name: str) -> Trace:
        graph = GraphSpec(name, (make_signature(name, stack=0),))
        stack = (Frame(f"{name}.py", 1, "f"),)
        signature = Signature("neuron::graph", graph=0, stack=0)
        return make_trace(make_event(name=name, signature=signature), graphs=[graph], stacks=[stack])

    merged = Trace.merge([one("a"), one("b")])
    for name, index in rows(merged, Kind.OPERATOR, "name", "signature"):
        signature = merged.signatures[index]
        graph = merged.graphs[signature.graph]
        assert graph.name == name
        assert merged.stacks[signature.stack][0].file == f"{name}.py"
        assert merged.stacks[graph.nodes[0].stack][0].file == f"{name}.py"


def test_correlations_of_two_traces_stay_apart() -> None:
    def one() -> Trace:
        return make_trace(make_event(correlation=3), make_event(), make_event(Kind.KERNEL, correlation=3))

    merged = Trace.merge([one(), one()])
    assert merged.table(Kind.OPERATOR).column("correlation").tolist() == [1, 0, 2, 0]
    assert merged.table(Kind.KERNEL).column("correlation").tolist() == [1, 2]


def test_the_largest_correlation_numbers_do_not_overflow() -> None:
    one = make_trace(make_event(correlation=2**64 - 1), make_event(correlation=7))
    assert Trace.merge([one, one]).table(Kind.OPERATOR).column("correlation").tolist() == [2, 1, 4, 3]


def test_parents_stay_with_their_own_children() -> None:
    def one(name: str) -> Trace:
        builder = TraceBuilder()
        parent = builder.add(Kind.MARK, name=name, start_ns=0, duration_ns=9)
        builder.add(Kind.COPY, name=name, start_ns=1, parent=parent)
        return builder.freeze(TraceHeader())

    merged = Trace.merge([one("a"), one("b")])
    marks = dict(rows(merged, Kind.MARK, "id", "name"))
    assert [(name, marks[parent]) for name, parent in rows(merged, Kind.COPY, "name", "parent")] == [
        ("a", "a"),
        ("b", "b"),
    ]


def test_wall_times_are_moved_to_the_earliest_origin_and_modelled_ones_are_not() -> None:
    first = make_trace(make_event(start_ns=100), origin_unix_ns=5_000, duration_ns=300)
    second = make_trace(
        make_event(start_ns=100), make_event(Kind.KERNEL, start_ns=7), origin_unix_ns=4_000, duration_ns=900
    )
    merged = Trace.merge([first, second])
    assert rows(merged, Kind.OPERATOR, "rank", "start_ns") == [(1, 100), (0, 1_100)]
    assert rows(merged, Kind.KERNEL, "start_ns") == [(7,)]
    assert (merged.header.origin_unix_ns, merged.header.duration_ns) == (4_000, 1_300)


def test_times_stay_when_one_origin_is_unknown() -> None:
    merged = Trace.merge(
        [make_trace(make_event(start_ns=1), origin_unix_ns=5), make_trace(make_event(start_ns=2))]
    )
    assert merged.table(Kind.OPERATOR).column("start_ns").tolist() == [1, 2]
    assert merged.header.origin_unix_ns == 0


def test_the_merged_header_keeps_what_agrees_and_names_the_rank_of_what_does_not() -> None:
    first = make_trace(
        device="emulated", cores=4, versions={"torch": "2.13", "numpy": "2"}, dropped={"ring full": 2}, host="a"
    )
    second = make_trace(
        device="hardware",
        cores=4,
        versions={"torch": "2.14", "numpy": "2"},
        dropped={"ring full": 3},
        error="Oops",
    )
    header = Trace.merge([first, second]).header
    assert (header.device, header.cores, header.host) == ("mixed", 4, "a")
    assert header.versions == {"numpy": "2", "rank 0: torch": "2.13", "rank 1: torch": "2.14"}
    assert header.dropped == {"ring full": 5}
    assert header.error == "rank 1: Oops"


def test_counters_are_kept_per_rank_and_never_added() -> None:
    traces = [make_trace(counters={"peak_bytes": 10.0}), make_trace(counters={"peak_bytes": 10.0})]
    assert Trace.merge(traces).header.counters == {"rank 0: peak_bytes": 10.0, "rank 1: peak_bytes": 10.0}


def test_merging_one_trace_changes_nothing() -> None:
    trace = make_trace(
        make_event(signature=make_signature(), correlation=8),
        make_event(Kind.COPY, start_ns=4),
        counters={"peak_bytes": 1.0},
        context={"cell": "In [4]"},
    )
    assert_same_trace(Trace.merge([trace]), trace)


def test_traces_can_be_merged_twice() -> None:
    one = make_trace(make_event(correlation=1))
    twice = Trace.merge([Trace.merge([one, one]), one])
    assert rows(twice, Kind.OPERATOR, "rank", "correlation") == [(0, 1), (1, 2), (2, 3)]


def test_merging_nothing_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no traces"):
        Trace.merge([])


def test_a_hundred_thousand_rows_of_several_ranks_keep_their_rank() -> None:
    def one() -> Trace:
        builder = TraceBuilder()
        ranks = np.arange(100_000) % 3
        builder.extend(Kind.OPERATOR, {"name": "op", "start_ns": np.arange(100_000), "rank": ranks})
        return builder.freeze(TraceHeader(ranks=(0, 1, 2)))

    merged = Trace.merge([one(), one()])
    assert np.bincount(merged.table(Kind.OPERATOR).column("rank")).tolist() == [33_334, 33_333, 33_333] * 2
