"""Scalar registers of an engine's sequencer."""

from __future__ import annotations

import operator
from typing import Any

from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.tensor import NKIObject


class VirtualRegister(NKIObject):
    """A 32-bit integer; an induction register of a device loop is frozen."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self._value = state
        self.frozen = frozen

    @property
    def value(self) -> int:
        if self._value is None:
            raise refusal("register", "it is read before it was written", cure="give register_alloc a value")
        return self._value

    def move(self, operation: str, value: int) -> None:
        if self.frozen:
            raise refusal(
                operation,
                "the induction register of a loop cannot be written",
                cure="copy it to register_alloc()",
            )
        self._value = wrapped(value)

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __repr__(self) -> str:
        return f"<register {'unset' if self._value is None else self._value}>"


def wrapped(value: int) -> int:
    """Two's complement in 32 bits."""
    return (int(value) + 2**31) % 2**32 - 2**31


def integer(value: Any) -> int:
    """An int or the value of a register."""
    return operator.index(value)
