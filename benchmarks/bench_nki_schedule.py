"""Scheduling a kernel of a million instructions: dependencies, costs and both ends of the time."""

from __future__ import annotations

import time

import numpy as np

from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl
from neuron_lab.nki.timing.model import time_run

INSTRUCTIONS = 1_000_000
PER_TURN = 5


@nki.jit
def many_instructions(x, turns):  # type: ignore[no-untyped-def]
    """Load, scale, add, multiply, store: a new tile in every turn."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    weight = nl.load(x)
    for turn in range(turns):
        row = turn % 4 * 8
        tile, scaled = nl.ndarray((8, 64), x.dtype), nl.ndarray((8, 64), x.dtype)
        nisa.dma_copy(tile, x[row : row + 8])
        nisa.activation(scaled, op=nl.copy, data=tile, scale=2.0)
        nisa.tensor_tensor(scaled, scaled, weight[0:8], op=nl.add)
        nisa.tensor_scalar(scaled, scaled, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(out[row : row + 8], scaled)
    return out


def main() -> None:
    start = time.perf_counter()
    run = many_instructions.record(np.ones((32, 64), np.float32), INSTRUCTIONS // PER_TURN)
    recorded = time.perf_counter()
    timing = time_run(run)
    done = time.perf_counter()
    print(f"{timing.instructions:,} instructions recorded in {recorded - start:.1f} s")
    print(f"scheduled in {done - recorded:.1f} s; target <= 10 s")


if __name__ == "__main__":
    main()
