"""Rules about collectives and ranks."""

from __future__ import annotations

import statistics

import numpy as np

from neuron_lab.analysis.findings.finding import Finding, Subject, first_rows
from neuron_lab.analysis.utilisation import End
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import Kind

TINY_BYTES = 64 * 1024
MANY = 16
EXPOSED = 0.3
OTHER_RANKS = 3


def tiny_collectives(subject: Subject) -> Finding | None:
    """Many collectives of a size where latency is everything."""
    table = subject.table(Kind.COLLECTIVE)
    sizes = table.column("size_bytes")
    tiny = (sizes >= 0) & (sizes < TINY_BYTES)
    if int(tiny.sum()) < MANY or int(tiny.sum()) < len(table) / 2:
        return None
    placed = [each for each in subject.timeline.collectives.placed if tiny[each.row]]
    gain = Interval(0, max(0, sum(each.cost_ns[1] for each in placed))) if placed else None
    return Finding(
        "tiny_collectives",
        "medium",
        f"{int(tiny.sum()):,} of {len(table):,} collectives move less than {TINY_BYTES // 1024} KiB",
        "bucket them (larger bucket_cap_mb), or gather several tensors into one",
        Kind.COLLECTIVE,
        first_rows(tiny),
        int(tiny.sum()),
        gain_ns=gain,
    )


def straggler(subject: Subject) -> Finding | None:
    """One rank makes the others wait: its own waits in collectives are far below theirs."""
    table = subject.table(Kind.COLLECTIVE)
    waits, ranks = table.column("wait_ns"), table.column("rank")
    read = waits >= 0
    present = np.unique(ranks[read]).tolist()
    if len(present) < OTHER_RANKS or int(read.sum()) < 4 * len(present):
        return None
    totals = {rank: int(waits[read & (ranks == rank)].sum()) for rank in present}
    slowest = min(totals, key=totals.__getitem__)
    others = statistics.median(total for rank, total in totals.items() if rank != slowest)
    if others < 10 * max(1, totals[slowest]) or others < 0.05 * _length_ns(subject):
        return None
    return Finding(
        "straggler",
        "high",
        f"rank {slowest} makes the others wait: they wait {others / 1e6:.3g} ms each in collectives, "
        f"it waits {totals[slowest] / 1e6:.3g} ms",
        f"look at what rank {slowest} does between collectives: input, logging, an uneven shard",
        Kind.COLLECTIVE,
        first_rows(ranks == slowest),
        int((ranks == slowest).sum()),
    )


def _length_ns(subject: Subject) -> int:
    table = subject.table(Kind.COLLECTIVE)
    ends = table.column("start_ns") + table.column("duration_ns")
    return int(ends.max() - table.column("start_ns").min())


def exposed_collectives(subject: Subject) -> Finding | None:
    """Cores stand in collectives for a large part of the modelled span, at both ends."""
    ends: tuple[End, ...] = ("low", "high")
    shares = [
        sum(use.waiting_ns["collective"] for use in subject.use.of(end))
        / max(1, sum(use.span_ns for use in subject.use.of(end)))
        for end in ends
    ]
    if min(shares) < EXPOSED:
        return None
    most = [max(use.waiting_ns["collective"] for use in subject.use.of(end)) for end in ends]
    return Finding(
        "exposed_collectives",
        "medium",
        f"cores stand in collectives for {min(shares):.0%} to {max(shares):.0%} of the modelled span",
        "start them earlier (async_op=True, gradient buckets), or shard along another axis",
        Kind.COLLECTIVE,
        first_rows(np.ones(len(subject.table(Kind.COLLECTIVE)), bool)),
        len(subject.table(Kind.COLLECTIVE)),
        gain_ns=Interval(min(most), max(most)),
    )
