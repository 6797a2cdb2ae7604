"""Run a function once a module has been imported, without importing it.

`torch._dynamo` costs a second to import; whoever has something to register with it waits here instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, action: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call `action(module)` now if `name` is imported already, else right after its first import.

    Returns a function that gives up waiting; it does nothing when the action has run.
    """
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return lambda: None
    waiter = _Waiter(name, action)
    sys.meta_path.insert(0, waiter)
    return lambda: _give_up(waiter)


def _give_up(waiter: _Waiter) -> None:
    if waiter in sys.meta_path:
        sys.meta_path.remove(waiter)


class _Waiter(MetaPathFinder):
    """Steps aside on the first import of its module, and wraps that module's loader."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = _find_past(self, fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenLoader(spec.loader, self.action)
        return spec


def _find_past(
    waiter: _Waiter, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        if finder is not waiter and hasattr(finder, "find_spec"):
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
    return None


class _ThenLoader(Loader):
    """The real loader, followed by the action. Everything else is the real loader's."""

    def __init__(self, loader: Loader, action: Callable[[ModuleType], None]) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.action(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)
