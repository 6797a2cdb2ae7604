"""Enumerations of `nki.isa`; arguments must be members, not numbers."""

from __future__ import annotations

import enum
from typing import Any

from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.target import nc_version

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]


class engine(enum.Enum):  # noqa: N801 - the public names are lower case
    """Instruction streams."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0


class reduce_cmd(enum.Enum):  # noqa: N801
    """What an instruction does with its engine's accumulator."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(enum.Enum):  # noqa: N801
    """Who makes DMA descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(enum.Enum):  # noqa: N801
    """What an index outside the tensor does."""

    error = 0
    skip = 1


class matmul_perf_mode(enum.Enum):  # noqa: N801
    """Fast modes of the tensor engine."""

    none = "none"
    double_row = "double_row"


class dma_engine(enum.Enum):  # noqa: N801
    """Who moves a `sendrecv`."""

    dma = 1
    gpsimd_dma = 2


def member(value: Any, kind: type[enum.Enum], operation: str, argument: str) -> None:
    """Refuse numbers and strings where a member is expected."""
    if not isinstance(value, kind):
        names = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
        raise refusal(
            operation, f"{argument}={value!r} is no member of {kind.__name__}", cure=f"use one of {names}"
        )


def chosen_engine(value: Any, default: str, allowed: tuple[str, ...], operation: str) -> str:
    """The engine's name: the default for `engine.unknown`, else one the instruction runs on."""
    if value is engine.unknown:
        return default
    member(value, engine, operation, "engine")
    if value.name not in allowed:
        raise refusal(
            operation,
            f"engine.{value.name} does not run it",
            cure="use " + " or ".join(f"engine.{name}" for name in allowed),
            value=value.name,
            limit=allowed,
        )
    return str(value.name)
