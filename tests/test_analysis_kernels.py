"""Eager kernels: distinct, new, hits, and per step."""

from builders import Event, make_event, make_signature, make_trace

from neuron_lab.analysis.kernels import NewKernels, StepKernels, eager_kernels
from neuron_lab.analysis.step_counts import Spread, step_times
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import UNFINISHED, GraphSpec, Kind, Signature
from neuron_lab.trace.table import Trace


def _grown(length: int) -> Signature:
    return make_signature(inputs=((1, 64), (64, length)), outputs=((1, length),))


FIXED = _grown(1)


def _run(start_ns: int, signature: Signature) -> Event:
    return make_event(Kind.OPERATOR, start_ns=start_ns, signature=signature)


def _first(start_ns: int, signature: Signature, place: str = "cell:1") -> Event:
    return make_event(Kind.EAGER_KERNEL, start_ns=start_ns, signature=signature, place=place)


def _token(index: int) -> Event:
    return make_event(Kind.STEP, name="token", start_ns=1_000 * index, duration_ns=1_000, index=index)


def _growing_cache(tokens: int = 4, *, known: bool = False) -> Trace:
    events = []
    for index in range(tokens):
        events += [_token(index), _run(1_000 * index + 10, FIXED), _run(1_000 * index + 20, _grown(10 + index))]
        events += [] if known else [_first(1_000 * index + 20, _grown(10 + index))]
    return make_trace(*events)


def test_distinct_new_and_hits() -> None:
    kernels = eager_kernels(
        make_trace(_run(0, FIXED), _run(1, FIXED), _run(2, _grown(2)), _first(2, _grown(2)))
    )
    assert (kernels.runs, kernels.distinct, kernels.new, kernels.hits) == (3, 2, 1, 2)


def test_views_are_no_kernels() -> None:
    view = make_signature("aten::t", compiles=False)
    assert eager_kernels(make_trace(_run(0, view))).runs == 0


def test_graph_executions_are_counted_apart() -> None:
    trace = make_trace(
        _run(0, Signature("neuron::graph", graph=0)),
        _run(1, Signature("neuron::graph", graph=0)),
        graphs=[GraphSpec("g")],
    )
    kernels = eager_kernels(trace)
    assert (kernels.runs, kernels.graph_runs, kernels.distinct_graphs) == (0, 2, 1)


def test_new_kernels_are_listed_by_operator_and_place() -> None:
    events = [_first(0, _grown(2)), _first(1, _grown(3)), _first(2, _grown(4), place="cell:9")]
    assert eager_kernels(make_trace(*events)).new_by_op == (
        NewKernels("aten::mm", "cell:1", 2),
        NewKernels("aten::mm", "cell:9", 1),
    )


def test_every_token_of_a_growing_cache_needs_a_new_kernel() -> None:
    kernels = eager_kernels(_growing_cache())
    assert kernels.steps == (
        StepKernels("token", new=(1, 1, 1, 1), unseen=(2, 1, 1, 1), distinct=(2, 2, 2, 2), runs=(2, 2, 2, 2)),
    )
    assert kernels.steps[0].keeps_compiling


def test_a_growing_cache_is_seen_even_when_the_process_knows_the_kernels() -> None:
    steps = eager_kernels(_growing_cache(known=True)).steps[0]
    assert (steps.new, steps.unseen, steps.keeps_compiling) == ((0, 0, 0, 0), (2, 1, 1, 1), True)


def test_a_static_cache_stops_needing_kernels() -> None:
    events = []
    for index in range(4):
        events += [_token(index), _run(1_000 * index + 10, FIXED)]
    steps = eager_kernels(make_trace(*events)).steps[0]
    assert (steps.unseen, steps.keeps_compiling) == ((1, 0, 0, 0), False)


def test_two_steps_are_too_few_to_call_a_trend() -> None:
    assert not eager_kernels(_growing_cache(2)).steps[0].keeps_compiling


def test_the_spread_over_steps() -> None:
    assert eager_kernels(_growing_cache()).steps[0].unseen_spread == Spread(1, 1, 2)


def test_an_event_at_the_border_belongs_to_the_later_step() -> None:
    trace = make_trace(_token(0), _token(1), _run(1_000, FIXED))
    assert eager_kernels(trace).steps[0].runs == (0, 1)


def test_a_graph_counts_as_one_launch_of_its_step() -> None:
    trace = make_trace(_token(0), _run(5, Signature("neuron::graph", graph=0)), graphs=[GraphSpec("g")])
    assert (eager_kernels(trace).steps[0].runs, eager_kernels(trace).steps[0].distinct) == ((1,), (0,))


def test_steps_of_different_names_are_apart() -> None:
    trace = make_trace(_token(0), make_event(Kind.STEP, name="optimizer step"), _run(5, FIXED))
    assert [steps.name for steps in eager_kernels(trace).steps] == ["token", "optimizer step"]


def test_a_step_that_never_ended_is_left_out() -> None:
    trace = make_trace(_token(0), make_event(Kind.STEP, name="token", start_ns=5_000, duration_ns=UNFINISHED))
    assert [len(steps) for steps in eager_kernels(trace).steps] == [1]


def test_without_steps_there_are_no_step_counts() -> None:
    assert eager_kernels(make_trace(_run(0, FIXED))).steps == ()


def test_compile_seconds_are_an_interval_over_kernels_and_graphs() -> None:
    events = [
        _first(0, _grown(2)),
        make_event(Kind.COMPILE, node_count=100),
        make_event(Kind.COMPILE, node_count=0),
    ]
    kernels = eager_kernels(make_trace(*events))
    assert (kernels.graphs_compiled, kernels.compile_s) == (1, Interval(2 * 1 + 100 * 0.01, 2 * 30 + 100 * 0.5))


def test_step_times_are_wall_times() -> None:
    trace = make_trace(
        *(make_event(Kind.STEP, name="token", start_ns=i, duration_ns=i * 10) for i in (1, 2, 6))
    )
    assert [(times.name, times.count, times.wall_ns) for times in step_times(trace)] == [
        ("token", 3, Spread(20, 10, 60))
    ]
