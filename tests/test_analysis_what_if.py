"""The same trace timed again: exact effects of chip, grouping and dtype."""

import pytest
from builders import make_event, make_signature, make_trace

from neuron_lab.analysis.what_if import what_if
from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import DEFAULT, Assumption
from neuron_lab.trace.events import GraphSpec, Kind, Signature
from neuron_lab.trace.table import Trace

LARGE = make_signature(inputs=((4096, 4096),) * 2, outputs=((4096, 4096),))
LOOKUP = make_signature("aten::embedding", ((10, 64), (5,)), ((5, 64),), dtype="int64")


def _trace(*signatures: Signature, **header: object) -> Trace:
    events = [
        make_event(Kind.OPERATOR, name=each.op, start_ns=place, signature=each)
        for place, each in enumerate(signatures)
    ]
    return make_trace(*events, **{"instance": "trn2.3xlarge", "chip": "trn2", "lnc": 2, **header})  # type: ignore[arg-type]


def _kernel_low_ns(trace: Trace, **change: object) -> int:
    return int(what_if(trace, **change).after.low_ns[0])  # type: ignore[arg-type]


def test_bf16_runs_at_its_own_peak() -> None:
    found = what_if(_trace(LARGE), dtype="bfloat16")
    assert (found.before.low_ns[0], found.after.low_ns[0]) == (
        pytest.approx(2 * 4096**3 / 40e3, abs=1),
        pytest.approx(2 * 4096**3 / 158e3, abs=1),
    )


def test_integers_keep_their_dtype() -> None:
    found = what_if(_trace(LOOKUP), dtype="bfloat16")
    assert found.before.low_ns.tolist() == found.after.low_ns.tolist()


def test_graphs_change_their_dtype_too() -> None:
    run = Signature("neuron::graph", graph=0)
    trace = make_trace(
        make_event(Kind.OPERATOR, name="g", signature=run),
        graphs=[GraphSpec("g", (LARGE,))],
        chip="trn2",
        lnc=2,
    )
    found = what_if(trace, dtype="bfloat16")
    assert found.after.low_ns[0] < found.before.low_ns[0] / 3


def test_one_core_instead_of_two_takes_twice_as_long() -> None:
    found = what_if(_trace(LARGE), lnc=1)
    assert found.after.low_ns[0] == pytest.approx(2 * found.before.low_ns[0], abs=1)


def test_another_chip_brings_its_own_rates_and_grouping() -> None:
    assert _kernel_low_ns(_trace(LARGE), chip="trn1") == pytest.approx(2 * 4096**3 / 23e3, abs=1)


def test_another_instance_brings_its_chip() -> None:
    found = what_if(_trace(LARGE), instance="trn1.32xlarge")
    assert (found.after.chip, found.after.lnc) == ("trn1", 1)


def test_other_assumptions_move_the_high_end() -> None:
    faster = DEFAULT.replace(launch_ns=Assumption(100, 100, 100, "ns", "read on an instance"))
    found = what_if(_trace(LARGE), assumptions=faster)
    assert found.after_ns is not None
    assert found.before_ns is not None
    assert found.before_ns.high - found.after_ns.high == 49_900


def test_the_speed_up_compares_end_with_end() -> None:
    found = what_if(_trace(LARGE), dtype="bfloat16")
    assert found.before_ns is not None
    assert found.after_ns is not None
    assert found.speedup is not None
    ends = sorted([found.before_ns.low / found.after_ns.low, found.before_ns.high / found.after_ns.high])
    assert [found.speedup.low, found.speedup.high] == ends


def test_operators_show_before_and_after() -> None:
    found = what_if(_trace(LARGE, LARGE), dtype="bfloat16")
    (name, before, after), *others = found.by_op
    assert (name, others) == ("aten::mm", [])
    assert (before.low, after.low) == (2 * found.before.low_ns[0], 2 * found.after.low_ns[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "without a change"),
        ({"dtype": "int3"}, "unknown dtype 'int3'"),
        ({"chip": "gpu"}, "unknown chip 'gpu'"),
        ({"instance": "x"}, "unknown instance 'x'"),
        ({"chip": "trn1", "lnc": 2}, "must be 1 on trn1"),
        ({"lnc": 3}, "must be 1 or 2 on trn2"),
    ],
)
def test_a_wrong_change_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        what_if(_trace(LARGE), **change)  # type: ignore[arg-type]


def test_the_trace_itself_does_not_change() -> None:
    trace = _trace(LARGE)
    what_if(trace, dtype="bfloat16", lnc=1)
    assert (trace.signatures, trace.header.lnc) == ((LARGE,), 2)
