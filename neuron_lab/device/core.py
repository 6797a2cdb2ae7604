"""Load the device core into this process. What it offers is typed in `core.pyi`."""

from __future__ import annotations

import importlib.util
import threading
from typing import TYPE_CHECKING, Any

from neuron_lab.errors import CoreBuildError

if TYPE_CHECKING:
    from neuron_lab.device.build import CoreBuild

(
    KIND_OPERATOR,
    KIND_COPY_TO_DEVICE,
    KIND_COPY_TO_HOST,
    KIND_COPY_ON_DEVICE,
    KIND_ALLOC,
    KIND_FREE,
    KIND_GRAPH,
) = range(7)
FLAG_NEW_KERNEL, FLAG_FALLBACK, FLAG_RAISED = 1, 2, 4
NO_ID = 0xFFFFFFFF

_LOCK = threading.Lock()
_core: Any = None


def load_core() -> Any:
    """The compiled module, built first when this machine has no build of it. Loads once per process.

    Only here torch is imported: whoever reads a saved profile needs neither torch nor the core.
    """
    global _core
    with _LOCK:
        if _core is None:
            from neuron_lab.device.build import ensure_built

            _core = _load(ensure_built())
        return _core


def loaded() -> bool:
    """Whether this process has the core already."""
    return _core is not None


def _load(build: CoreBuild) -> Any:
    from neuron_lab.device.build import MODULE_NAME

    spec = importlib.util.spec_from_file_location(MODULE_NAME, build.library)
    if spec is None or spec.loader is None:
        raise CoreBuildError(f"{build.library} is not a Python extension module")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise CoreBuildError(
            f"the device core {build.library} does not load into this process: {error}; "
            "build it again with: neuron-lab core build --force"
        ) from error
    return module
