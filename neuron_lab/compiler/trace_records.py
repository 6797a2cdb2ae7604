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
    what: str = ""  # "size", "dtype", … for tensors; empty for Python values
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
    if match := _TENSOR_GUARD.match(guard):
        return GuardFailure(
            guard, match["variable"], match["what"], match["index"] or "", match["old"], match["new"], stack
        )
    if match := _EQUALITY_GUARD.match(guard):
        return GuardFailure(guard, match["variable"], old=match["old"], stack=stack)
    return GuardFailure(guard, stack=stack)
