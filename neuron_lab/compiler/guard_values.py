"""Reads the value a guard's expression has in the user's frame, without running any of the user's code.

Only plain names, attributes stored on the object, and items of built-in lists, tuples and dicts are followed;
anything else is not read, because a property or an overloaded operator could have side effects.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

_MISSING = object()
_LONGEST_TEXT = 80  # characters of a value shown in an event


def value_text(expression: str, names: Mapping[str, Any]) -> str:
    """The value as text, or an empty string when it cannot be read safely."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return ""
    value = _read(tree, names)
    return "" if value is _MISSING else _text(value)


def _text(value: Any) -> str:
    if type(value) in (list, tuple, dict, set):
        return f"a {type(value).__name__} of {len(value)}"
    if type(value) not in (int, float, complex, str, bytes, bool, type(None)):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _read(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id="L"):
            return names
        case ast.Name(id=name):
            return names.get(name, _MISSING)
        case ast.Attribute(value=owner, attr=attribute):
            return _stored_attribute(_read(owner, names), attribute)
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            return _item(_read(owner, names), key)
        case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
            value = _read(argument, names)
            return len(value) if type(value) in (list, tuple, dict, str, set) else _MISSING
        case _:
            return _MISSING


def _stored_attribute(owner: Any, attribute: str) -> Any:
    if owner is _MISSING:
        return _MISSING
    try:
        stored = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return _MISSING
    for table in (stored, *(stored.get(key, {}) for key in ("_modules", "_parameters", "_buffers"))):
        if isinstance(table, dict) and attribute in table:
            return table[attribute]
    return _MISSING


def _item(owner: Any, key: Any) -> Any:
    if type(owner) not in (list, tuple, dict):
        return _MISSING
    try:
        return owner[key]
    except (KeyError, IndexError, TypeError):
        return _MISSING
