"""The figures a live view shows while a profile is open. Plain data: who draws them is not known here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveCounters:
    """Counts since the profile started (measured), memory now (measured), core time (modelled).

    `hbm_used_bytes` has one entry per core. `core_busy` is the modelled share (0 to 1) of the modelled span in
    which the busiest core computes, at the low and the high end of the model; None before the first operator.
    """

    elapsed_s: float = 0.0
    operators: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    uncompiled_calls: int = 0  # after Dynamo's recompile limit was reached
    eager_kernels: int = 0  # compiled for the first time in this process
    eager_kernel_hits: int = 0
    fallbacks: int = 0
    steps: int = 0
    hbm_used_bytes: tuple[int, ...] = ()
    hbm_limit_bytes: int | None = None
    core_busy: tuple[float, float] | None = None
    dropped: int = 0  # records lost so far
    finished: bool = False
