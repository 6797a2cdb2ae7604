"""The environment variables that carry the chosen device to child processes, set and restored as one.

Knows nothing of what they mean; `selection` and `topology` read them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

NAMES = ("NEURON_LAB_DEVICE", "NEURON_LAB_INSTANCE", "NEURON_LAB_CORES", "NEURON_LAB_LNC")

_before: dict[str, str | None] = {}
"""The values found when the device was first activated; empty while nothing is exported."""


def export(values: Mapping[str, str]) -> None:
    """Put `values` into `os.environ`, so that children inherit the choice; remember what stood there."""
    for name in NAMES:
        _before.setdefault(name, os.environ.get(name))
    os.environ.update(values)


def restore() -> None:
    """Put back what stood there before the first `export`."""
    for name, value in _before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before.clear()


def as_the_user_set_it() -> dict[str, str]:
    """The environment without our own exports: what a second activation must read."""
    environ = dict(os.environ)
    for name, value in _before.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
    return environ
