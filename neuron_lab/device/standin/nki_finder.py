"""Serves the top-level name `nki` (and its submodules) from this package when the real one is not installed.

The package behind it, which needs numpy, loads only when `nki` is imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

SERVED = {"nki": "neuron_lab.nki"}
"""Top-level name → package of ours that answers to it."""

_PUBLIC = frozenset(
    {"nki", "nki.language", "nki.isa", "nki.isa.constants", "nki.collectives", "nki.dtype", "nki.typing"}
)
_PACKAGES = frozenset({"nki", "nki.language", "nki.isa"})


def target_of(fullname: str) -> str | None:
    """The module of ours behind a public name; None for anything else."""
    if fullname not in _PUBLIC:
        return None
    top, _, rest = fullname.partition(".")
    ours = SERVED[top]
    return f"{ours}.{rest}" if rest else ours


class _AliasLoader(Loader):
    """Gives the public name the very module of ours, so that both names are one."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has put the alias there


class NkiFinder(MetaPathFinder):
    """First in line, or the submodules would be loaded a second time by path; an installed `nki` still wins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = target_of(fullname)
        if found is None or self._is_installed(fullname, path):
            return None
        return ModuleSpec(fullname, _AliasLoader(found), is_package=fullname in _PACKAGES)

    def _is_installed(self, fullname: str, path: Sequence[str] | None) -> bool:
        top = fullname.partition(".")[0]
        if fullname != top:
            parent = sys.modules.get(top)
            return parent is None or parent.__name__ != SERVED[top]
        others = [finder for finder in sys.meta_path if finder is not self]
        return any(finder.find_spec(fullname, path) is not None for finder in others)


_FINDER = NkiFinder()


def install() -> None:
    """Serve the names that nobody else serves."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        importlib.invalidate_caches()


def remove() -> None:
    """Stop serving; forget the aliases, not the modules behind them."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    for name in _PUBLIC:
        module = sys.modules.get(name)
        if module is not None and module.__name__.startswith("neuron_lab."):
            del sys.modules[name]
