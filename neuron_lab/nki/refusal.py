"""What a kernel may not do: the error that names value, limit, the kernel's own line and a cure."""

from __future__ import annotations

from typing import Any

from neuron_lab.errors import NeuronLabError
from neuron_lab.nki.places import Place, kernel_place, place_text


class NkiValidationError(NeuronLabError, ValueError):
    """A rule of the hardware or of the API is broken; the fields say the same as the message."""

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        value: Any = None,
        limit: Any = None,
        place: Place | None = None,
        cure: str = "",
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.value = value
        self.limit = limit
        self.place = place
        self.cure = cure


def refusal(
    operation: str, problem: str, *, cure: str, value: Any = None, limit: Any = None, place: Place | None = None
) -> NkiValidationError:
    """The error to raise: `operation: problem, at file:line; cure`."""
    where = place or kernel_place()
    return NkiValidationError(
        f"{operation}: {problem}, at {place_text(where)}; {cure}",
        operation=operation,
        value=value,
        limit=limit,
        place=where,
        cure=cure,
    )


def over_limit(operation: str, what: str, value: int, limit: int, source: str, cure: str) -> NkiValidationError:
    """A size above its limit; `source` names the limit."""
    return refusal(
        operation, f"{what} is {value}, the limit is {limit} ({source})", cure=cure, value=value, limit=limit
    )
