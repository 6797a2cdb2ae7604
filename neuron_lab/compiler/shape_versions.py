"""A graph whose shapes vary: one static graph per set of concrete shapes, compiled when first called with them.

Dynamo hands a second shape to the backend as symbols; the real backend has static shapes only and compiles
per shape. Dynamo's configuration is left alone. This module knows nothing of how a static graph is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Compiled = Callable[..., Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """The first argument that differs from every earlier version's, with the nearest earlier value."""

    variable: str
    old: str
    new: str


class ShapeVersions:
    """Callable like the graph; compiles and remembers one version per set of shapes, strides and integers."""

    def __init__(
        self,
        names: Sequence[str],
        compile_static: Callable[[Sequence[Any]], Compiled],
        on_version: Callable[[ShapeChange | None], Any],
    ) -> None:
        """`on_version(change)` is called after each compilation; the first has no change."""
        self._names = names
        self._compile_static = compile_static
        self._on_version = on_version
        self._versions: dict[Key, Compiled] = {}

    def __call__(self, *args: Any) -> Any:
        key = tuple(_key(value) for value in args)
        version = self._versions.get(key)
        if version is None:
            change = _change(self._names, list(self._versions), key)
            version = self._versions[key] = self._compile_static(args)
            self._on_version(change)
        return version(*args)


def _key(value: Any) -> Any:
    return (tuple(value.shape), value.stride()) if hasattr(value, "stride") else value


def _change(names: Sequence[str], earlier: Sequence[Key], key: Key) -> ShapeChange | None:
    if not earlier:
        return None
    nearest = min(earlier, key=lambda other: sum(a != b for a, b in zip(other, key, strict=True)))
    differing = [i for i, (a, b) in enumerate(zip(nearest, key, strict=True)) if a != b]
    index = next((i for i in differing if isinstance(key[i], tuple)), differing[0])
    return ShapeChange(names[index], _text(nearest[index]), _text(key[index]))


def _text(value: Any) -> str:
    return str(value[0]) if isinstance(value, tuple) else str(value)
