"""Eager kernels: how many distinct ones the code asked for, how many were new, and how many each step needed.

On the real device every eager operator is compiled for its dtypes, shapes and static arguments, and cached. The
counts are an upper bound: the device may fuse neighbouring operators into one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_lab.analysis.step_counts import Spread, StepRows, distinct_per_step, first_uses, per_step, step_rows
from neuron_lab.analysis.text_rows import counted, texts
from neuron_lab.analysis.two_ends import Array
from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.cost import compile_seconds
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Table, Trace


@dataclass(frozen=True, slots=True)
class NewKernels:
    """New kernels of one operator, first needed at one place."""

    op: str
    place: str
    count: int


@dataclass(frozen=True)
class StepKernels:
    """Counts for every step of one name ("token", "optimizer step"), in order."""

    name: str
    new: tuple[int, ...]  # first use in this process
    unseen: tuple[int, ...]  # first use in this profile, known to the process or not
    distinct: tuple[int, ...]
    runs: tuple[int, ...]  # eager kernels and compiled graphs started

    def __len__(self) -> int:
        return len(self.new)

    @property
    def new_spread(self) -> Spread:
        return Spread.of(self.new)

    @property
    def unseen_spread(self) -> Spread:
        return Spread.of(self.unseen)

    @property
    def distinct_spread(self) -> Spread:
        return Spread.of(self.distinct)

    @property
    def keeps_compiling(self) -> bool:
        """Every step after the first needs kernels that no step before needed: some shape keeps growing."""
        return len(self.unseen) > 2 and min(self.unseen[1:]) > 0


@dataclass(frozen=True)
class EagerKernels:
    """`runs` counts executions, `new` first uses in this process, `hits` the executions that were not."""

    runs: int
    distinct: int
    new: int
    new_by_op: tuple[NewKernels, ...]
    graph_runs: int
    distinct_graphs: int
    graphs_compiled: int
    compile_s: Interval  # modelled: the new kernels and graphs, without a cache, one after another
    steps: tuple[StepKernels, ...]

    @property
    def hits(self) -> int:
        return max(0, self.runs - self.new)


def eager_kernels(trace: Trace, assumptions: Assumptions = DEFAULT) -> EagerKernels:
    """Kernels the profiled code asked for."""
    operators, new = trace.table(Kind.OPERATOR), trace.table(Kind.EAGER_KERNEL)
    places = texts(new, ("name", "place"))
    eager, graphs = _kinds_of_signature(trace)
    eager_runs, graph_runs = _with_signature(operators, eager), _with_signature(operators, graphs)
    node_counts = _graph_node_counts(trace)
    return EagerKernels(
        runs=len(eager_runs),
        distinct=len(first_uses(eager_runs.column("signature"))),
        new=len(new),
        new_by_op=tuple(NewKernels(op, place, count) for (op, place), count in counted(places)),
        graph_runs=len(graph_runs),
        distinct_graphs=len(first_uses(graph_runs.column("signature"))),
        graphs_compiled=len(node_counts),
        compile_s=compile_seconds(len(new), node_counts, assumptions),
        steps=tuple(
            _step_kernels(steps, new, eager_runs, graph_runs) for steps in step_rows(trace.table(Kind.STEP))
        ),
    )


def _kinds_of_signature(trace: Trace) -> tuple[Array, Array]:
    """Two masks over signature ids: eager kernels, and executions of compiled graphs."""
    graph = np.array([signature.graph >= 0 for signature in trace.signatures], bool)
    compiles = np.array([signature.compiles for signature in trace.signatures], bool)
    return compiles & ~graph, graph


def _with_signature(operators: Table, wanted: Array) -> Table:
    signature = operators.column("signature")
    known = np.flatnonzero((signature >= 0) & (signature < len(wanted)))
    return operators.where(known[wanted[signature[known]]])


def _graph_node_counts(trace: Trace) -> list[int]:
    """Of the graphs compiled during the profile. An empty graph gives the device nothing to compile."""
    counts = trace.table(Kind.COMPILE).column("node_count")
    return [int(count) for count in counts if count > 0]


def _step_kernels(steps: StepRows, new: Table, eager_runs: Table, graph_runs: Table) -> StepKernels:
    start_ns, signature = eager_runs.column("start_ns"), eager_runs.column("signature")
    first_use = first_uses(signature)
    runs = per_step(steps, start_ns) + per_step(steps, graph_runs.column("start_ns"))
    return StepKernels(
        name=steps.name,
        new=tuple(per_step(steps, new.column("start_ns")).tolist()),
        unseen=tuple(per_step(steps, start_ns[first_use]).tolist()),
        distinct=tuple(distinct_per_step(steps, start_ns, signature).tolist()),
        runs=tuple(runs.tolist()),
    )
