"""Causes and settings from traces made by hand: each has a reason in the trace, and none comes without one."""

from __future__ import annotations

import pytest
from builders import Event, make_event, make_trace

from neuron_lab.analysis.findings import findings
from neuron_lab.analysis.totals import totals
from neuron_lab.checks.advice import Advice, Seen, advice
from neuron_lab.checks.causes import causes
from neuron_lab.checks.outcome import Outcome
from neuron_lab.trace.events import Frame, Kind, Signature, TensorSpec
from neuron_lab.trace.table import Trace

GIB = 2**30
STEP_NS = 1_000


def concatenation(length: int) -> Signature:
    spec = TensorSpec("bfloat16", (1, length))
    return Signature("aten::cat", (spec,), (spec,), stack=0)


def tokens(count: int, *, growing: bool) -> list[Event]:
    events = []
    for token in range(count):
        start_ns = token * STEP_NS
        signature = concatenation(token + 1 if growing else 1)
        events.append(
            make_event(
                Kind.OPERATOR, name=signature.op, start_ns=start_ns + 10, duration_ns=5, signature=signature
            )
        )
        events.append(make_event(Kind.STEP, name="token", start_ns=start_ns, duration_ns=STEP_NS, index=token))
    return events


def trace_of(*events: Event) -> Trace:
    stacks = [(Frame("generate.py", 12, "decode"),)]
    return make_trace(
        *events,
        stacks=stacks,
        device="emulated",
        chip="trn2",
        instance="trn2.3xlarge",
        lnc=2,
        cores=4,
        hbm_limit_bytes=24 * GIB,
    )


def advised(trace: Trace, environ: dict[str, str] | None = None, modules: tuple[str, ...] = ()) -> list[str]:
    seen = Seen(totals(trace), findings(trace), Outcome("finished", modules=modules), environ or {})
    return [each.line for each in advice(seen)]


def test_a_growing_cache_gets_the_advice_of_a_static_one() -> None:
    assert advised(trace_of(*tokens(6, growing=True))) == ['model.generate(..., cache_implementation="static")']


def test_a_cache_of_one_shape_gets_none() -> None:
    assert advised(trace_of(*tokens(6, growing=False))) == []


def test_kernels_that_grow_with_every_token_are_the_first_cause_with_their_line() -> None:
    noise = make_event(Kind.GRAPH_BREAK, name="x", place="a.py:1", source="print()", reason="prints; remove it")
    trace = trace_of(noise, *tokens(9, growing=True))
    found = causes(trace, totals(trace))
    assert [(each.kind, each.count, each.place) for each in found] == [
        ("eager kernels", 9, "generate.py:12"),
        ("graph break", 1, "a.py:1"),
    ]
    assert (found[0].compile_s.low, found[0].compile_s.high) == (9.0, 270.0)


def test_a_reached_limit_comes_before_recompiles() -> None:
    common = {
        "name": "f",
        "variable": "k",
        "old": "1",
        "new": "2",
        "reason": "k is 2, was 1",
        "place": "a.py:3",
    }
    trace = trace_of(
        *(make_event(Kind.RECOMPILE, limit_reached=False, **common) for _ in range(7)),
        make_event(Kind.RECOMPILE, limit_reached=True, **common),
    )
    assert [(each.kind, each.count) for each in causes(trace, totals(trace))] == [
        ("recompile limit", 1),
        ("recompile", 7),
    ]


@pytest.mark.parametrize(("peak_gib", "expected"), [(23, ["memory"]), (20, [])])
def test_memory_near_the_limit_is_a_cause(peak_gib: int, expected: list[str]) -> None:
    size = peak_gib * GIB
    trace = trace_of(
        make_event(Kind.ALLOC, name="alloc", core=0, size_bytes=size, allocated_bytes=size, block=1)
    )
    assert [each.kind for each in causes(trace, totals(trace))] == expected


@pytest.mark.parametrize(
    ("environ", "modules", "line"),
    [
        (
            {},
            ("transformers",),
            'os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # before importing transformers',
        ),
        ({"TORCH_COMPILE_DISABLE": "1"}, (), "unset TORCH_COMPILE_DISABLE"),
        ({"TORCHDYNAMO_DISABLE": "1"}, (), "unset TORCHDYNAMO_DISABLE"),
        ({"TORCH_NEURONX_DISABLE_NEFF_CACHE": "true"}, (), "unset TORCH_NEURONX_DISABLE_NEFF_CACHE"),
    ],
)
def test_the_environment_is_looked_at(environ: dict[str, str], modules: tuple[str, ...], line: str) -> None:
    assert advised(trace_of(), environ, modules) == [line]


@pytest.mark.parametrize(
    ("environ", "modules"),
    [
        ({}, ()),
        ({"HF_DEACTIVATE_ASYNC_LOAD": "1"}, ("transformers",)),
        ({"TORCH_COMPILE_DISABLE": "0"}, ()),
        ({"TORCH_NEURONX_NEFF_DISABLE_CACHE": "0"}, ()),
    ],
)
def test_settings_that_are_right_are_not_mentioned(environ: dict[str, str], modules: tuple[str, ...]) -> None:
    assert advised(trace_of(), environ, modules) == []


def test_products_in_float32_get_the_advice_of_bfloat16() -> None:
    spec = TensorSpec("float32", (1024, 1024))
    product = Signature("aten::mm", (spec, spec), (spec,))
    trace = trace_of(make_event(Kind.OPERATOR, name="aten::mm", duration_ns=5, signature=product))
    assert advised(trace) == ["model.to(torch.bfloat16)"]


def test_advice_says_where_its_reason_was_seen() -> None:
    trace = trace_of(
        make_event(
            Kind.RECOMPILE,
            name="f",
            variable="x",
            old="2",
            new="3",
            place="a.py:3",
            reason="`x` has size 3 in dimension 0, was 2; pad or bucket it to a few fixed shapes",
        )
    )
    seen = Seen(totals(trace), (), Outcome("finished"), {})
    assert advice(seen)[0] == Advice(
        "tokenizer(..., padding=True, pad_to_multiple_of=128)",
        "`x` came in 2 sizes, each with a graph of its own; padding leaves a few",
        "a.py:3",
    )
