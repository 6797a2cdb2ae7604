"""NKI kernels on the CPU: values, limits of the hardware, and a record of instructions for the time model.

    from neuron_lab import nki
    import neuron_lab.nki.language as nl

`nki.jit` and `nki.simulate` are the public entry points of the Neuron Kernel Interface; the other names here
are this package's own. Random values, and results outside documented input ranges, differ from the hardware's.
"""

from __future__ import annotations

from neuron_lab.nki import collectives, isa, language
from neuron_lab.nki.kernel import Kernel, jit, simulate, simulate_ranks
from neuron_lab.nki.launching import NkiWarning, Run, last_run
from neuron_lab.nki.refusal import NkiValidationError

__all__ = [
    "Kernel",
    "NkiValidationError",
    "NkiWarning",
    "Run",
    "collectives",
    "isa",
    "jit",
    "language",
    "last_run",
    "simulate",
    "simulate_ranks",
]
