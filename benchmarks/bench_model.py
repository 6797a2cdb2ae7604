"""How fast large traces are analysed: load, summary, what-if, findings, and what they take in memory.

Generated traces of operators as a training loop would leave them. Targets: load and summary two million events
a second, what-if ten seconds per million events (one where cores do not wait for one another), 150 bytes per
event.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.paired import bound_rank, seconds
from neuron_lab.analysis.findings import findings
from neuron_lab.analysis.totals import totals
from neuron_lab.analysis.utilisation import utilisation
from neuron_lab.analysis.what_if import what_if
from neuron_lab.trace import parquet
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import Kind, Signature, TensorSpec, TraceHeader
from neuron_lab.trace.recorder import Recorder, Sink, now_ns
from neuron_lab.trace.table import Trace

EVENTS = 1_000_000
SIGNATURES = 500
REPEATS = 7


def signature(width: int) -> Signature:
    def spec(*shape: int) -> TensorSpec:
        return TensorSpec("bfloat16", shape)

    return Signature("aten::mm", (spec(64, 512), spec(512, width)), (spec(64, width),))


def generated(count: int, cores: int = 1, ranks: int = 1, collectives: int = 0) -> Trace:
    """Operators on one or more cores and ranks, with a collective of all ranks now and then."""
    draw = np.random.default_rng(0)
    builder = TraceBuilder()
    for width in range(1, SIGNATURES + 1):
        builder.signature(signature(width))
    starts = np.arange(count) * 1_000
    columns = {
        "name": "aten::mm",
        "start_ns": starts,
        "duration_ns": draw.integers(500, 900, count),
        "signature": draw.integers(0, SIGNATURES, count).astype(np.int32),
        "core": draw.integers(0, cores, count).astype(np.int16),
        "rank": draw.integers(0, ranks, count).astype(np.int16),
        "track": 1,
    }
    builder.extend(Kind.OPERATOR, columns)
    for rank in range(ranks if collectives else 0):
        times = np.linspace(0, count * 1_000, collectives).astype(np.int64)
        meeting = {"name": "all_reduce", "start_ns": times, "size_bytes": 1 << 20, "group": "all"}
        builder.extend(Kind.COLLECTIVE, {**meeting, "rank": rank, "core": 0, "duration_ns": 1_000})
    builder.extend(
        Kind.STEP, {"name": "optimizer step", "start_ns": starts[::1000], "duration_ns": 1_000_000, "index": 0}
    )
    header = TraceHeader(instance="trn2.48xlarge", chip="trn2", lnc=2, ranks=tuple(range(ranks)))
    return builder.freeze(header)


def report(what: str, work: Callable[[], object], events: int) -> None:
    times = sorted(seconds(work) for _ in range(REPEATS))
    skip = bound_rank(REPEATS)
    middle = times[REPEATS // 2]
    print(
        f"{what}: {middle:.3f} s (95 % bound {times[skip]:.3f} to {times[-1 - skip]:.3f}, {REPEATS} runs), "
        f"{events / middle / 1e6:.2f} M events/s, measured"
    )


def main() -> None:
    plain = generated(EVENTS)
    print(f"one event in memory: {plain.size_bytes / len(plain):.0f} bytes, measured; target <= 150")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.neuron.parquet"
        parquet.save(plain, path)
        report("load and summary figures", lambda: totals(parquet.load(path)), EVENTS)
    report("summary figures alone", lambda: totals(plain), EVENTS)
    report("what if, one core", lambda: what_if(plain, dtype="float32"), EVENTS)
    spread = generated(EVENTS, cores=4, ranks=8, collectives=500)
    report(
        "what if, 8 ranks of 4 cores with 4000 collectives", lambda: what_if(spread, dtype="float32"), EVENTS
    )
    report("utilisation", lambda: utilisation(plain), EVENTS)
    report("all findings", lambda: findings(plain), EVENTS)
    print(ring())


class Flood:
    """A source that has more events than a recording keeps."""

    def __init__(self, events: int, batch: int) -> None:
        self.left, self.batch = events, batch

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def drain(self, sink: Sink) -> dict[str, int]:
        count = min(self.left, self.batch)
        if count:
            starts = now_ns() + np.arange(count)
            sink.extend(Kind.OPERATOR, {"name": "aten::mm", "start_ns": starts, "duration_ns": 1, "core": 0})
            self.left -= count
        return {}


def ring(events: int = 10_000_000) -> str:
    """Ten million events into one recording of the default size."""
    recorder, flood = Recorder(), Flood(events, 100_000)
    recorder.add_source(flood)
    recording = recorder.open()
    while flood.left:
        recorder.pump()
    trace = recording.close(TraceHeader())
    dropped = sum(trace.header.dropped.values())
    return (
        f"{events:,} events into a recording of {recording.max_events:,}: {len(trace):,} kept, "
        f"{dropped:,} reported as dropped, {trace.size_bytes / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
