"""Points where several cores exchange something and all go on together."""

from __future__ import annotations

from typing import Any

from neuron_lab.nki.run import Core


def number_of(core: Core) -> int:
    """The core's number in the launch."""
    return core.rank * core.launch.lnc + core.program


def meet(core: Core, key: Any, members: list[int], given: Any, what: str) -> dict[int, Any]:
    """Leave `given` for the n-th meeting under `key` and wait for all members; returns what each one gave."""
    count = core.meetings.get(key, 0)
    core.meetings[key] = count + 1
    box = core.launch.mail.setdefault((key, count), {})
    own = number_of(core)
    box[own] = given
    turns = core.launch.turns
    if turns is not None:
        turns.wait_until(own, lambda: len(box) == len(members), what)
    return dict(box)
