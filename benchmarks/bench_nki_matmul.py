"""A tiled bfloat16 matmul kernel of 2048³ beside numpy's float32 product, with the same BLAS threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from benchmarks.paired import paired_ratio
from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl

SIZE = 2048
PAIRS = 9
K, M, N = 128, 128, 512  # one tensor-engine instruction


@nki.jit
def tiled_matmul(left_t, right):  # type: ignore[no-untyped-def]
    """left_t.T @ right, the right side of one column block kept in SBUF."""
    depth, rows = left_t.shape
    columns = right.shape[1]
    out = nl.ndarray((rows, columns), left_t.dtype, buffer=nl.shared_hbm)
    for n in range(columns // N):
        moving = nl.ndarray((K, depth // K, N), right.dtype)
        for k in range(depth // K):
            nisa.dma_copy(moving[:, k, :], right[k * K : (k + 1) * K, n * N : (n + 1) * N])
        for m in range(rows // M):
            stationary = nl.ndarray((K, depth // K, M), left_t.dtype)
            for k in range(depth // K):
                nisa.dma_copy(stationary[:, k, :], left_t[k * K : (k + 1) * K, m * M : (m + 1) * M])
            total = nl.ndarray((M, N), nl.float32, buffer=nl.psum)
            for k in range(depth // K):
                nisa.nc_matmul(total, stationary[:, k, :], moving[:, k, :])
            tile = nl.ndarray((M, N), out.dtype)
            nisa.tensor_copy(tile, total)
            nisa.dma_copy(out[m * M : (m + 1) * M, n * N : (n + 1) * N], tile)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    low_left, low_right = left.astype(ml_dtypes.bfloat16), right.astype(ml_dtypes.bfloat16)
    for label, run in (("limits on", tiled_matmul.run), ("limits and recording on", tiled_matmul.record)):
        ratio = paired_ratio(lambda run=run: run(low_left, low_right), lambda: left.T @ right, pairs=PAIRS)
        print(f"tiled bf16 matmul {SIZE}³, {label}, over numpy float32: {ratio}; target <= 3")


if __name__ == "__main__":
    main()
