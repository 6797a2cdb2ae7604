"""Plain words for graph breaks and failed guards, and where in the user's code they happened."""

from __future__ import annotations

import json
import sysconfig

import pytest

from neuron_lab.compiler import break_reasons, guard_values, places, recompile_reasons
from neuron_lab.compiler.dynamo_internals import NESTED_BREAK_MARKER
from neuron_lab.compiler.trace_records import break_stack, parse_break_message, parse_guard, parse_recompile

PRINT = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']
  Hint: Avoid calling builtin `print`.

  Developer debug context: builtin print [ConstantVariable] False

 For more details about this graph break, please visit: https://example.org/gb/gb0059.html"""

NEW_KIND = """Something only a later torch has
  Explanation: It cannot do this.
  And more.
  Hint: Try that.

  Developer debug context: context"""

STACK = f"""Graph break in user code at {sysconfig.get_paths()["purelib"]}/torch/nn/modules/module.py:1789
Graph Break Reason: {PRINT}

User code traceback:
  File "/home/me/train.py", line 30, in <module>
    model(x)
  File "{sysconfig.get_paths()["purelib"]}/transformers/models/llama.py", line 7, in forward
    print(x)
    ^^^^^^^^
  File "{sysconfig.get_paths()["purelib"]}/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
           ^^^^^^^^^^^^

Traceback (most recent call last):
  File "/elsewhere/compiler.py", line 1, in inside
    raise Unsupported
"""


def test_a_known_break_is_told_with_its_cure() -> None:
    assert break_reasons.plain_reason(parse_break_message(PRINT)) == (
        "`print` writes to the screen, which a graph cannot do; "
        "remove it, or run it only when `torch.compiler.is_compiling()` is False"
    )


def test_an_unknown_break_keeps_the_compilers_own_explanation() -> None:
    parts = parse_break_message(NEW_KIND)
    assert (parts[0].kind, parts[0].break_id, parts[0].context) == (
        "Something only a later torch has",
        "",
        "context",
    )
    assert break_reasons.plain_reason(parts) == "Something only a later torch has: It cannot do this"


def test_a_message_in_no_known_form_is_its_own_reason() -> None:
    assert break_reasons.plain_reason(parse_break_message("odd text")) == "odd text"


def test_a_break_while_handling_a_break_tells_both() -> None:
    both = f"{PRINT}\n\n{NESTED_BREAK_MARKER}\n\nGraph break\n\n more, please visit: https://x/gb/gb0066.html"
    assert break_reasons.plain_reason(parse_break_message(both)).startswith(
        "`print` writes to the screen, which a graph cannot do; it is inside a `with` block"
    )


def test_every_id_in_the_table_is_in_torchs_catalogue() -> None:
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    catalogue = json.loads((Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json").read_text())
    known = {name.lower() for name in catalogue}
    assert sorted(set(break_reasons._SENTENCES) - known) == []


def test_the_place_is_the_innermost_frame_outside_torch_and_the_compiler() -> None:
    library = f"{sysconfig.get_paths()['purelib']}/transformers/models/llama.py"
    assert places.innermost(break_stack(STACK), None) == places.Place(f"{library}:7", "", "print(x)")


def test_a_record_without_a_stack_has_the_place_of_its_header() -> None:
    frames = break_stack("Graph break in user code at /home/me/a b.py:12\nGraph Break Reason: x")
    assert places.innermost(frames, lambda file: "In [3]") == places.Place(
        "/home/me/a b.py:12", "In [3], line 12", ""
    )


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/me/train.py", True),
        ("<stdin>", True),
        ("<frozen importlib._bootstrap>", False),
        (f"{sysconfig.get_paths()['purelib']}/torch/nn/functional.py", False),
        (f"{sysconfig.get_paths()['purelib']}/ipykernel/ipkernel.py", False),
        (f"{sysconfig.get_paths()['stdlib']}/contextlib.py", False),
        (places.__file__, False),
    ],
)
def test_whose_file_it_is(file: str, expected: bool) -> None:
    assert places.is_users(file) is expected


@pytest.mark.parametrize(
    ("guard", "new", "expected"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 1. expected 4, actual 5",
            "",
            "`x` has size 5 in dimension 1, was 4; pad or bucket it to a few fixed shapes",
        ),
        (
            "0/0: tensor 'x' dtype mismatch. expected Float, actual Double",
            "",
            "`x` has dtype Double, was Float; give it the same dtype in every call",
        ),
        (
            "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0, actual requires_grad=1",
            "",
            "`x` has requires_grad 1, was 0; give it the same requires_grad in every call",
        ),
        ("1/2: self.training == True  # if self.training", "False", "`self.training` is False, was True"),
        ("0/0: mode == 'fast'", "", "`mode` is no longer 'fast'"),
        ("0/0: ___check_global_state()", "", "a setting of torch changed"),
        ("", "", "no earlier version applied, and Dynamo gave no reason"),
    ],
)
def test_why_it_was_compiled_again(guard: str, new: str, expected: str) -> None:
    assert recompile_reasons.plain_reason(parse_recompile(guard), new).startswith(expected)


def test_the_newest_earlier_version_gives_the_reason() -> None:
    payload = '[\n"0/1: k == 3   # f",\n"0/0: k == 2   # f"\n]'
    assert (parse_recompile(payload).variable, parse_recompile(payload).old) == ("k", "3")


def test_a_guards_comment_may_contain_a_comparison() -> None:
    assert parse_guard("0/0: k == 2     # if a == b:  # file.py:9 in f").text == "k == 2"


class Config:
    def __init__(self) -> None:
        self.depth = 3
        self.table = {"rate": 0.5}

    @property
    def explosive(self) -> int:
        raise AssertionError("a property was run")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("k", "7"),
        ("L['k']", "7"),
        ("config.depth", "3"),
        ("config.table['rate']", "0.5"),
        ("len(items)", "2"),
        ("items", "a list of 2"),
        ("config", "a Config"),
        ("config.explosive", ""),
        ("config.depth.missing", ""),
        ("unknown", ""),
        ("k.__class__()", ""),
        ("not python (", ""),
    ],
)
def test_values_are_read_without_running_the_users_code(expression: str, expected: str) -> None:
    names = {"k": 7, "config": Config(), "items": [1, 2]}
    assert guard_values.value_text(expression, names) == expected
