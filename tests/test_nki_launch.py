"""Launching kernels: arguments, results, two cooperating cores, collectives, recording."""

from __future__ import annotations

import _thread
import threading

import ml_dtypes
import numpy as np
import pytest
import torch
from nki_kernels import in_kernel, normal

from neuron_lab import nki
from neuron_lab.errors import UsageError
from neuron_lab.nki import collectives as ncc
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl

PAIR = [[0, 1]]


@nki.jit
def doubled(a):
    """Twice the argument."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.add(tile, tile))
    return out


def test_jit_keeps_name_and_docstring():
    assert doubled.__name__ == "doubled"
    assert doubled.__doc__ == "Twice the argument."
    assert repr(doubled[2]) == "<nki kernel doubled[2]>"


def test_jit_with_options():
    assert isinstance(nki.jit(mode="trace")(lambda a: a), nki.Kernel)
    with pytest.raises(UsageError, match="NEURON_PLATFORM_TARGET_OVERRIDE"):
        nki.jit(platform_target="trn2")
    with pytest.raises(UsageError, match="takes no speed"):
        nki.jit(speed=1)


def test_simulate_wraps_functions_kernels_and_launches():
    x = normal(8, 4)
    for kernel in (doubled, doubled[1], doubled.function):
        np.testing.assert_array_equal(nki.simulate(kernel)(x), 2 * x)


def test_results_come_back_as_torch_for_torch_arguments():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
        x = torch.arange(32).reshape(8, 4).to(dtype)
        result = doubled(x)
        assert result.dtype == dtype
        assert torch.equal(result, 2 * x)


def test_a_torch_view_that_is_not_contiguous():
    x = torch.arange(32, dtype=torch.float32).reshape(4, 8).T
    assert torch.equal(doubled(x), 2 * x)


@pytest.mark.parametrize("make", [lambda: np.zeros((4, 6), np.float32).T, lambda: torch.zeros(4, 6).T])
def test_inputs_that_are_written_change_for_the_caller(make):
    def kernel(a):
        nl.store(a, nl.full(a.shape, 3.0, nl.float32))

    x = make()
    nki.simulate(kernel)(x)
    assert (x == 3).all()


def test_nested_results_and_other_arguments():
    def kernel(pair, scale, *, options=None):
        out = nl.ndarray(pair[0].shape, pair[0].dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(pair[1]), scale))
        return {"out": out, "rest": (pair[0], options)}

    x, y = normal(4, 3), normal(4, 3, seed=1)
    result = nki.simulate(kernel)((x, y), 2.0, options="none")
    np.testing.assert_array_equal(result["out"], 2 * y)
    np.testing.assert_array_equal(result["rest"][0], x)
    assert result["rest"][1] == "none"


def test_a_read_only_argument_is_not_changed():
    x = np.zeros((4, 6), np.float32)
    x.flags.writeable = False
    nki.simulate(lambda a: nl.store(a, nl.full(a.shape, 3.0, nl.float32)))(x)
    assert (x == 0).all()


def test_a_kernel_called_from_a_kernel_is_inlined_and_reported():
    def kernel(a):
        return doubled(a)

    with pytest.warns(nki.NkiWarning, match="called from a kernel"):
        np.testing.assert_array_equal(nki.simulate(kernel)(normal(4, 4)), 2 * normal(4, 4))


@pytest.mark.parametrize("degree", [0, 3, "2", True])
def test_another_logical_core_size_is_refused(degree):
    with pytest.raises(nki.NkiValidationError, match=r"use kernel.1. or kernel.2."):
        doubled[degree]


def split_rows(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    rows = a.shape[0] // nl.num_programs()
    first = nl.program_id(0) * rows
    tile = nl.load(a[first : first + rows])
    nl.store(out[first : first + rows], nl.add(tile, 1.0 * nl.program_id(0)))
    return out


def test_two_cores_share_their_shared_tensors():
    x = normal(16, 4)
    wanted = x + np.repeat([[0], [1]], 8, axis=0).astype(np.float32)
    np.testing.assert_array_equal(nki.simulate(nki.jit(split_rows)[2])(x), wanted)
    np.testing.assert_array_equal(nki.simulate(split_rows)(x), x)


def test_a_barrier_orders_the_two_cores():
    def kernel(a):
        shared = nl.ndarray((1, 4), nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        me = nl.program_id(0)
        if me == 1:
            nl.store(shared, nl.load(a))
        nisa.core_barrier(shared, (0, 1))
        nl.store(out[me : me + 1], nl.load(shared))
        return out

    x = normal(1, 4)
    np.testing.assert_array_equal(nki.jit(kernel)[2](x), np.concatenate([x, x]))


def test_sendrecv_exchanges_tiles():
    def kernel(a):
        out = nl.ndarray((2, 4), nl.float32, buffer=nl.shared_hbm)
        me = nl.program_id(0)
        mine, theirs = nl.load(a[me : me + 1]), nl.ndarray((1, 4), nl.float32)
        nisa.sendrecv(mine, theirs, 1 - me, 1 - me, 0)
        nl.store(out[me : me + 1], theirs)
        return out

    x = normal(2, 4)
    np.testing.assert_array_equal(nki.jit(kernel)[2](x), x[::-1])


def test_sendrecv_names_the_other_core():
    def kernel():
        nisa.sendrecv(nl.zeros((1, 4), nl.float32), nl.zeros((1, 4), nl.float32), 0, 1, 0)

    with pytest.raises(nki.NkiValidationError, match="send_to_rank=0 on core 0"):
        nki.jit(kernel)[2]()


def test_a_barrier_that_one_core_never_reaches_is_an_error():
    def kernel():
        shared = nl.ndarray((1, 4), nl.float32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.core_barrier(shared, (0, 1))

    with pytest.raises(nki.NkiValidationError, match=r"core 0: nisa.core_barrier"):
        nki.jit(kernel)[2]()
    assert threading.active_count() < 20


def test_an_error_on_one_core_ends_the_other():
    def kernel():
        shared = nl.ndarray((1, 4), nl.float32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 1:
            raise ZeroDivisionError("mine")
        nisa.core_barrier(shared, (0, 1))

    with pytest.raises(ZeroDivisionError, match="mine"):
        nki.jit(kernel)[2]()


@pytest.mark.parametrize("lnc", [1, 2])
def test_an_endless_loop_can_be_interrupted(lnc):
    def kernel():
        tile = nl.zeros((1, 1), nl.float32)
        if nl.program_id(0) == lnc - 1:
            timer.start()
        while True:
            nisa.memset(tile, 0.0)

    def endless():
        kernel() if nl.program_id(0) == 0 else None

    timer = threading.Timer(0.05, _thread.interrupt_main)
    if lnc == 2:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        nki.jit(endless if lnc == 2 else kernel)[lnc]()
    timer.join()
    assert isinstance(nki.last_run().error, KeyboardInterrupt)
    assert nki.last_run().cores[0].instructions > 0


def test_a_kernel_that_raises_keeps_what_was_recorded():
    def kernel(a):
        nl.load(a)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nki.jit(kernel).record(normal(4, 4))
    run = nki.last_run()
    assert isinstance(run.error, ZeroDivisionError)
    assert [step.opcode for step in run.cores[0].log] == ["dma_copy"]


def test_a_recorded_instruction_has_engine_bytes_and_line():
    x = normal(64, 32, dtype=ml_dtypes.bfloat16)

    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((64, 40), a.dtype)
        first = nisa.dma_copy(tile[:, 4:36], a, name="load")
        second = nisa.tensor_scalar(tile[32:64, 4:36:2], tile[32:64, 4:36:2], nl.add, 1.0)
        nisa.dma_copy(out, tile[:, 4:36]).depends_on(first, second)
        with nl.no_reorder():
            nisa.memset(tile, 0.0)
        return out

    run = nki.jit(kernel).record(x)
    core = run.cores[0]
    load, add, store, fill = core.log
    assert (load.opcode, load.engine, load.name) == ("dma_copy", "dma", "load")
    assert (load.file, load.line) == (__file__, kernel.__code__.co_firstlineno + 3)
    written = load.writes[0]
    assert (written.partition, written.partitions, written.start_byte, written.stop_byte) == (0, 64, 8, 72)
    assert (written.elements, written.runs, written.dtype) == (32, 64, "bfloat16")
    assert (load.reads[0].start_byte, load.reads[0].stop_byte, load.reads[0].runs) == (0, 4096, 1)
    strided = add.reads[0]
    assert (strided.partition, strided.partitions, strided.start_byte, strided.stop_byte) == (32, 32, 8, 70)
    assert (strided.elements, strided.inner_stride_bytes, add.engine) == (16, 4, "vector")
    assert add.extra == {"op": "add", "op1": "bypass"}
    assert fill.extra == {"zero": True}
    assert core.edges == ((0, 2), (1, 2))
    assert core.order_blocks == ((3, 4),)
    assert store.reads[0] == written


def test_an_indirect_access_may_touch_the_whole_tensor():
    def kernel(table, index):
        rows = nl.load(index)
        tile = nl.ndarray((4, 8), nl.float32)
        nisa.dma_copy(tile, table[0:4])
        nisa.dma_copy(tile, table.ap([[8, 4], [1, 8]], vector_offset=rows))

    run = nki.jit(kernel).record(normal(50, 8), np.array([[3], [9], [7], [0]], np.uint32))
    _, direct, gathered = run.cores[0].log
    assert (direct.reads[0].start_byte, direct.reads[0].stop_byte) == (0, 128)
    assert (gathered.reads[0].start_byte, gathered.reads[0].stop_byte) == (0, 1600)
    assert gathered.reads[0].elements == 32


def test_without_recording_only_counts_remain():
    run = doubled.run(normal(4, 4))
    assert run.cores[0].log is None
    assert run.cores[0].instructions == 3


def test_a_schedule_names_instructions():
    kernel = doubled.with_schedule([("b", "a"), ("c", ["a", "b"])])
    assert kernel.run(normal(4, 4)).schedule == (("b", ("a",)), ("c", ("a", "b")))


def ranks(kernel, *arguments):
    return nki.simulate_ranks(kernel, arguments).results


def collective(call, shape=None, buffer="hbm", dtype=None):
    """A kernel that exchanges its one argument."""

    def kernel(a):
        out = nl.ndarray(shape or a.shape, dtype or a.dtype, buffer=nl.shared_hbm)
        if buffer == "hbm":
            call(a, out)
            return out
        inside, result = nl.load(a), nl.ndarray(shape or a.shape, a.dtype)
        call(inside, result)
        nl.store(out, result)
        return out

    return kernel


@pytest.mark.parametrize(
    ("op", "reference"), [("add", np.add), ("maximum", np.maximum), ("minimum", np.minimum)]
)
@pytest.mark.parametrize("buffer", ["hbm", "sbuf"])
def test_all_reduce(op, reference, buffer):
    x, y = normal(4, 6), normal(4, 6, seed=1)
    kernel = collective(lambda a, out: ncc.all_reduce([a], [out], PAIR, getattr(nl, op)), buffer=buffer)
    for result in ranks(kernel, (x,), (y,)):
        np.testing.assert_array_equal(result, reference(x, y))


@pytest.mark.parametrize("dim", [0, 1])
def test_all_gather(dim):
    x, y = normal(4, 6), normal(4, 6, seed=1)
    wanted = np.concatenate([x, y], axis=dim)
    kernel = collective(lambda a, out: ncc.all_gather([a], [out], PAIR, dim), wanted.shape, "sbuf")
    for result in ranks(kernel, (x,), (y,)):
        np.testing.assert_array_equal(result, wanted)


def test_reduce_scatter_and_all_to_all():
    x, y = normal(4, 6), normal(4, 6, seed=1)
    scattered = ranks(
        collective(lambda a, out: ncc.reduce_scatter([a], [out], PAIR, 0, nl.add), (2, 6)), (x,), (y,)
    )
    np.testing.assert_array_equal(scattered, [(x + y)[:2], (x + y)[2:]])
    exchanged = ranks(collective(lambda a, out: ncc.all_to_all([a], [out], PAIR, 0)), (x,), (y,))
    np.testing.assert_array_equal(exchanged[0], np.concatenate([x[:2], y[:2]]))
    np.testing.assert_array_equal(exchanged[1], np.concatenate([x[2:], y[2:]]))


def test_groups_exchange_apart():
    kernel = collective(lambda a, out: ncc.all_reduce([a], [out], ncc.ReplicaGroup([[0, 2], [1, 3]]), nl.add))
    results = ranks(kernel, *[(np.full((1, 1), 10.0**k, np.float32),) for k in range(4)])
    assert [float(result[0, 0]) for result in results] == [101, 1010, 101, 1010]


def test_collective_permute_and_ring():
    values = [np.full((1, 2), k, np.float32) for k in range(3)]
    kernel = collective(lambda a, out: ncc.collective_permute([a], [out], [(0, 2), (2, 1), (1, 0)]))
    assert [int(r[0, 0]) for r in ranks(kernel, *[(v,) for v in values])] == [1, 2, 0]
    ring = collective(lambda a, out: ncc.collective_permute_implicit([[a]], [[out]], [[0, 1, 2]]))
    assert [int(r[0, 0]) for r in ranks(ring, *[(v,) for v in values])] == [2, 0, 1]
    added = collective(
        lambda a, out: ncc.collective_permute_implicit_reduce([[a]], [[a]], [[out]], [[0, 1, 2]], nl.add)
    )
    assert [int(r[0, 0]) for r in ranks(added, *[(v,) for v in values])] == [4, 0, 2]


def test_ranks_know_who_they_are_and_whose_data_they_process():
    def kernel(a):
        assert ncc.rank_id().value == int(a.storage.data[0])
        step = ncc.collective_permute_implicit_current_processing_rank_id
        return (step(0, [[0, 1, 2]]).value, step(1, [[0, 1, 2]]).value)

    assert ranks(kernel, *[(np.array([[k]], np.uint8),) for k in range(3)]) == [(0, 2), (1, 0), (2, 1)]


def test_gather_of_different_lengths():
    def kernel(a, m):
        out = nl.zeros((1, 8), nl.float32, buffer=nl.shared_hbm)
        ncc.all_gather_v([a], [out], PAIR, m)
        return out, m

    def metadata(count, start):
        return np.array([[count, 0], [start, 0], [0, 0]], np.uint32)

    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    (first, counts), (second, _) = ranks(kernel, (x, metadata(2, 1)), (x + 10, metadata(3, 0)))
    assert first.tolist() == second.tolist() == [[1, 2, 0, 0, 10, 11, 12, 0]]
    assert counts[2].tolist() == [2, 3]


def test_exchange_of_different_lengths():
    def kernel(a, m):
        out = nl.zeros((1, 6), nl.float32, buffer=nl.shared_hbm)
        ncc.all_to_all_v([a], [out], PAIR, m, has_rdispls=True)
        return out

    x = np.arange(1, 5, dtype=np.float32).reshape(1, 4)
    zero = np.array([[1, 3], [0, 1], [0, 0], [0, 1]], np.uint32)
    one = np.array([[2, 1], [2, 0], [0, 0], [2, 5]], np.uint32)
    first, second = ranks(kernel, (x, zero), (x + 10, one))
    assert first.tolist() == [[1, 13, 14, 0, 0, 0]]
    assert second.tolist() == [[0, 0, 2, 3, 4, 11]]


def test_a_group_beyond_the_launch_is_refused():
    kernel = collective(lambda a, out: ncc.all_reduce([a], [out], PAIR, nl.add))
    with pytest.raises(nki.NkiValidationError, match=r"rank 1 of \(0, 1\), but this launch has 1"):
        nki.simulate(kernel)(normal(2, 2))


def test_collectives_on_two_cores_per_rank():
    x, y = normal(4, 6), normal(4, 6, seed=1)
    kernel = nki.jit(collective(lambda a, out: ncc.all_reduce([a], [out], PAIR, nl.add)))[2]
    for result in nki.simulate_ranks(kernel, [(x,), (y,)]).results:
        np.testing.assert_array_equal(result, x + y)


def test_unequal_shared_tensors_are_refused():
    def kernel():
        nl.ndarray((1, 4 + nl.program_id(0)), nl.float32, buffer=nl.shared_hbm)

    with pytest.raises(nki.NkiValidationError, match="allocate shared tensors in the same order"):
        nki.jit(kernel)[2]()


def test_nothing_of_a_kernel_stays_behind():
    in_kernel(lambda: nl.zeros((2, 2), nl.float32))
    with pytest.raises(UsageError, match="only inside a running kernel"):
        nl.zeros((2, 2), nl.float32)
