"""The list scheduler against hand-made cases and against a loop that follows the rules literally."""

import time

import numpy as np
import pytest

from neuron_lab.hardware.schedule import Host, Schedule


def _run(host: Host, core: list[int], duration: list[int], waits: tuple[int, ...] = ()) -> Schedule:
    wait_before = np.zeros(len(core), bool)
    wait_before[list(waits)] = True
    return host.run(np.array(core), np.array(duration), wait_before)


def _literally(
    launch: int, core: list[int], duration: list[int], waits: set[int]
) -> tuple[list[int], list[int], list[int]]:
    now, free = 0, dict.fromkeys(core, 0)
    launches, starts, ends = [], [], []
    for row, (each, takes) in enumerate(zip(core, duration, strict=True)):
        if row in waits:
            now = max(now, *free.values())
        launches.append(now)
        now += launch
        starts.append(max(now, free[each]))
        free[each] = starts[-1] + takes
        ends.append(free[each])
    return launches, starts, ends


def test_short_kernels_wait_for_their_launch() -> None:
    assert _run(Host(10), [0, 0, 0], [2, 2, 2]).start_ns.tolist() == [10, 20, 30]


def test_long_kernels_wait_for_the_core() -> None:
    assert _run(Host(10), [0, 0, 0], [50, 50, 50]).start_ns.tolist() == [10, 60, 110]


def test_launches_follow_one_another() -> None:
    assert _run(Host(10), [0, 1, 0], [50, 50, 50]).launch_start_ns.tolist() == [0, 10, 20]


def test_two_cores_run_side_by_side() -> None:
    assert _run(Host(10), [0, 1], [50, 50]).end_ns.tolist() == [60, 70]


def test_after_a_synchronisation_the_next_launch_waits_for_the_core() -> None:
    schedule = _run(Host(10), [0, 0], [50, 50], waits=(1,))
    assert (schedule.launch_start_ns.tolist(), schedule.start_ns.tolist()) == ([0, 60], [10, 70])


def test_a_host_adds_up_busy_time_per_core() -> None:
    host = Host(10)
    _run(host, [0, 1, 0], [5, 6, 7])
    assert host.busy_ns == {0: 12, 1: 6}


def test_the_span_ends_with_the_last_kernel_of_any_core() -> None:
    host = Host(10)
    _run(host, [0, 1], [100, 5])
    assert host.span_ns == 110


def test_nothing_to_run_takes_no_time() -> None:
    host = Host(10)
    assert (len(_run(host, [], []).start_ns), host.span_ns) == (0, 0)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_it_equals_a_loop_that_follows_the_rules(cores: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    core = draw.integers(0, cores, 200).tolist()
    duration = draw.integers(0, 40, 200).tolist()
    waits = set(np.flatnonzero(draw.random(200) < 0.1).tolist())
    schedule = _run(Host(15), core, duration, tuple(waits))
    found = (schedule.launch_start_ns.tolist(), schedule.start_ns.tolist(), schedule.end_ns.tolist())
    assert found == _literally(15, core, duration, waits)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_batches_give_what_one_run_gives(cores: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    core = draw.integers(0, cores, 100)
    duration = draw.integers(0, 40, 100)
    waits = draw.random(100) < 0.1
    whole, batched = Host(15), Host(15)
    whole.run(core, duration, waits)
    for part in np.array_split(np.arange(100), 7):
        batched.run(core[part], duration[part], waits[part])
    assert whole == batched


def test_a_million_kernels_schedule_in_under_a_second_of_processor_time() -> None:
    count = 1_000_000
    duration = np.random.default_rng(0).integers(0, 40_000, count)
    waits = np.arange(count) % 900 == 0
    began = time.process_time()
    Host(15_000).run(np.zeros(count, np.int16), duration, waits)
    assert time.process_time() - began < 1
