"""Breaks and recompiles, grouped and counted."""

from builders import Event, make_event, make_trace

from neuron_lab.analysis.compile_health import GraphBreak, Recompile, compile_health
from neuron_lab.trace.events import UNFINISHED, Kind


def _break(line: int, detail: str = "", source: str = 'print("dbg")') -> Event:
    return make_event(
        Kind.GRAPH_BREAK,
        place=f"cell:{line}",
        cell=f"In [3], line {line}",
        source=source,
        reason="print cannot be compiled",
        detail=detail,
        break_id="GB0059",
    )


def _recompile(new: int, *, limit_reached: bool = False) -> Event:
    return make_event(
        Kind.RECOMPILE,
        name="f",
        start_ns=new,
        place="cell:1",
        cell="In [1], line 1",
        source="def f(x, k):",
        reason=f"k was {new - 1}, now {new}",
        variable="k",
        old=str(new - 1),
        new=str(new),
        limit_reached=limit_reached,
    )


def test_breaks_of_one_place_are_one_row_with_a_count() -> None:
    health = compile_health(make_trace(_break(4, "first"), _break(4, "second"), _break(7), _break(4)))
    assert health.breaks[0] == GraphBreak(
        "cell:4", "In [3], line 4", 'print("dbg")', "print cannot be compiled", "first", "GB0059", 3
    )
    assert [found.count for found in health.breaks] == [3, 1]


def test_the_total_is_what_the_framework_counted() -> None:
    health = compile_health(make_trace(_break(4), _break(4), _break(7)))
    assert (health.break_count, health.break_places) == (3, 2)


def test_recompiles_of_one_variable_list_every_change() -> None:
    health = compile_health(make_trace(_recompile(3), _recompile(4)))
    assert health.recompiles == (
        Recompile(
            "f",
            "cell:1",
            "In [1], line 1",
            "def f(x, k):",
            "k was 2, now 3",
            "k",
            (("2", "3"), ("3", "4")),
            2,
        ),
    )


def test_calls_after_the_limit_are_not_recompiles() -> None:
    events = [_recompile(new) for new in range(3, 10)]
    events += [_recompile(new, limit_reached=True) for new in range(10, 14)]
    health = compile_health(make_trace(*events))
    assert (health.recompile_count, health.uncompiled_call_count, health.limit_reached) == (7, 4, True)
    assert [found.count for found in health.uncompiled] == [4]


def test_compile_time_leaves_out_what_never_ended() -> None:
    events = [make_event(Kind.COMPILE, duration_ns=each) for each in (5_000, 7_000, UNFINISHED)]
    health = compile_health(make_trace(*events))
    assert (health.compile_count, health.compile_wall_ns) == (3, 12_000)


def test_nothing_compiled_is_counted_as_nothing() -> None:
    health = compile_health(make_trace())
    assert (health.compile_count, health.break_count, health.recompile_count, health.limit_reached) == (
        0,
        0,
        0,
        False,
    )
