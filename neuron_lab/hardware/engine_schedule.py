"""Deterministic list scheduling of tasks on engines and DMA queues, with dependencies.

Tasks are issued in program order. Each resource has one or more servers (an engine has one, a core's DMA has
sixteen): a task takes the server that is free first, the lowest-numbered of equals. It starts when that
server is free and all tasks it comes after have ended, plus a semaphore's latency when they ran on another
resource. The server is taken again after the task's initiation interval, the result is there after its latency.

Dependencies must point backwards, so there is no way to deadlock. Cost is one step per task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neuron_lab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Task:
    """`interval_ns` None: the resource is busy until the result is there. `after`: indices of earlier tasks."""

    resource: str
    latency_ns: float
    interval_ns: float | None = None
    after: tuple[int, ...] = ()
    ready_ns: float = 0.0  # not before this, e.g. when the host has launched it


@dataclass(frozen=True, slots=True)
class Placed:
    start_ns: float
    end_ns: float
    server: int
    waited_for: int  # the task that ended last of those it comes after, when that delayed it; else -1


@dataclass(frozen=True)
class EngineSchedule:
    tasks: tuple[Placed, ...]
    busy_ns: Mapping[str, float] = field(default_factory=dict)

    @property
    def span_ns(self) -> float:
        return max((task.end_ns for task in self.tasks), default=0.0)


def schedule_tasks(
    tasks: Sequence[Task], servers: Mapping[str, int] | None = None, semaphore_ns: float = 0.0
) -> EngineSchedule:
    """`servers`: how many each resource has, one where it is not named."""
    count = servers or {}
    free: dict[str, list[float]] = {}
    busy: dict[str, float] = {}
    placed: list[Placed] = []
    for index, task in enumerate(tasks):
        lanes = free.setdefault(task.resource, [0.0] * count.get(task.resource, 1))
        server = min(range(len(lanes)), key=lanes.__getitem__)
        enabled, cause = _enabled(index, task, tasks, placed, semaphore_ns)
        start = max(lanes[server], enabled)
        taken = task.latency_ns if task.interval_ns is None else task.interval_ns
        lanes[server] = start + taken
        busy[task.resource] = busy.get(task.resource, 0.0) + taken
        placed.append(Placed(start, start + task.latency_ns, server, cause if enabled == start else -1))
    return EngineSchedule(tuple(placed), busy)


def _enabled(
    index: int, task: Task, tasks: Sequence[Task], placed: Sequence[Placed], semaphore_ns: float
) -> tuple[float, int]:
    """When its inputs are there, and which of them came last (-1: only its own readiness)."""
    enabled, cause = task.ready_ns, -1
    for earlier in task.after:
        if not 0 <= earlier < index:
            raise UsageError(f"task {index} comes after task {earlier}: only earlier tasks can be waited for")
        hop = 0.0 if tasks[earlier].resource == task.resource else semaphore_ns
        end = placed[earlier].end_ns + hop
        if end > enabled:
            enabled, cause = end, earlier
    return enabled, cause
