"""Counts the calls that run uncompiled after Dynamo's recompile limit was reached.

Dynamo says once that it gave up on a function and is silent from then on. From that moment, and only while
armed, each call of a compiled function is looked at: when no compiled version's guards accept its arguments,
it runs uncompiled. Calls of inner functions that were not themselves handed to torch.compile cannot be seen;
they are not counted.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from neuron_lab.compiler import dynamo_internals

OnUncompiled = Callable[[types.CodeType, dict[str, Any]], None]


class UncompiledCalls:
    """Watches functions; `on_uncompiled(code, locals)` is called once per call that runs uncompiled."""

    def __init__(self, on_uncompiled: OnUncompiled) -> None:
        self._on_uncompiled = on_uncompiled
        self._watched: set[types.CodeType] = set()
        self._hook = dynamo_internals.CompiledCallHook(self._called)

    def watch(self, code: types.CodeType) -> bool:
        """Start watching one function; False when this torch gives no way to."""
        self._watched.add(code)
        return self._hook.install()

    def stop(self) -> None:
        """Forget all functions and leave Dynamo as it was."""
        self._watched.clear()
        self._hook.remove()

    def _called(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        target = _watched_target(function, self._watched)
        if target is None:
            return
        names = _argument_names(target, args, kwargs)
        code = target.__code__
        if names is not None and not any(
            v.guard_manager.check(names) for v in dynamo_internals.compiled_versions(code)
        ):
            self._on_uncompiled(code, names)


def _watched_target(function: Callable[..., Any], watched: set[types.CodeType]) -> Any | None:
    """The function itself, or for a module its `forward`, when it is watched."""
    owner = getattr(function, "__self__", None)
    for candidate in (function, getattr(owner, "forward", None)):
        if getattr(candidate, "__code__", None) in watched:
            return candidate
    return None


def _argument_names(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """What the function's locals will be when it starts; None when the arguments do not fit."""
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    names = dict(bound.arguments)
    owner = getattr(target, "__self__", None)
    if owner is not None:
        names[target.__code__.co_varnames[0]] = owner
    cells = getattr(target, "__closure__", None) or ()
    filled = zip(target.__code__.co_freevars, cells, strict=True)
    return names | {name: cell.cell_contents for name, cell in filled}
