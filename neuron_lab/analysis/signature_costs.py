"""The modelled cost of every signature, computed once per signature and kept as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.cost import BOUNDS, NO_COST, Cost, graph_cost, kernel_cost
from neuron_lab.hardware.graph_work import graph_work
from neuron_lab.hardware.work import work_of
from neuron_lab.trace.events import GraphSpec, Signature

BOUND_CODE = {name: code for code, name in enumerate(BOUNDS)}


class SignatureCosts:
    """Costs by signature id. `update` takes the growing list of signatures and costs the new ones."""

    def __init__(self, chip: Chip, lnc: int, assumptions: Assumptions = DEFAULT) -> None:
        self.chip = chip
        self.lnc = lnc
        self.assumptions = assumptions
        self.costs: list[Cost] = []
        self.low_ns = np.empty(0, np.int64)
        self.high_ns = np.empty(0, np.int64)
        self.bound: npt.NDArray[Any] = np.empty(0, np.uint8)

    def update(self, signatures: Sequence[Signature], graphs: Sequence[GraphSpec] = ()) -> None:
        new = [self._cost(signature, graphs) for signature in signatures[len(self.costs) :]]
        if not new:
            return
        self.costs += new
        self.low_ns = np.append(self.low_ns, [cost.low_ns for cost in new])
        self.high_ns = np.append(self.high_ns, [cost.high_ns for cost in new])
        codes = np.array([BOUND_CODE[cost.bound] for cost in new], np.uint8)
        self.bound = np.concatenate([self.bound, codes])

    def _cost(self, signature: Signature, graphs: Sequence[GraphSpec]) -> Cost:
        """Nothing runs on the chip for views, allocations, host copies and fallbacks."""
        if signature.graph >= 0:
            graph = graph_work(graphs[signature.graph].nodes)
            return graph_cost(graph, self.chip, self.lnc, self.assumptions)
        if not signature.compiles:
            return NO_COST
        work = work_of(signature.op, signature.inputs, signature.outputs, signature.static)
        return kernel_cost(work, self.chip, self.lnc, self.assumptions)
