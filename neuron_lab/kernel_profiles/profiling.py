"""`neuron_lab.nki.profile(kernel)(*args)`: run a kernel and time it on the modelled clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from neuron_lab.errors import UsageError
from neuron_lab.hardware.kernel_assumptions import DEFAULT, KernelAssumptions
from neuron_lab.kernel_profiles.profile import KernelProfile
from neuron_lab.nki.kernel import simulate
from neuron_lab.nki.launching import last_run
from neuron_lab.nki.timing.model import time_run


def profile(kernel: Any, assumptions: KernelAssumptions = DEFAULT) -> Callable[..., KernelProfile]:
    """A function that runs the kernel (or `kernel[2]`, or a plain function) and returns its `KernelProfile`.

    When the kernel raises, its error comes through and `last_profile()` has what ran until then.
    """
    jitted = simulate(kernel)

    def profiled(*args: Any, **kwargs: Any) -> KernelProfile:
        before = last_run()
        try:
            run = jitted.record(*args, **kwargs)
        except BaseException:
            broken = last_run()
            if broken is not None and broken is not before and broken.cores:
                _remember(KernelProfile(broken, time_run(broken, assumptions)))
            raise
        return _remember(KernelProfile(run, time_run(run, assumptions)))

    return profiled


class _Last:
    """The process's newest profile of a kernel."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.profile: KernelProfile | None = None


_LAST = _Last()


def _remember(made: KernelProfile) -> KernelProfile:
    with _LAST.lock:
        _LAST.profile = made
    return made


def last_profile() -> KernelProfile:
    """The newest profile of a kernel. Raises UsageError when there is none."""
    with _LAST.lock:
        if _LAST.profile is None:
            raise UsageError("no kernel has been profiled in this process; call nki.profile(kernel)(arguments)")
        return _LAST.profile
