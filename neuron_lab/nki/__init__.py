"""NKI kernels on the CPU: values, limits of the hardware, and a record of instructions for the time model.

    from neuron_lab import nki
    import neuron_lab.nki.language as nl

`nki.jit` and `nki.simulate` are the public entry points of the Neuron Kernel Interface; the other names here
are this package's own. Random values, and results outside documented input ranges, differ from the hardware's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neuron_lab.nki import collectives, isa, language
from neuron_lab.nki.kernel import Kernel, jit, simulate, simulate_ranks
from neuron_lab.nki.launching import NkiWarning, Run, last_run
from neuron_lab.nki.refusal import NkiValidationError

if TYPE_CHECKING:
    from neuron_lab.kernel_profiles.profile import KernelProfile
    from neuron_lab.kernel_profiles.profiling import last_profile, profile

__all__ = [
    "Kernel",
    "KernelProfile",
    "NkiValidationError",
    "NkiWarning",
    "Run",
    "collectives",
    "isa",
    "jit",
    "language",
    "last_profile",
    "last_run",
    "profile",
    "simulate",
    "simulate_ranks",
]

_HOME = {
    "KernelProfile": "neuron_lab.kernel_profiles.profile",
    "last_profile": "neuron_lab.kernel_profiles.profiling",
    "profile": "neuron_lab.kernel_profiles.profiling",
}


def __getattr__(name: str) -> Any:
    """Profiles are made of reports as well, which a kernel that only runs does not need."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
