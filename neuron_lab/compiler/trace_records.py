"""What Dynamo's structured trace says about graph breaks and recompiles, taken apart.

The texts are Dynamo's own (torch 2.13). A text that does not have the expected form gives empty fields, never
an error: the raw text is always kept. This module knows nothing of events or of the words shown to users.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from neuron_lab.compiler import dynamo_internals
from neuron_lab.compiler.places import StackLine, parse_stack

_BREAK_ID = re.compile(r"/(gb\d+)\.html")
_HEADER_PLACE = re.compile(r"^Graph break in user code at (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
_STACK_HEADERS = ("User code traceback:", "The graph break occurred in the following user code:")
_TRACEBACK_START = re.compile(r"^(?:Traceback \(most recent call last\):|NoneType: None)$", re.MULTILINE)
_GUARD_PREFIX = re.compile(r"^\d+/\d+: ")
_GUARD_COMMENT = re.compile(r"\s{2,}# |\s+# (?=.* in )")
_TENSOR_GUARD = re.compile(
    r"^tensor '(?P<variable>.+)' (?P<what>.+?) mismatch(?: at index (?P<index>\d+))?\. "
    r"expected (?P<old>.+?), actual (?P<new>.+)$"
)
_GRADIENT_GUARD = re.compile(
    r"^tensor '(?P<variable>.+)' requires_grad mismatch\. expected requires_grad=(?P<old>\d)"
)
_LENGTH_GUARD = re.compile(r"^(?P<variable>len\(.+\)) != (?P<old>\d+)$")
_OBJECT_GUARD = re.compile(r"^___check_(?:obj|type)_id\((?P<variable>.+), \d+\), type=<class '(?P<type>.+)'>$")
_KEY_GUARD = re.compile(r"^(?P<not>not )?___dict_contains\('(?P<key>.+)', (?P<owner>.+)\)$")
_SAME_TENSOR_GUARD = re.compile(r"^Duplicate tensors found: \[(?P<names>.+)\]$")
_STATE_GUARD = re.compile(r"^GLOBAL_STATE changed: (?P<settings>.+)$")
_GLOBAL_NAME = re.compile(r"\bG\['(\w+)'\]")
_EQUALITY_GUARD = re.compile(r"^(?P<variable>.+?) == (?P<old>.+)$")


@dataclass(frozen=True, slots=True)
class BreakText:
    """One graph break as Dynamo words it: its type in the catalogue, explanation and debug context."""

    kind: str
    explanation: str
    context: str
    break_id: str


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """The guard that failed: of which variable, compiled for which value, called with which (or empty)."""

    text: str
    variable: str = ""
    what: str = ""  # "size", "dtype", … for tensors; "object", "length", "key", … ; empty for Python values
    index: str = ""  # the dimension, for sizes and strides
    old: str = ""
    new: str = ""
    stack: tuple[StackLine, ...] = ()


def parse_break_message(message: str) -> list[BreakText]:
    """The breaks a message tells of: usually one; a break while handling a break adds another."""
    return [_parse_one_break(part.strip()) for part in message.split(dynamo_internals.NESTED_BREAK_MARKER)]


def _parse_one_break(text: str) -> BreakText:
    kind, _, rest = text.partition("\n")
    explanation = _section(rest, "  Explanation: ")
    context = _section(rest, "  Developer debug context: ")
    found = _BREAK_ID.search(rest)
    return BreakText(kind.strip(), explanation, context, found[1] if found else "")


def _section(text: str, start: str) -> str:
    """The lines from `start` to the next section, without indentation."""
    _, found, rest = text.partition(start)
    if not found:
        return ""
    kept: list[str] = []
    for line in rest.splitlines():
        if kept and line.strip() and not line.startswith("   "):
            break
        kept.append(line.strip())
    return "\n".join(kept).strip()


def break_stack(payload: str) -> list[StackLine]:
    """The user's stack of a graph break record; when it has none, the one line its header names."""
    for header in _STACK_HEADERS:
        _, found, rest = payload.partition(header)
        if found:
            return parse_stack(_TRACEBACK_START.split(rest, maxsplit=1)[0])
    match = _HEADER_PLACE.search(payload)
    return [StackLine(match["file"], int(match["line"]), "", "")] if match else []


def parse_recompile(payload: str) -> GuardFailure:
    """The failed guard of the newest earlier version (Dynamo lists all of them, newest first)."""
    reasons = _reasons(payload)
    return parse_guard(reasons[0]) if reasons else GuardFailure("")


def _reasons(payload: str) -> list[str]:
    if not payload.startswith("["):
        return [payload] if payload.strip() else []
    try:
        return [str(reason) for reason in json.loads(payload)]
    except json.JSONDecodeError:
        return [payload]


def parse_guard(text: str) -> GuardFailure:
    """`0/0: k == 2   # comment` or `0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3`."""
    stack = tuple(parse_stack(text))
    first = _GUARD_PREFIX.sub("", text.splitlines()[0])
    guard = _GUARD_COMMENT.split(first, maxsplit=1)[0].strip()
    guard = _GLOBAL_NAME.sub(r"\1", guard)
    variable, what, index, old, new = _fields(guard)
    return GuardFailure(guard, variable, what, index, old, new, stack)


def _fields(guard: str) -> tuple[str, str, str, str, str]:
    """Variable, what of it, dimension, old and new value; empty where the text does not tell."""
    if match := _TENSOR_GUARD.match(guard):
        return match["variable"], match["what"], match["index"] or "", match["old"], match["new"]
    if match := _GRADIENT_GUARD.match(guard):
        return match["variable"], "requires_grad", "", match["old"], "0" if match["old"] == "1" else "1"
    if match := _LENGTH_GUARD.match(guard):
        return match["variable"], "length", "", match["old"], ""
    if match := _OBJECT_GUARD.match(guard):
        of_function = match["variable"].endswith(".__code__")
        kind = "function" if of_function else match["type"].rpartition(".")[2]
        return match["variable"].removesuffix(".__code__"), "object", "", f"of type {kind}", ""
    if match := _KEY_GUARD.match(guard):
        owner = f"{match['owner'].removesuffix('.__dict__')}.{match['key']}"
        return owner, "key", "", "unset" if match["not"] else "set", "set" if match["not"] else "unset"
    if match := _SAME_TENSOR_GUARD.match(guard):
        return match["names"].replace('"', ""), "identity", "", "different tensors", "the same tensor"
    if match := _STATE_GUARD.match(guard):
        return match["settings"].strip(), "setting", "", "", ""
    if match := _EQUALITY_GUARD.match(guard):
        variable = match["variable"]
        return variable, "length" if variable.startswith("len(") else "", "", match["old"], ""
    return "", "", "", "", ""
