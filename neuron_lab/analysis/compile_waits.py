"""How long the host would compile before each launch when the cache is empty: modelled, per kernel."""

from __future__ import annotations

import numpy as np

from neuron_lab.analysis.two_ends import Array
from neuron_lab.hardware.assumptions import Assumptions
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace


def compile_waits(trace: Trace, signature: Array, rank: Array, assumptions: Assumptions) -> tuple[Array, Array]:
    """Nanoseconds at both ends, not zero at the first run of what was new. Every rank compiles for itself.

    Eager kernels count when the process had not used them before; a graph when the profile saw a compilation.
    """
    new = set(trace.table(Kind.EAGER_KERNEL).column("signature").tolist())
    if len(trace.table(Kind.COMPILE)):
        new |= {index for index, each in enumerate(trace.signatures) if each.graph >= 0}
    first = np.unique(np.stack([rank, signature]), axis=1, return_index=True)[1]
    first = first[np.isin(signature[first], list(new))]
    low, high = np.zeros(len(signature), np.int64), np.zeros(len(signature), np.int64)
    nodes = np.array([_node_count(trace, index) for index in signature[first].tolist()])
    unit, node = assumptions.compile_s.interval, assumptions.compile_node_s.interval
    low[first] = np.rint((unit.low + node.low * nodes) * 1e9)
    high[first] = np.rint((unit.high + node.high * nodes) * 1e9)
    return low, high


def _node_count(trace: Trace, signature: int) -> int:
    graph = trace.signatures[signature].graph
    return len(trace.graphs[graph].nodes) if graph >= 0 else 0
