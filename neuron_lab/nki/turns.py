"""Cores take turns: one runs until it must wait for another, so that every run gives the same result.

A core waits for a meeting (a barrier, a send, a collective) that others have yet to reach. When nobody can run,
the meeting that each one waits at is named in the error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.run import Stopped


class Turns:
    """Who may run. Threads call `start`, `wait_until` and `done`; exactly one of them runs at any time."""

    def __init__(self, count: int) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[int, tuple[Callable[[], bool], str]] = {}
        self._left = list(range(count))
        self._running: int | None = 0
        self._stopped = False

    def start(self, core: int) -> None:
        """Wait for the first turn."""
        with self._condition:
            self._condition.wait_for(lambda: self._running == core or self._stopped)
            self._leave_if_stopped()

    def wait_until(self, core: int, ready: Callable[[], bool], what: str) -> None:
        """Give the turn away until `ready()`."""
        if ready():
            return
        with self._condition:
            self._waiting[core] = (ready, what)
            self._pass_on(core)
            self._condition.wait_for(lambda: self._running == core or self._stopped)
            self._leave_if_stopped()

    def done(self, core: int) -> None:
        """The core has finished or failed."""
        with self._condition:
            self._left.remove(core)
            self._waiting.pop(core, None)
            if self._running == core:
                self._pass_on(core)

    def stop(self) -> None:
        """Wake everyone to unwind."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def _leave_if_stopped(self) -> None:
        if self._stopped:
            raise Stopped

    def _pass_on(self, core: int) -> None:
        """The next core that can run; the order is fixed, so runs repeat."""
        order = [each for each in self._left if each > core] + [each for each in self._left if each <= core]
        for each in order:
            waiting = self._waiting.get(each)
            if waiting is None or waiting[0]():
                self._waiting.pop(each, None)
                self._running = each
                self._condition.notify_all()
                return
        self._running = None
        if self._left and not self._stopped:
            self._give_up(core)

    def _give_up(self, core: int) -> None:
        """Nobody can run: the last one to wait reports, the others unwind."""
        waits = "; ".join(f"core {each}: {what}" for each, (_, what) in sorted(self._waiting.items()))
        self._stopped = True
        self._condition.notify_all()
        if core in self._left:
            raise refusal(
                "launch",
                f"no core can go on ({waits})",
                cure="let every core reach the same barriers, sends and collectives in the same order",
            )
        self.deadlock = waits

    deadlock: str = ""
