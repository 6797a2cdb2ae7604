"""Dependencies from bytes, the schedule they give, and what it says of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import Assumption
from neuron_lab.hardware.kernel_assumptions import DEFAULT
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import jit
from neuron_lab.nki import language as nl
from neuron_lab.nki.timing.bounds import bound_of, loaded_again, utilisation
from neuron_lab.nki.timing.critical_path import critical_path
from neuron_lab.nki.timing.model import CoreTiming, KernelTiming, time_run, without
from neuron_lab.nki.timing.queues import DmaLanes

ONES = np.ones((128, 512), np.float32)


def timed(kernel: Any, *args: Any, lnc: int = 1) -> KernelTiming:
    made = jit(kernel)
    return time_run((made[lnc] if lnc > 1 else made).record(*args))


def core_of(kernel: Any, *args: Any) -> CoreTiming:
    return timed(kernel, *args).cores[0]


def edges(core: CoreTiming) -> list[tuple[int, int]]:
    return [(earlier, later) for later in range(len(core.log)) for earlier in core.edges.of(later)]


def test_a_reader_waits_for_the_writer_of_its_bytes_only() -> None:
    def kernel() -> None:
        tile = nl.ndarray((128, 64), nl.float32)
        out = nl.ndarray((128, 32), nl.float32)
        nisa.memset(tile[:, 0:32], 1)  # 0
        nisa.memset(tile[:, 32:64], 1)  # 1
        nisa.activation(out, op=nl.exp, data=tile[:, 32:64])  # 2

    assert edges(core_of(kernel)) == [(1, 2)]


def test_a_writer_waits_for_readers_on_other_engines() -> None:
    def kernel() -> None:
        tile, out = nl.ndarray((128, 64), nl.float32), nl.ndarray((128, 64), nl.float32)
        nisa.memset(tile, 1)  # 0 vector
        nisa.activation(out, op=nl.exp, data=tile)  # 1 scalar
        nisa.memset(tile, 2)  # 2 vector

    assert edges(core_of(kernel)) == [(0, 1), (1, 2)]


def test_tiles_side_by_side_in_hbm_do_not_wait_for_each_other() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)  # 0
        for column in (0, 256):
            nl.store(out[:, column : column + 256], tile[:, column : column + 256])  # 1, 2
        return out

    assert edges(core_of(kernel, ONES)) == [(0, 1), (0, 2)]


def test_an_explicit_edge_is_kept() -> None:
    def kernel() -> None:
        first = nisa.memset(nl.ndarray((128, 64), nl.float32), 1)
        nisa.iota(nl.ndarray((128, 64), nl.int32), [[1, 64]], 0).depends_on(first)

    assert edges(core_of(kernel)) == [(0, 1)]


def test_the_scalar_accumulator_orders_the_instructions_that_use_it() -> None:
    def kernel() -> None:
        data, out = nl.ndarray((128, 64), nl.float32), nl.ndarray((128, 64), nl.float32)
        nisa.memset(data, 1)
        for _ in range(2):
            nisa.activation(out, op=nl.exp, data=data)

    assert (1, 2) in edges(core_of(kernel))


def test_engines_work_side_by_side_and_a_dependent_one_waits_for_the_pipeline() -> None:
    def kernel() -> None:
        tile, out = nl.ndarray((128, 960), nl.float32), nl.ndarray((128, 960), nl.float32)
        nisa.memset(tile, 1)  # 960 cycles at 0.96 GHz
        nisa.iota(nl.ndarray((128, 64), nl.int32), [[1, 64]], 0)  # GpSimd, nothing to wait for
        nisa.activation(out, op=nl.exp, data=tile)

    low = core_of(kernel).low
    assert low.start_ns.tolist() == [0.0, 0.0, 1000 + 60 / 0.96]
    assert low.end_ns[2] == pytest.approx(1062.5 + 960 / 1.2 + 60 / 1.2)


def test_a_chain_of_tiny_scalar_instructions_contains_the_measured_189_ns_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")

    def kernel() -> None:
        tile = nl.ndarray((128, 1), nl.float32)
        nisa.memset(tile, 1)
        for _ in range(100):
            nisa.activation(tile, op=nl.copy, data=tile)

    core = core_of(kernel)
    each = [(line.end_ns[-1] - line.end_ns[0]) / 100 for line in (core.low, core.high)]
    assert each[0] <= 189 <= each[1]


def test_transfers_overlap_their_start_latency() -> None:
    def kernel(x: Any) -> None:
        for _ in range(3):
            nl.load(x)

    core = core_of(kernel, ONES)
    busy = 8 * 2430 / 27.2  # eight rows of 2048 bytes an engine
    start = 1300 * 0.75
    assert core.low.busy_from_ns.tolist() == pytest.approx([start, start + busy, start + 2 * busy])


def test_a_transfer_that_is_ready_goes_ahead_of_one_that_waits() -> None:
    lanes = DmaLanes(16, 16)
    assert lanes.place(1000, 50, 16) == (1000, 1050)
    assert lanes.place(10, 50, 16) == (10, 60)
    assert lanes.place(10, 50, 16) == (60, 110)


def test_small_transfers_share_the_engines() -> None:
    lanes = DmaLanes(16, 1)
    assert [lanes.place(0, 100, 1) for _ in range(16)] == [(0, 100)] * 16
    assert lanes.place(0, 100, 1) == (100, 200)


def double_buffered(x: Any, inside: bool) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    shared = nl.ndarray((128, 512), x.dtype)
    for row in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, 512), x.dtype) if inside else shared
        nisa.dma_copy(tile, x[row : row + 128])
        result = nl.ndarray((128, 512), x.dtype)
        nisa.activation(result, op=nl.exp, data=tile)
        nisa.dma_copy(out[row : row + 128], result)
    return out


def test_a_tile_allocated_in_the_loop_lets_the_next_load_run_ahead() -> None:
    x = np.ones((128 * 16, 512), np.float32)
    shared, fresh = (timed(double_buffered, x, inside) for inside in (False, True))
    bounds = [bound_of(each) for each in (shared, fresh)]
    assert [bound and (bound.kind, bound.engine) for bound in bounds] == [
        ("waiting", "dma"),
        ("throughput", "dma"),
    ]
    assert fresh.total_ns.low < 0.6 * shared.total_ns.low


def test_the_parts_of_the_critical_path_add_up_to_the_span() -> None:
    core = core_of(double_buffered, np.ones((128 * 16, 512), np.float32), False)
    path = critical_path(core)
    assert path.total_ns == pytest.approx(core.low.span_ns)
    assert sum(line.total_ns for line in path.lines) == pytest.approx(core.low.span_ns)


def test_the_critical_path_names_the_lines() -> None:
    path = critical_path(core_of(double_buffered, np.ones((128 * 16, 512), np.float32), False))
    first = double_buffered.__code__.co_firstlineno
    assert {line.line - first for line in path.lines} == {5, 7, 8}
    assert {line.file for line in path.lines} == {__file__}


def test_without_dma_what_remains_is_the_scalar_engine() -> None:
    freed = without(timed(double_buffered, np.ones((128 * 16, 512), np.float32), True), "dma")
    bound = bound_of(freed)
    assert bound is not None
    assert (bound.kind, bound.engine) == ("throughput", "scalar")


def test_bytes_read_again_are_counted() -> None:
    def kernel(x: Any) -> None:
        for _ in range(3):
            nl.load(x[0:128])
        nl.load(x[128:256])

    assert loaded_again(core_of(kernel, np.ones((256, 512), np.float32))) == 2.0


def test_both_cores_of_a_pair_leave_a_barrier_together() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        half = x.shape[0] // 2
        row = nl.program_id(0) * half
        tile = nl.load(x[row : row + half])
        nl.store(out[row : row + half], tile)
        nisa.core_barrier(out, (0, 1))
        nisa.memset(nl.ndarray((128, 64), nl.float32), 1)
        return out

    timing = timed(kernel, np.ones((256, 512), np.float32), lnc=2)
    ends = [core.low.end_ns[2] for core in timing.cores]
    assert ends[0] == ends[1]


def test_the_table_of_assumptions_moves_the_time() -> None:
    run = jit(double_buffered).record(np.ones((256, 512), np.float32), True)
    slow = DEFAULT.replace(launch_ns=Assumption(1e6, 1e6, 1e6, "ns", "a slow launch"))
    assert time_run(run, slow).total_ns.low - time_run(run).total_ns.low == pytest.approx(1e6)


def test_utilisation_is_busy_time_over_the_span() -> None:
    core = core_of(double_buffered, np.ones((256, 512), np.float32), True)
    assert utilisation(core)["scalar"] == 2 * 512 / 1.2 / core.low.span_ns


def test_a_run_that_was_not_recorded_is_refused() -> None:
    run = jit(double_buffered).run(np.ones((256, 512), np.float32), True)
    with pytest.raises(UsageError, match="without recording"):
        time_run(run)
