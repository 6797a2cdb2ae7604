"""Fallbacks, copies, memory, operators and the totals a summary prints."""

import pytest
from builders import Event, make_event, make_signature, make_trace

from neuron_lab.analysis.copies import Copies, copies
from neuron_lab.analysis.fallbacks import Fallback, fallbacks
from neuron_lab.analysis.frames import FRAMES, frame
from neuron_lab.analysis.memory import CoreMemory, memory
from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.analysis.operators import Operator, operators
from neuron_lab.analysis.totals import totals
from neuron_lab.errors import UsageError
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import UNFINISHED, Kind

REASON = "falls back per the April 2026 list"
MM = make_signature()


def _alloc(start_ns: int, size: int, after: int, core: int = 0) -> Event:
    return make_event(Kind.ALLOC, start_ns=start_ns, size_bytes=size, allocated_bytes=after, core=core)


def _free(start_ns: int, size: int, after: int, core: int = 0) -> Event:
    return make_event(Kind.FREE, start_ns=start_ns, size_bytes=size, allocated_bytes=after, core=core)


def test_fb_1_a_fallback_is_counted_with_its_bytes_and_place() -> None:
    events = [
        make_event(Kind.FALLBACK, size_bytes=100, place=""),
        make_event(Kind.FALLBACK, size_bytes=20, place="In [3], line 9"),
        make_event(Kind.FALLBACK, name="aten::argmax", size_bytes=5, place=""),
    ]
    assert fallbacks(make_trace(*events)) == (
        Fallback("aten::sort", 2, 120, REASON, "In [3], line 9"),
        Fallback("aten::argmax", 1, 5, REASON, ""),
    )


def test_a_fallback_whose_bytes_nobody_read_has_no_reading() -> None:
    assert fallbacks(make_trace(make_event(Kind.FALLBACK, size_bytes=-1)))[0].size_bytes is None


def test_copies_add_up_per_direction() -> None:
    events = [
        make_event(Kind.COPY, size_bytes=100, duration_ns=10),
        make_event(Kind.COPY, size_bytes=50, duration_ns=UNFINISHED),
        make_event(Kind.COPY, size_bytes=8, duration_ns=3, direction="d2h"),
    ]
    assert copies(make_trace(*events)) == (Copies("h2d", 2, 150, 10), Copies("d2h", 1, 8, 3))


def test_the_peak_is_the_highest_level_and_the_end_the_last() -> None:
    trace = make_trace(_alloc(1, 100, 150), _free(2, 100, 50), _alloc(3, 20, 70), hbm_limit_bytes=1_000)
    assert memory(trace) == (CoreMemory(0, 0, 150, 50, 70, 1_000, 2, 1),)


def test_what_is_freed_first_was_there_at_the_start() -> None:
    core = memory(make_trace(_free(1, 100, 20)))[0]
    assert (core.start_bytes, core.peak_bytes, core.end_bytes) == (120, 120, 20)


def test_cores_are_apart_and_a_core_without_events_has_no_entry() -> None:
    trace = make_trace(_alloc(1, 100, 100, core=0), _alloc(1, 7, 7, core=3), cores=4)
    assert [(core.core, core.peak_bytes) for core in memory(trace)] == [(0, 100), (3, 7)]


def test_ut_1_memory_nobody_read_is_none_and_zero_is_zero() -> None:
    trace = make_trace(_alloc(1, 5, -1, core=2), _free(1, 5, 0, core=3))
    assert [(core.core, core.end_bytes) for core in memory(trace)] == [(2, None), (3, 0)]


def test_no_limit_in_the_header_is_no_limit() -> None:
    assert memory(make_trace(_alloc(1, 5, 5)))[0].limit_bytes is None


def test_operators_add_wall_and_modelled_time_by_name() -> None:
    events = [
        make_event(Kind.OPERATOR, duration_ns=10, signature=MM),
        make_event(Kind.OPERATOR, duration_ns=UNFINISHED, signature=MM),
        make_event(Kind.OPERATOR, name="aten::t", duration_ns=40, signature=make_signature("aten::t")),
    ]
    trace = make_trace(*events, chip="trn2", lnc=2)
    timeline = model_timeline(trace)
    each = Interval(int(timeline.low_ns[0]), int(timeline.high_ns[0]))
    assert operators(trace, timeline) == (
        Operator("aten::t", 1, 40, None),
        Operator("aten::mm", 2, 10, each.scale(2), unfinished=1),
    )


def test_totals_of_a_small_profile() -> None:
    events = [
        make_event(Kind.OPERATOR, signature=MM),
        make_event(Kind.FALLBACK, size_bytes=100),
        make_event(Kind.COPY, size_bytes=8),
        _alloc(1, 100, 100),
    ]
    found = totals(make_trace(*events, chip="trn2", lnc=2, duration_ns=5_000, dropped={"full": 3}))
    assert (found.operator_count, found.fallback_count, found.fallback_bytes) == (1, 1, 100)
    assert (found.wall_ns, found.peak_bytes, found.dropped_count) == (5_000, 100, 3)
    assert len(found.modelled) == 1


def test_ut_1_totals_of_nothing_have_no_readings() -> None:
    found = totals(make_trace())
    assert (found.wall_ns, found.peak_bytes, found.modelled.span_ns, found.modelled.busy_share()) == (None,) * 4


def test_fallbacks_without_any_reading_have_no_total_of_bytes() -> None:
    assert totals(make_trace(make_event(Kind.FALLBACK, size_bytes=-1))).fallback_bytes is None


@pytest.mark.parametrize("name", FRAMES)
def test_every_table_has_its_columns_even_without_rows(name: str) -> None:
    table = frame(make_trace(), name)
    assert (len(table), len(table.columns) > 1) == (0, True)


def test_an_unknown_table_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown table 'opps'; valid: ops, eager_kernels, steps"):
        frame(make_trace(), "opps")


def test_the_table_of_operators() -> None:
    table = frame(make_trace(make_event(Kind.OPERATOR, duration_ns=10, signature=MM)), "ops")
    assert table.to_dict("records") == [
        {"op": "aten::mm", "count": 1, "wall_ns": 10, "modelled_low_ns": None, "modelled_high_ns": None}
    ]


def test_the_table_of_steps() -> None:
    events = [
        make_event(Kind.STEP, name="token", start_ns=0, duration_ns=100, index=0),
        make_event(Kind.OPERATOR, start_ns=5, signature=MM),
    ]
    assert frame(make_trace(*events), "steps").to_dict("records") == [
        {
            "step": "token",
            "index": 0,
            "start_ns": 0,
            "wall_ns": 100,
            "new_kernels": 0,
            "unseen_kernels": 1,
            "distinct_kernels": 1,
            "launches": 1,
        }
    ]


def test_the_table_of_recompiles_tells_uncompiled_calls_apart() -> None:
    events = [
        make_event(Kind.RECOMPILE, variable="k", old="1", new="2", limit_reached=False),
        make_event(Kind.RECOMPILE, variable="k", old="2", new="3", limit_reached=True),
    ]
    table = frame(make_trace(*events), "recompiles")
    assert table[["changes", "count", "uncompiled"]].values.tolist() == [
        ["1 → 2", 1, False],
        ["2 → 3", 1, True],
    ]


def test_the_table_of_slices_is_the_modelled_timeline() -> None:
    trace = make_trace(make_event(Kind.OPERATOR, signature=MM), chip="trn2", lnc=2)
    table = frame(trace, "slices")
    assert table[["op", "core", "modelled_start_ns", "bound"]].values.tolist() == [
        ["aten::mm", 0, 5_000, "hbm"]
    ]
