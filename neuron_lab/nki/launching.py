"""Running a kernel: cores, turns, and what remains afterwards.

`run_kernel(..., record=True)` keeps every instruction for the time model; without it only counts and findings
remain.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from neuron_lab.nki.arguments import Arguments
from neuron_lab.nki.capacity import Peak, check_capacity
from neuron_lab.nki.places import Place, kernel_place
from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.run import Core, Finding, Launch, Recorded, Stopped, running
from neuron_lab.nki.storage import MemoryRegion
from neuron_lab.nki.target import current_target
from neuron_lab.nki.tensor import NkiTensor
from neuron_lab.nki.turns import Turns
from neuron_lab.nki.unwritten import Unwritten, unwritten_part

MAX_LNC = 2
_JOIN_S = 0.1


class NkiWarning(UserWarning):
    """A kernel ran, but something in it is probably not meant."""


@dataclass(frozen=True, slots=True)
class CoreRun:
    """What one core did."""

    rank: int
    program: int
    instructions: int
    log: tuple[Recorded, ...] | None  # None when recording was off
    edges: tuple[tuple[int, int], ...]  # explicit (earlier, later) instruction numbers
    order_blocks: tuple[tuple[int, int], ...]
    sbuf: Peak | None
    psum: Peak | None


@dataclass(slots=True)
class Run:
    """One launch. `ok` is false when it raised, left results unwritten or gave findings."""

    kernel: str
    target: str
    results: list[Any] = field(default_factory=list)  # per rank
    cores: tuple[CoreRun, ...] = ()
    findings: Mapping[Finding, int] = field(default_factory=dict)
    unwritten: tuple[Unwritten, ...] = ()
    error: BaseException | None = None
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (later, earlier names) of `with_schedule`

    @property
    def result(self) -> Any:
        return self.results[0]

    @property
    def ok(self) -> bool:
        return self.error is None and not self.unwritten and not self.findings


_last: list[Run] = []


def last_run() -> Run | None:
    """The newest launch of this process, also when it raised."""
    return _last[0] if _last else None


def run_kernel(
    function: Callable[..., Any],
    calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]],
    *,
    lnc: int = 1,
    gridded: bool = False,
    record: bool = False,
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Run:
    """Run on `len(calls)` ranks of `lnc` cores; one call per rank."""
    if lnc not in {1, MAX_LNC}:
        raise refusal("launch", f"kernel[{lnc}]", cure="use kernel[1] or kernel[2]", value=lnc, limit=MAX_LNC)
    precise = os.environ.get("NKI_PRECISE_FP", "1") != "0"
    launch = Launch(current_target(), precise, lnc, gridded, len(calls))
    run = Run(getattr(function, "__name__", "kernel"), launch.target.chip, schedule=schedule)
    _last[:] = [run]
    place = kernel_place()
    arguments = [Arguments(launch, place) for _ in calls]
    cores = [Core(launch, program, rank) for rank in range(len(calls)) for program in range(lnc)]
    for core in cores:
        core.log = [] if record else None
    wrapped = [_wrapped(each, call) for each, call in zip(arguments, calls, strict=True)]
    try:
        returned = _run_all(function, cores, wrapped)
        _collect(run, launch, cores, returned, arguments)
    except BaseException as error:
        run.error = error
        raise
    finally:
        run.findings = launch.findings
        if not run.cores:
            run.cores = tuple(_core_run(core, None) for core in cores)
    _warn(run, place)
    return run


def _wrapped(arguments: Arguments, call: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    positional, named = call
    return (
        tuple(arguments.wrap(value, f"argument {k}") for k, value in enumerate(positional)),
        {name: arguments.wrap(value, name) for name, value in named.items()},
    )


def _run_all(function: Callable[..., Any], cores: list[Core], wrapped: list[Any]) -> list[Any]:
    if len(cores) == 1:
        positional, named = wrapped[0]
        with running(cores[0]):
            return [function(*positional, **named)]
    return _Threads(function, cores, wrapped).run()


class _Threads:
    """One thread per core, of which one runs at a time."""

    def __init__(self, function: Callable[..., Any], cores: list[Core], wrapped: list[Any]) -> None:
        self.function, self.cores, self.wrapped = function, cores, wrapped
        self.turns = cores[0].launch.turns = Turns(len(cores))
        self.returned: list[Any] = [None] * len(cores)
        self.errors: list[BaseException] = []

    def run(self) -> list[Any]:
        threads = [
            threading.Thread(target=self._one, args=(number,), name=f"nki-core-{number}", daemon=True)
            for number in range(len(self.cores))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while (
                    thread.is_alive()
                ):  # in short waits, so that an interrupt from another thread gets through
                    thread.join(_JOIN_S)
        except BaseException:  # an interrupt: let the cores unwind
            self._stop()
            for thread in threads:
                thread.join()
            raise
        if self.errors:
            raise self.errors[0]
        if self.turns.deadlock:
            raise refusal(
                "launch",
                f"cores wait for ever ({self.turns.deadlock})",
                cure="let every core reach the same barriers, sends and collectives in the same order",
            )
        return self.returned

    def _stop(self) -> None:
        self.cores[0].launch.stopped = True
        self.turns.stop()

    def _one(self, number: int) -> None:
        core = self.cores[number]
        positional, named = self.wrapped[core.rank]
        try:
            self.turns.start(number)
            with running(core):
                self.returned[number] = self.function(*positional, **named)
            self.turns.done(number)
        except Stopped:
            return
        except BaseException as error:
            self.errors.append(error)
            self._stop()


def _collect(
    run: Run, launch: Launch, cores: list[Core], returned: list[Any], arguments: list[Arguments]
) -> None:
    run.cores = tuple(_core_run(core, check_capacity(core.lifetimes, launch.target)) for core in cores)
    for rank, each in enumerate(arguments):
        value = returned[rank * launch.lnc]
        run.unwritten += tuple(_unwritten(value, "result", launch.lnc))
        _note_private(value, cores[rank * launch.lnc])
        run.results.append(each.unwrap(value))
        each.finish()


def _core_run(core: Core, peaks: tuple[Peak, Peak] | None) -> CoreRun:
    return CoreRun(
        core.rank,
        core.program,
        core.clock,
        None if core.log is None else tuple(core.log),
        tuple(core.edges),
        tuple(core.order_blocks),
        peaks[0] if peaks else None,
        peaks[1] if peaks else None,
    )


def _tensors(value: Any, label: str) -> list[tuple[NkiTensor, str]]:
    if isinstance(value, NkiTensor):
        return [(value, label)]
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _tensors(item, f"{label}[{key!r}]")]
    if isinstance(value, (tuple, list)):
        return [pair for k, item in enumerate(value) for pair in _tensors(item, f"{label}[{k}]")]
    return []


def _unwritten(value: Any, label: str, lnc: int) -> list[Unwritten]:
    found = [unwritten_part(tensor, name) for tensor, name in _tensors(value, label) if not tensor.on_chip]
    return [each for each in found if each is not None]


def _note_private(value: Any, core: Core) -> None:
    for tensor, label in _tensors(value, "result"):
        if tensor.buffer is MemoryRegion.private_hbm and not tensor.storage.given:
            core.find(
                "does not compile",
                f"{label} is returned from nl.hbm; the real compiler wants nl.shared_hbm",
                tensor.storage.place,
            )


def _warn(run: Run, place: Place) -> None:
    """At the place in the user's code, so that Python shows each once."""
    for part in run.unwritten:
        warnings.warn_explicit(f"{run.kernel}: {part.text}", NkiWarning, *place)
    for finding, count in run.findings.items():
        times = f" ({count} times)" if count > 1 else ""
        warnings.warn_explicit(f"{run.kernel}: {finding.text}{times}", NkiWarning, *finding.place)
