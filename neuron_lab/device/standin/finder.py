"""Makes `torch_neuronx` importable, with distribution metadata, while the emulated device is active.

Hugging Face libraries look for the module spec and for the installed distribution; PyTorch finds the `neuron`
compile backend through the distribution's entry points. Only `sys.meta_path` is changed; nothing is written to
disk.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

PACKAGE = "torch_neuronx"
VERSION = "2.13.3.0+emulated"
BACKEND_TARGET = "torch_neuronx.neuron_dynamo_backend.backend:neuron_backend"

_ANY = DistributionFinder.Context()
_FOLDER = Path(__file__).parent / PACKAGE
_FILES = {
    "METADATA": (
        "Metadata-Version: 2.1\n"
        "Name: torch-neuronx\n"
        f"Version: {VERSION}\n"
        "Summary: Stand-in for the Neuron device of PyTorch, emulated on CPU by neuron_lab\n"
    ),
    "entry_points.txt": f"[torch_dynamo_backends]\nneuron = {BACKEND_TARGET}\n",
    "top_level.txt": f"{PACKAGE}\n",
}


class StandinDistribution(Distribution):
    """The installed distribution `torch-neuronx`, as far as `importlib.metadata` can see."""

    def read_text(self, filename: str) -> str | None:
        return _FILES.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return _FOLDER.parent / path


class StandinFinder(DistributionFinder):
    """Answers for `torch_neuronx` and for nothing else."""

    serves_standin = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PACKAGE:
            return None
        return spec_from_file_location(
            PACKAGE, _FOLDER / "__init__.py", submodule_search_locations=[str(_FOLDER)]
        )

    def find_distributions(self, context: DistributionFinder.Context = _ANY) -> Iterable[Distribution]:
        if context.name is None or context.name.replace("-", "_").lower() == PACKAGE:
            yield StandinDistribution()


_FINDER = StandinFinder()


def install() -> None:
    """Serve it, ahead of an installed package: importing that one would take the device slot again."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        importlib.invalidate_caches()


def remove() -> None:
    """Stop serving it and forget the imported stand-in, so that `torch_neuronx` is absent again."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
