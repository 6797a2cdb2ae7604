"""How long each signature keeps each engine busy, its multiply-adds and its bytes: one row per signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.modelled import ModelledTimeline
from neuron_lab.analysis.two_ends import Array
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.hardware.chips import CHIPS, Chip
from neuron_lab.hardware.cost import (
    ENGINES,
    EngineTimes,
    best_times,
    graph_best_times,
    graph_worst_times,
    worst_times,
)
from neuron_lab.hardware.graph_work import graph_work
from neuron_lab.hardware.work import Work, work_of
from neuron_lab.trace.events import GraphSpec, Signature
from neuron_lab.trace.table import Trace

COMPUTE = 4  # the first four of ENGINES compute, the others move bytes


@dataclass(frozen=True, eq=False)
class EngineTable:
    """Rows are signatures, columns of `best_ns` and `worst_ns` are `cost.ENGINES`."""

    best_ns: Array
    worst_ns: Array
    flops: Array
    size_bytes: Array  # HBM traffic at best: of a graph only what crosses its border
    dtype: tuple[str, ...]


def engine_table(trace: Trace, timeline: ModelledTimeline) -> EngineTable:
    """Of every signature the timeline ran; zeros for the others."""
    count = len(trace.signatures)
    best, worst = np.zeros((count, len(ENGINES))), np.zeros((count, len(ENGINES)))
    flops, sizes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    dtypes = [""] * count
    if len(timeline):
        chip = CHIPS[timeline.chip]
        for index in np.unique(timeline.signature).tolist():
            low, high, works, moved = _of(
                trace.signatures[index], trace.graphs, chip, timeline.lnc, timeline.assumptions
            )
            best[index], worst[index] = low.as_tuple(), high.as_tuple()
            flops[index] = sum(work.flops for work in works)
            sizes[index] = moved
            dtypes[index] = _main_dtype(works)
    return EngineTable(best, worst, flops, sizes, tuple(dtypes))


def _of(
    signature: Signature, graphs: Sequence[GraphSpec], chip: Chip, lnc: int, assumptions: Assumptions
) -> tuple[EngineTimes, EngineTimes, Sequence[Work], int]:
    if signature.graph >= 0:
        graph = graph_work(graphs[signature.graph].nodes)
        worst = graph_worst_times(graph, chip, lnc, assumptions)
        return graph_best_times(graph, chip, lnc), worst, graph.nodes, graph.boundary_bytes
    work = work_of(signature.op, signature.inputs, signature.outputs, signature.static)
    worst = worst_times(work, chip, lnc, assumptions)
    return best_times(work, chip, lnc), worst, [work], work.size_bytes


def _main_dtype(works: Sequence[Work]) -> str:
    """Of the work with most multiply-adds, else of the first."""
    return max(works, key=lambda work: work.flops).dtype if works else ""
