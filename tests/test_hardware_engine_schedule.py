"""List scheduling on engines and DMA queues: small cases exactly, and any case against its definition."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_lab.errors import UsageError
from neuron_lab.hardware.engine_schedule import Task, schedule_tasks


def _starts(*tasks: Task, **options: object) -> list[float]:
    return [placed.start_ns for placed in schedule_tasks(tasks, **options).tasks]  # type: ignore[arg-type]


def test_one_engine_runs_in_program_order() -> None:
    assert _starts(Task("vector", 10), Task("vector", 5), Task("vector", 1)) == [0, 10, 15]


def test_engines_run_side_by_side() -> None:
    assert _starts(Task("vector", 10), Task("scalar", 5)) == [0, 0]


def test_a_dependency_across_engines_adds_a_semaphore() -> None:
    tasks = (Task("dma", 100), Task("tensor", 10, after=(0,)))
    placed = schedule_tasks(tasks, semaphore_ns=7).tasks[1]
    assert (placed.start_ns, placed.waited_for) == (107, 0)


def test_a_dependency_on_the_same_engine_has_no_semaphore() -> None:
    assert _starts(Task("tensor", 10), Task("tensor", 10, after=(0,)), semaphore_ns=7) == [0, 10]


def test_pipelined_instructions_start_after_the_initiation_interval() -> None:
    assert _starts(Task("scalar", 100, 64), Task("scalar", 100, 64)) == [0, 64]


def test_a_dependent_instruction_waits_for_the_latency() -> None:
    assert _starts(Task("scalar", 100, 64), Task("scalar", 100, 64, after=(0,))) == [0, 100]


def test_queues_of_a_pool_are_filled_one_after_the_other() -> None:
    schedule = schedule_tasks([Task("dma", 10)] * 5, servers={"dma": 2})
    assert [(placed.server, placed.start_ns) for placed in schedule.tasks] == [
        (0, 0),
        (1, 0),
        (0, 10),
        (1, 10),
        (0, 20),
    ]
    assert (schedule.busy_ns, schedule.span_ns) == ({"dma": 50}, 30)


def test_a_core_waits_for_another() -> None:
    tasks = (Task("core 0", 50), Task("core 1", 5), Task("core 1", 5, after=(0,)))
    assert _starts(*tasks) == [0, 0, 50]


def test_a_task_cannot_come_after_a_later_one() -> None:
    with pytest.raises(UsageError, match="task 0 comes after task 1"):
        schedule_tasks([Task("a", 1, after=(1,)), Task("a", 1)])


@st.composite
def programs(draw: st.DrawFn) -> list[Task]:
    count = draw(st.integers(1, 25))
    tasks = []
    for index in range(count):
        latency = draw(st.integers(0, 50))
        after = draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []
        interval = draw(st.one_of(st.none(), st.integers(0, latency)))
        resource = draw(st.sampled_from("abc"))
        tasks.append(Task(resource, latency, interval, tuple(after), draw(st.integers(0, 30))))
    return tasks


@given(programs(), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_start_is_the_latest_of_what_it_waits_for(tasks: list[Task], semaphore: int) -> None:
    schedule = schedule_tasks(tasks, semaphore_ns=semaphore)
    for index, (task, placed) in enumerate(zip(tasks, schedule.tasks, strict=True)):
        waits = [task.ready_ns]
        for earlier in range(index):
            other, when = tasks[earlier], schedule.tasks[earlier]
            if other.resource == task.resource:
                taken = other.latency_ns if other.interval_ns is None else other.interval_ns
                waits.append(when.start_ns + taken)
            if earlier in task.after:
                waits.append(when.end_ns + (semaphore if other.resource != task.resource else 0))
        assert placed.start_ns == max(waits)
        assert placed.end_ns == placed.start_ns + task.latency_ns
    assert schedule == schedule_tasks(tasks, semaphore_ns=semaphore)
