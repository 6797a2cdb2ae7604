"""Random numbers of a core. The generator of the hardware is not published in full, so values differ from it.

The state that kernels save and restore is XORWOW's six words per lane (24 for the vector engine: four of them);
setting it seeds a numpy generator, so that equal states give equal values.
"""

from __future__ import annotations

import numpy as np

from neuron_lab.nki.dtypes import Array


class RandomState:
    """One per core; deterministic from the first draw."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._set: dict[str, Array] = {}

    def seed(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def load(self, engine: str, words: Array) -> None:
        self._set[engine] = words.copy()
        self._generator = np.random.default_rng([int(word) for word in words.reshape(-1)])

    def store(self, engine: str, lanes: int, words: int) -> Array:
        """The state last loaded, advanced to a fresh one so that loading it continues from here."""
        fresh = self._generator.integers(0, 2**32, (lanes, words), dtype=np.uint32)
        self.load(engine, fresh)
        return fresh

    def bits(self, shape: tuple[int, ...]) -> Array:
        return self._generator.integers(0, 2**32, shape, dtype=np.uint32)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self._generator.random(shape, dtype=np.float32)
