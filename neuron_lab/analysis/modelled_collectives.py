"""Collectives on the modelled clock: each rank arrives when its core gets there, all leave together.

The n-th collective of a group on one rank belongs to the n-th of that group on every other rank that has one.
Ranks whose collectives cannot be matched in order do not wait for one another (a trace may hold only a part).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from neuron_lab.analysis.signature_costs import SignatureCosts
from neuron_lab.analysis.two_ends import Array, TwoEnds
from neuron_lab.errors import UsageError
from neuron_lab.hardware.collectives import PHASES, collective_cost
from neuron_lab.hardware.instances import INSTANCES, Instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import NO_CORE, Clock, Kind
from neuron_lab.trace.table import Table, Trace


@dataclass(frozen=True, slots=True)
class PlacedCollective:
    """One rank's part. `wait_ns` from arriving to the last rank's arrival; `cost_ns` after that."""

    row: int  # of the collective table
    rank: int
    core: int
    start_ns: Interval  # when this rank arrives
    launch_end_ns: tuple[int, int]  # low schedule, high schedule
    wait_ns: tuple[int, int]
    cost_ns: tuple[int, int]


@dataclass(frozen=True)
class Collectives:
    placed: tuple[PlacedCollective, ...] = ()
    why_not: str = ""  # why none is modelled though the trace has some


@dataclass(frozen=True, slots=True)
class _Call:
    row: int
    rank: int
    core: int
    start_ns: int
    group: str
    cost_ns: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Arrival:
    """At both ends: when the host had launched the collective, and when the core was ready for it."""

    launch_end_ns: tuple[int, int]
    ready_ns: tuple[int, int]


@dataclass
class Rank:
    """One host with its kernels in launch order, scheduled piece by piece."""

    number: int
    ends: TwoEnds
    core: Array
    started: Array  # wall, for the order only
    low_ns: Array
    high_ns: Array
    wait_before: Array
    before_launch: tuple[Array, Array] | None = None
    done: int = 0
    low_launch: list[Array] = field(default_factory=list)
    low_start: list[Array] = field(default_factory=list)
    high_launch: list[Array] = field(default_factory=list)
    high_start: list[Array] = field(default_factory=list)

    def run_until(self, start_ns: int | None) -> None:
        """Schedule the kernels that were launched before this wall time; None: all that are left."""
        end = len(self.core) if start_ns is None else int(np.searchsorted(self.started, start_ns))
        part = slice(self.done, max(end, self.done))
        before = self.before_launch and (self.before_launch[0][part], self.before_launch[1][part])
        costs = self.low_ns[part], self.high_ns[part]
        low, high = self.ends.run(self.core[part], *costs, self.wait_before[part], before)
        self.done = part.stop
        self.low_launch.append(low.launch_start_ns)
        self.low_start.append(low.start_ns)
        self.high_launch.append(high.launch_start_ns)
        self.high_start.append(high.start_ns)

    def arrive(self, core: int) -> Arrival:
        """Launch a collective."""
        ends = (self.ends.low, self.ends.high)
        for host in ends:
            host.now_ns += host.launch_ns
        low, high = (max(host.now_ns, host.core_free_ns.get(core, 0)) for host in ends)
        return Arrival((ends[0].now_ns, ends[1].now_ns), (low, high))

    def leave(self, core: int, end_ns: tuple[int, int]) -> None:
        self.ends.low.core_free_ns[core], self.ends.high.core_free_ns[core] = end_ns


def collective_costs(trace: Trace, costs: SignatureCosts) -> list[_Call] | str:
    """The collectives to be modelled, in wall order; or why they cannot be."""
    table = trace.table(Kind.COLLECTIVE)
    table = table.where(~table.matches("clock", Clock.MEASURED)) if len(table) else table
    if not len(table):
        return []
    machine = INSTANCES.get(trace.header.instance)
    if machine is None:
        return "the trace names no known instance, so the links of its collectives are unknown"
    try:
        return _calls(table, machine, costs)
    except UsageError as error:
        return str(error)


def _calls(table: Table, machine: Instance, costs: SignatureCosts) -> list[_Call]:
    groups, names = table.strings("group"), table.strings("name")
    ranks, cores = table.column("rank").tolist(), table.column("core").tolist()
    sizes, starts = table.column("size_bytes").tolist(), table.column("start_ns").tolist()
    members: dict[str, set[int]] = {}
    for group, rank in zip(groups, ranks, strict=True):
        members.setdefault(group, set()).add(rank)
    known: dict[tuple[str, int, int], tuple[int, int]] = {}
    calls = []
    for row, (group, name) in enumerate(zip(groups, names, strict=True)):
        key = (_kind(name), max(0, sizes[row]), len(members[group]))
        if key not in known:
            cost = collective_cost(*key, machine, costs.lnc, costs.assumptions)
            known[key] = (cost.low_ns, cost.high_ns)
        calls.append(
            _Call(
                row,
                ranks[row],
                max(cores[row], 0) if cores[row] == NO_CORE else cores[row],
                starts[row],
                group,
                known[key],
            )
        )
    return calls


def _kind(name: str) -> str:
    """`c10d::allreduce_`, `all_gather_into_tensor` → the collective it is; an unknown one counts as
    all-reduce."""
    plain = name.lower().rpartition("::")[2].replace("_", "")
    return next((kind for kind in PHASES if kind.replace("_", "") in plain), "all_reduce")


def meet(hosts: Sequence[Rank], calls: list[_Call] | str) -> Collectives:
    """Schedule all kernels of all ranks, with the meetings between them."""
    why_not = calls if isinstance(calls, str) else ""
    queues: dict[int, list[_Call]] = {host.number: [] for host in hosts}
    for call in [] if isinstance(calls, str) else calls:
        queues.get(call.rank, []).append(call)
    by_number = {host.number: host for host in hosts}
    remaining = {
        (number, group): sum(call.group == group for call in queue)
        for number, queue in queues.items()
        for group in {call.group for call in queue}
    }
    placed: list[PlacedCollective] = []
    while any(queues.values()):
        together = _next_meeting(queues, remaining)
        placed += _hold(together, by_number)
        for call in together:
            queues[call.rank].pop(0)
            remaining[call.rank, call.group] -= 1
    for host in hosts:
        host.run_until(None)
    return Collectives(tuple(placed), why_not)


def _next_meeting(queues: dict[int, list[_Call]], remaining: dict[tuple[int, str], int]) -> list[_Call]:
    """The calls at the head of every queue of a group; else the earliest head alone."""
    heads = [queue[0] for queue in queues.values() if queue]
    for group in dict.fromkeys(call.group for call in sorted(heads, key=lambda call: call.start_ns)):
        here = [call for call in heads if call.group == group]
        expected = sum(count > 0 for (_, other), count in remaining.items() if other == group)
        if len(here) == expected:
            return here
    return [min(heads, key=lambda call: (call.start_ns, call.rank))]


def _hold(calls: Sequence[_Call], hosts: dict[int, Rank]) -> list[PlacedCollective]:
    arrivals = []
    for call in calls:
        hosts[call.rank].run_until(call.start_ns)
        arrivals.append(hosts[call.rank].arrive(call.core))
    begin = (
        max(each.ready_ns[0] for each in arrivals),
        max(each.ready_ns[1] for each in arrivals),
    )
    placed = []
    for call, arrival in zip(calls, arrivals, strict=True):
        hosts[call.rank].leave(call.core, (begin[0] + call.cost_ns[0], begin[1] + call.cost_ns[1]))
        low, high = arrival.ready_ns
        waited = (begin[0] - low, begin[1] - high)
        placed.append(
            PlacedCollective(
                call.row, call.rank, call.core, Interval(low, high), arrival.launch_end_ns, waited, call.cost_ns
            )
        )
    return placed
