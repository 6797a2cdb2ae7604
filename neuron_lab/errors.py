"""Every exception neuron_lab raises on purpose.

    NeuronLabError
    ├── UsageError            a name, option or value the user gave is not valid
    ├── ActivationError       the `neuron` device cannot be made active here
    │   └── CoreBuildError    the device core cannot be compiled or loaded
    ├── TraceError            a trace file cannot be read, or was made by a newer schema
    └── OutputError           a result cannot be written; what was measured is kept

A message answers, in this order: what was tried, the value that failed, the limit and where it comes from,
the user's file and line when known, and one thing to try next.

What the *device* refuses is not in this tree: it raises the error type of the real device (a plain
`RuntimeError` for device memory, for instance), because user code catches those.
"""

from __future__ import annotations

from collections.abc import Iterable


class NeuronLabError(Exception):
    """Base of all errors below."""


class UsageError(NeuronLabError, ValueError):
    """A name, option or value the user gave is not valid."""


class ActivationError(NeuronLabError, RuntimeError):
    """The `neuron` device cannot be made active in this process."""


class CoreBuildError(ActivationError):
    """The device core cannot be compiled or loaded on this machine."""


class TraceError(NeuronLabError, ValueError):
    """A trace file cannot be read, or was made by a newer schema."""


class OutputError(NeuronLabError, OSError):
    """A result cannot be written; what was measured is kept in memory."""


def unknown_choice(what: str, value: object, choices: Iterable[object]) -> UsageError:
    """One line naming the value and the valid ones: `unknown instance 'trn9'; valid: trn2.3xlarge, …`."""
    valid = ", ".join(str(choice) for choice in choices)
    return UsageError(f"unknown {what} {value!r}; valid: {valid}")
