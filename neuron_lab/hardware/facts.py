"""A number with its unit, where it was published, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Confidence = Literal["measured", "documented", "assumed"]
"""From strongest to weakest: read from a real device; printed in a document; our own estimate."""

_STRENGTH: dict[Confidence, int] = {"measured": 0, "documented": 1, "assumed": 2}


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure of the hardware."""

    value: float
    unit: str
    source: str
    confidence: Confidence = "documented"

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit} ({self.confidence}: {self.source})"


def weakest(confidences: Iterable[Confidence]) -> Confidence:
    """The least trustworthy of several; `measured` when there is none, since nothing weakens the result."""
    return max(confidences, key=_STRENGTH.__getitem__, default="measured")
