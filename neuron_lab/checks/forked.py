"""A copy of this process (a fork) runs a call on the caller's objects, changes none, and leaves its trace.

Works where objects cannot be sent to another process, as with classes of a notebook. Only the emulated device
can be copied so; a real one cannot. In the copy torch computes on one thread, since its threads are not copied.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuron_lab.checks import outcome
from neuron_lab.checks.outcome import Outcome
from neuron_lab.checks.watched_run import WatchedRun
from neuron_lab.device import device_info
from neuron_lab.errors import ActivationError, UsageError
from neuron_lab.session.armed import CellOf
from neuron_lab.trace.recorder import RECORDER

GRACE_S = 30.0  # beyond the time limit, to write the partial report
OUTPUT_FILE = "output.txt"
AFTER_BACKWARD = "autograd's threading in combination with fork"


def run_forked(
    body: Callable[[], Any],
    folder: Path,
    *,
    name: str,
    instance: str | None,
    timeout_s: float | None,
    cell_of: CellOf | None = None,
) -> Outcome:
    """The outcome; the trace is in the folder. What the body prints is kept in the folder's output.txt."""
    _refuse_what_cannot_be_copied()
    sys.stdout.flush()
    sys.stderr.flush()
    alive, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(alive)
        _be_the_child(body, folder, name, instance, timeout_s, cell_of)
    os.close(held)
    try:
        return _wait(child, alive, folder, timeout_s)
    finally:
        os.close(alive)


def _refuse_what_cannot_be_copied() -> None:
    if not hasattr(os, "fork"):
        raise ActivationError("a check in this process needs os.fork; use `neuron-lab check script.py` instead")
    if device_info().kind == "hardware":
        raise ActivationError(
            "a check copies this process, and a process that uses a real device cannot be copied; use "
            "`neuron-lab check script.py`, which runs on the emulated device"
        )
    if RECORDER.active:
        raise UsageError("a check cannot run inside a profile; end the profile first")
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("a check must be called from the main thread")


def _be_the_child(
    body: Callable[[], Any],
    folder: Path,
    name: str,
    instance: str | None,
    timeout_s: float | None,
    cell_of: CellOf | None,
) -> None:
    """Never returns: nothing of the caller's may run twice, at its exit least of all."""
    try:
        with open(folder / OUTPUT_FILE, "w", encoding="utf-8") as output:
            sys.stdout = sys.stderr = output
            signal.signal(signal.SIGINT, signal.default_int_handler)
            import torch

            import neuron_lab

            torch.set_num_threads(1)
            if device_info().kind == "off" or instance is not None:
                neuron_lab.activate(instance=instance, mode="emulated")
            if "torch._dynamo" in sys.modules:
                from neuron_lab.compiler.backend import forget_compiled

                torch._dynamo.reset()  # what the caller has compiled already counts again
                forget_compiled()
            WatchedRun(folder, name, timeout_s, cell_of).run(body)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Outcome("raised", f"{type(error).__name__}: {error}").write(folder)
    finally:
        os._exit(0)


def _wait(child: int, alive: int, folder: Path, timeout_s: float | None) -> Outcome:
    limit_s = None if timeout_s is None else timeout_s + GRACE_S
    try:
        ended = _closed_within(alive, limit_s)
    except KeyboardInterrupt:
        os.kill(child, signal.SIGINT)
        if not _closed_within(alive, GRACE_S):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return outcome.read(folder) or Outcome("lost", how_it_ended(os.waitstatus_to_exitcode(status)))


def _closed_within(alive: int, limit_s: float | None) -> bool:
    """Whether the child has ended: it holds the other end of this pipe, and never writes."""
    return bool(select.select([alive], [], [], limit_s)[0])


def how_it_ended(code: int) -> str:
    if code < 0:
        return f"the process was ended by signal {signal.Signals(-code).name}"
    return f"the process ended with status {code} before its report was written"
