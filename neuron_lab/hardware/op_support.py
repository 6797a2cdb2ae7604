"""Which operators the neuron device computes itself in eager mode, and which on the host.

The list is of April 2026 and older than the product: say "falls back per the April 2026 list", never plain
"falls back". It knows nothing of the compiled path, whose decompositions cover more operators.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, cast

Status = Literal["native", "cpu_fallback", "unsupported"]

SOURCE = "TorchNeuron source of April 2026"
FALLBACK_REASON = "falls back per the April 2026 list"


class Support(NamedTuple):
    """How one operator is served. `mechanism` tells a kernel of its own from a composite of other operators."""

    status: Status
    mechanism: str


def status(op: str) -> Status | None:
    """`native`, `cpu_fallback` or `unsupported` for `aten::name.overload`; None when not listed."""
    support = _table().get(op)
    return support.status if support else None


def falls_back(op: str) -> bool:
    """Whether the list says that the host computes it. An operator that is not listed does not count as one."""
    return op in fallback_ops()


@cache
def fallback_ops() -> frozenset[str]:
    """Every operator the list gives to the host, as `aten::name.overload`."""
    return frozenset(op for op, support in _table().items() if support.status == "cpu_fallback")


def support(op: str) -> Support | None:
    return _table().get(op)


@cache
def _table() -> dict[str, Support]:
    text = resources.files("neuron_lab.hardware").joinpath("op_support.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["op"]: Support(cast(Status, row["status"]), row["mechanism"]) for row in rows}
