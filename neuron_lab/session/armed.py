"""The armed period: producers on, a thread that drains them, and the way back to a quiet process.

Profiles are process-wide and may be nested; each sees its own interval. Knows neither notebooks nor widgets:
the magics hand in what only they know (`cell_of`, `context`).
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from neuron_lab.device import device_info
from neuron_lab.device.source import SOURCE, CoreSource
from neuron_lab.errors import ActivationError, UsageError
from neuron_lab.session.live import LiveCounters
from neuron_lab.session.live_reading import LiveReading
from neuron_lab.session.result import Profile, remember
from neuron_lab.trace.events import TraceHeader
from neuron_lab.trace.recorder import RECORDER, Recording, Source

CellOf = Callable[[str], str | None]
"""File name of a notebook cell's code → "In [n]", or None for any other file."""

PUMP_INTERVAL_S = 0.05
"""How often the core's buffers are drained: at 1 M operators a second they hold more than twice this long."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def profile(
    name: str | None = None,
    *,
    stacks: bool = False,
    cell_of: CellOf | None = None,
    context: dict[str, str] | None = None,
) -> ProfileSession:
    """Profile a block or a function on the `neuron` device.

        with neuron_lab.profile("decode") as session:
            model.generate(**inputs)
        session.profile.summary()

    Used as a decorator, each call is a profile; `neuron_lab.last_profile()` is the latest. `stacks=True` keeps
    the Python stack of every operator (else only of first-seen kernels and fallbacks). An exception in the
    block passes through; what was recorded until then is kept and says which exception ended it.

    Raises ActivationError when no `neuron` device is active.
    """
    return ProfileSession(name or "", stacks=stacks, cell_of=cell_of, context=context)


class ProfileSession:
    """One profile being taken. `start()` and `stop()` for those who cannot use `with`."""

    def __init__(
        self, name: str, *, stacks: bool, cell_of: CellOf | None, context: dict[str, str] | None
    ) -> None:
        self.name = name
        self.stacks = stacks
        self._cell_of = cell_of
        self._context = context or {}
        self._recording: Recording | None = None
        self._reading: LiveReading | None = None
        self._profile: Profile | None = None
        self._final = LiveCounters()

    @property
    def profile(self) -> Profile:
        """The result; an error before `stop`."""
        if self._profile is None:
            raise UsageError("this profile has not ended yet; its result exists after the block or stop()")
        return self._profile

    @property
    def running(self) -> bool:
        return self._recording is not None

    def start(self) -> ProfileSession:
        """Arm the producers and begin the interval."""
        if self.running:
            raise UsageError("this profile is running already; make another with neuron_lab.profile()")
        _PRODUCERS.arm(self)
        try:
            self._recording = RECORDER.open()
            self._reading = LiveReading(self._recording, device_info())
        except BaseException:
            _PRODUCERS.disarm(self)
            raise
        return self

    def stop(self, error: BaseException | None = None) -> Profile:
        """End the interval, disarm, and return the profile. `error` is what ended the block, if any."""
        if self._recording is None or self._reading is None:
            raise UsageError("this profile is not running; call start() first")
        try:
            trace = self._recording.close(self._header(error))
            self._final = self._reading.read(finished=True)
        finally:
            _PRODUCERS.disarm(self)
            self._recording = None  # only now: until then a live view reads the figures so far
        self._profile = Profile(trace)
        remember(self._profile)
        return self._profile

    def live_counters(self) -> LiveCounters:
        """The figures of this moment, or the final ones after the end. Cheap; callable from any thread."""
        recording, reading = self._recording, self._reading
        if recording is None or reading is None:
            return self._final
        RECORDER.pump()
        return reading.read()

    def _header(self, error: BaseException | None) -> TraceHeader:
        info = device_info()
        return TraceHeader(
            name=self.name,
            device=info.kind,
            instance=info.instance,
            chip=info.chip,
            lnc=info.lnc,
            cores=info.cores,
            hbm_limit_bytes=info.hbm_per_core_bytes or 0,
            ranks=(0,),
            versions=dict(info.versions),
            host=host_description(),
            context={**git_context(), **self._context},
            error=f"{type(error).__name__}: {error}" if error is not None else "",
        )

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(error)

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def profiled(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            again = ProfileSession(
                self.name or function.__name__, stacks=self.stacks, cell_of=self._cell_of, context=self._context
            )
            with again:
                return function(*args, **kwargs)

        return profiled


class _Producers:
    """What is on while at least one profile is open: compile observer, step marks, the draining thread."""

    def __init__(self) -> None:
        self._open: list[ProfileSession] = []
        self._sources: list[Source] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def arm(self, session: ProfileSession) -> None:
        with self._lock:
            if not self._open:
                self._start()
            self._open.append(session)
            self._apply_options()

    def disarm(self, session: ProfileSession) -> None:
        with self._lock:
            if session in self._open:
                self._open.remove(session)
            self._apply_options()
            if not self._open:
                self._end()

    def _apply_options(self) -> None:
        """Nested profiles share the producers: the innermost's notebook, stacks when any asks for them."""
        from neuron_lab.compiler.observer import OBSERVER

        cell_of = self._open[-1]._cell_of if self._open else None
        OBSERVER.cell_of = cell_of
        stacks = any(session.stacks for session in self._open)
        for source in self._sources:
            if isinstance(source, CoreSource):
                source.cell_of = cell_of
            if isinstance(source, CoreSource) and source.stacks != stacks and self._open:
                RECORDER.remove_source(source)
                source.stacks = stacks
                RECORDER.add_source(source)

    def _start(self) -> None:
        import_module("torch")  # a child process activates with it, when NEURON_LAB_DEVICE says so
        if device_info().kind == "off":
            raise ActivationError(
                "a profile needs a `neuron` device and none is active; call neuron_lab.activate() first "
                "(in a notebook: %load_ext neuron_lab)"
            )
        self._sources = producers()
        for source in self._sources:
            RECORDER.add_source(source)
        self._stop.clear()
        self._thread = threading.Thread(target=self._drain, name="neuron_lab-drain", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for source in self._sources:
            RECORDER.remove_source(source)
        self._sources = []

    def _drain(self) -> None:
        while not self._stop.wait(PUMP_INTERVAL_S):
            # One producer's fault must not end the draining of the others. If it lasts, closing raises it.
            with contextlib.suppress(Exception):
                RECORDER.pump()


_PRODUCERS = _Producers()


def producers() -> list[Source]:
    """Who records: compilation, steps, and the emulated device's core. (Hardware has a profiler of its own.)"""
    from neuron_lab.compiler.observer import OBSERVER
    from neuron_lab.compiler.steps import STEPS

    sources: list[Source] = [OBSERVER, STEPS]
    if device_info().kind == "emulated":
        sources.append(SOURCE)
    return sources


def host_description() -> str:
    """What kind of machine measured the wall clock; no name that identifies it."""
    import os
    import platform

    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )


@functools.cache
def git_context(folder: Path | None = None) -> dict[str, str]:
    """Commit of the working folder, when it is a git checkout."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {"git_commit": done.stdout.strip()} if done.returncode == 0 else {}
