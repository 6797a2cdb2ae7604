"""Reads the figures of an open recording: event counts, device memory, modelled core time so far."""

from __future__ import annotations

import threading
import time

import numpy as np

from neuron_lab.analysis.live_model import LiveModel
from neuron_lab.analysis.modelled import READ_BACK, chip_of
from neuron_lab.compiler.observer import OBSERVER
from neuron_lab.device import DeviceInfo
from neuron_lab.hardware.instances import DEFAULT_LNC
from neuron_lab.session.live import LiveCounters
from neuron_lab.trace.builder import Chunk
from neuron_lab.trace.columns import NO_TEXT, Array
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.recorder import Recording


class LiveReading:
    """The live figures of one recording. Several threads may ask; each operator is modelled once."""

    def __init__(self, recording: Recording, info: DeviceInfo) -> None:
        self._recording = recording
        self._info = info
        self._lock = threading.Lock()
        self._start_s = time.monotonic()
        self._seen = dict.fromkeys((Kind.OPERATOR, Kind.COPY, Kind.FALLBACK), 0)
        chip, _ = chip_of(TraceHeader(chip=info.chip, instance=info.instance))
        self._compiled_before = OBSERVER.counts()
        self._eager_runs = 0
        self._is_eager: list[bool] = []  # by signature id
        self._model = None if chip is None else LiveModel(chip, info.lnc or DEFAULT_LNC)

    def read(self, *, finished: bool = False) -> LiveCounters:
        """The figures of this moment; what the sources still hold is not in them."""
        with self._lock:
            self._follow()
            return self._counters(finished)

    def _follow(self) -> None:
        """Model and count what came since the last reading."""
        copies = [chunk.arrays["start_ns"][self._is_read_back(chunk)] for chunk in self._new(Kind.COPY)]
        fallbacks = [chunk.arrays["start_ns"] for chunk in self._new(Kind.FALLBACK)]
        read_backs = np.concatenate([*copies, *fallbacks, np.empty(0, np.int64)])
        columns = ("start_ns", "core", "signature")
        chunks = self._new(Kind.OPERATOR)
        if chunks or len(read_backs):
            operators = {
                name: np.concatenate([chunk.arrays[name] for chunk in chunks] or [np.empty(0, np.int64)])
                for name in columns
            }
            self._eager_runs += self._count_eager(operators["signature"])
            if self._model is not None:
                self._model.add(operators, self._recording.signatures, self._recording.graphs, read_backs)

    def _count_eager(self, signature: Array) -> int:
        """How many of these operators ran an eager kernel."""
        later = self._recording.signatures[len(self._is_eager) :]
        self._is_eager += [each.compiles and each.graph < 0 for each in later]
        return int(np.array(self._is_eager, bool)[signature[signature >= 0]].sum())

    def _is_read_back(self, copies: Chunk) -> Array:
        directions = self._recording.vocabulary
        code = directions.index(READ_BACK) if READ_BACK in directions else NO_TEXT
        return copies.arrays["direction"] == code

    def _new(self, kind: Kind) -> list[Chunk]:
        chunks = self._recording.rows_after(kind, self._seen[kind])
        self._seen[kind] += sum(map(len, chunks))
        return chunks

    def _counters(self, finished: bool) -> LiveCounters:
        count = self._recording.count
        share = None if self._model is None else self._model.busy_share()
        compiled = OBSERVER.counts() - self._compiled_before
        return LiveCounters(
            elapsed_s=time.monotonic() - self._start_s,
            operators=count(Kind.OPERATOR),
            graph_breaks=count(Kind.GRAPH_BREAK),
            recompiles=compiled.recompiles,
            uncompiled_calls=compiled.uncompiled_calls,
            eager_kernels=count(Kind.EAGER_KERNEL),
            eager_kernel_hits=max(0, self._eager_runs - count(Kind.EAGER_KERNEL)),
            fallbacks=count(Kind.FALLBACK),
            steps=count(Kind.STEP),
            hbm_used_bytes=memory_now(self._info.cores),
            hbm_limit_bytes=self._info.hbm_per_core_bytes,
            core_busy=None if share is None else (share.low, share.high),
            dropped=self._recording.dropped_count,
            finished=finished,
        )


def memory_now(cores: int) -> tuple[int, ...]:
    """Bytes allocated on each core at this moment."""
    import torch

    return tuple(int(torch.neuron.memory_allocated(core)) for core in range(cores))
