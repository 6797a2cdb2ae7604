"""`nki.jit`, `nki.simulate`, and launching on several ranks at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from neuron_lab.errors import UsageError
from neuron_lab.nki import run as run_state
from neuron_lab.nki.launching import Run, run_kernel
from neuron_lab.nki.refusal import refusal

Schedule = tuple[tuple[str, tuple[str, ...]], ...]


class Kernel:
    """A function as a kernel: `kernel(args)`, `kernel[2](args)` on the two cores of a logical core."""

    def __init__(
        self, function: Callable[..., Any], lnc: int = 1, gridded: bool = False, schedule: Schedule = ()
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.lnc = lnc
        self.gridded = gridded
        self.schedule = schedule

    def __getitem__(self, lnc: Any) -> Kernel:
        degree = lnc[0] if isinstance(lnc, tuple) and len(lnc) == 1 else lnc
        if not isinstance(degree, int) or isinstance(degree, bool) or degree not in {1, 2}:
            raise refusal(
                "launch",
                f"kernel[{lnc}]",
                cure="use kernel[1] or kernel[2] (logical core size)",
                value=lnc,
                limit=2,
            )
        return Kernel(self.function, degree, True, self.schedule)

    def with_schedule(self, edges: Sequence[tuple[str, str | Sequence[str]]]) -> Kernel:
        """Instructions by their `name=`: each (later, earlier or several earlier)."""
        made = tuple(
            (later, (earlier,) if isinstance(earlier, str) else tuple(earlier)) for later, earlier in edges
        )
        return Kernel(self.function, self.lnc, self.gridded, made)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        core = run_state.running_core()
        if core is not None:
            core.find(
                "does not compile", f"{self.function.__name__} is an @nki.jit kernel called from a kernel"
            )
            return self.function(*args, **kwargs)
        return self.run(*args, **kwargs).result

    def run(self, *args: Any, **kwargs: Any) -> Run:
        """As a call, but returns the whole `Run`."""
        return self._run([(args, kwargs)], record=False)

    def record(self, *args: Any, **kwargs: Any) -> Run:
        """As `run`, keeping every instruction."""
        return self._run([(args, kwargs)], record=True)

    def _run(self, calls: list[tuple[tuple[Any, ...], dict[str, Any]]], record: bool) -> Run:
        return run_kernel(
            self.function, calls, lnc=self.lnc, gridded=self.gridded, record=record, schedule=self.schedule
        )

    def __repr__(self) -> str:
        return f"<nki kernel {self.function.__name__}{f'[{self.lnc}]' if self.gridded else ''}>"


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator; `mode=` is ignored."""
    options.pop("mode", None)
    if "platform_target" in options:
        raise UsageError("nki.jit(platform_target=…) was removed; set NEURON_PLATFORM_TARGET_OVERRIDE instead")
    if options:
        raise UsageError(f"nki.jit takes no {', '.join(sorted(options))}; it takes only the function")
    return jit if fn is None else Kernel(fn)


def simulate(kernel: Any) -> Kernel:
    """The kernel (or `kernel[2]`, or a plain function) run on the CPU."""
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


def simulate_ranks(kernel: Any, arguments: Sequence[tuple[Any, ...]], record: bool = False) -> Run:
    """One rank per tuple of arguments, with collectives between them; `Run.results` has one result per rank."""
    return simulate(kernel)._run([(tuple(each), {}) for each in arguments], record)
