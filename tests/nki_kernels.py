"""Small kernels around one instruction, so that a test states only the instruction and the expected array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuron_lab import nki
from neuron_lab.nki import language as nl


def on_tiles(body: Callable[..., Any], *arrays: np.ndarray, shape: Any = None, dtype: Any = None) -> np.ndarray:
    """`body(dst, *tiles)` with the arrays loaded into SBUF; dst is like the first array by default."""
    wanted = tuple(shape or arrays[0].shape)

    def kernel(*tensors: Any) -> Any:
        tiles = [nl.load(tensor) for tensor in tensors]
        dst = nl.ndarray(wanted, dtype or tensors[0].dtype)
        body(dst, *tiles)
        out = nl.ndarray(wanted, dst.dtype, buffer=nl.shared_hbm)
        nl.store(out, dst)
        return out

    return nki.simulate(kernel)(*arrays)


def tile_of(body: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """The tile (or view) that `body(*tiles)` returns, stored as it is."""

    def kernel(*tensors: Any) -> Any:
        made = body(*[nl.load(tensor) for tensor in tensors])
        if nl.is_psum(made.buffer):
            made = nl.copy(made)
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nl.store(out, made)
        return out

    return nki.simulate(kernel)(*arrays)


def in_kernel(body: Callable[[], Any]) -> None:
    """Run `body()` inside a kernel without arguments; for what raises or only inspects."""

    def kernel() -> None:
        body()

    nki.simulate(kernel)()


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(*shape: int, low: int = 0, high: int = 100, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
