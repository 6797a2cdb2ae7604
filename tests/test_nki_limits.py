"""Broken limits name value, limit, the kernel's line and a cure; unwritten memory is no result."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest
from nki_kernels import in_kernel, normal, tile_of

from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if text in line)


def half_written(a):
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:64], nl.load(a))
    return out


def test_nk_1_unwritten_output_is_not_zero():
    kernel = nki.jit(half_written)
    with pytest.warns(nki.NkiWarning, match=r"half_written: result \[128, 64\] float32: rows 64–127 of axis 0"):
        result = kernel(np.ones((64, 64), np.float32))
    assert (result[:64] == 1).all()
    assert np.isnan(result[64:]).all()
    run = nki.last_run()
    assert not run.ok
    assert run.unwritten[0].rows == ((64, 127),)
    assert run.unwritten[0].elements == 64 * 64


def test_nk_1_a_wholly_written_output_is_ok():
    kernel = nki.jit(lambda a: copied(a))
    kernel(np.ones((64, 64), np.float32))
    assert nki.last_run().ok


def copied(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for k in range(4):
        nl.store(out[:, k::4], nl.load(a[:, k::4]))
    return out


@pytest.mark.filterwarnings("ignore::neuron_lab.nki.NkiWarning")
def test_nk_1_rows_written_by_index_count():
    def kernel(a, i):
        out = nl.ndarray((6, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out.ap([[4, 3], [1, 4]], vector_offset=nl.load(i)), nl.load(a))
        return out

    nki.simulate(kernel)(np.ones((3, 4), np.float32), np.array([[5], [0], [2]], np.uint32))
    assert nki.last_run().unwritten[0].rows == ((1, 1), (3, 4))


@pytest.mark.filterwarnings("ignore::neuron_lab.nki.NkiWarning")
def test_nk_1_parts_written_through_another_dtype_count():
    def kernel(a):
        out = nl.ndarray((4, 2), nl.float32, buffer=nl.shared_hbm)
        halves = out.view(nl.uint16)
        nisa.dma_copy(halves[0:2], a)
        nisa.dma_copy(halves[2:4, 0:3], a[:, 0:3])
        return out

    nki.simulate(kernel)(np.ones((2, 4), np.uint16))
    assert nki.last_run().unwritten[0].elements == 2


@pytest.mark.filterwarnings("ignore::neuron_lab.nki.NkiWarning")
def test_nk_1_a_result_seen_as_another_dtype_is_judged_as_allocated():
    def kernel(a):
        out = nl.ndarray((4, 2), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out[0:3], a)
        return out.view(nl.uint16)

    assert nki.simulate(kernel)(np.ones((3, 2), np.float32)).shape == (4, 4)
    assert nki.last_run().unwritten[0].rows == ((3, 3),)


def test_reading_a_tile_that_nothing_has_written_is_reported():
    with pytest.warns(nki.NkiWarning, match="is read, but nothing has written it"):
        tile_of(lambda: nl.add(nl.ndarray((4, 4), nl.float32), 1.0))


def test_nk_2_broken_limits_in_plain_words():
    def kernel(a):
        tile = nl.ndarray((256, 64), nl.float32, name="tile")
        nisa.dma_copy(tile, a)

    with pytest.raises(nki.NkiValidationError) as caught:
        nki.jit(kernel)(np.ones((256, 64), np.float32))
    error = caught.value
    assert (error.value, error.limit, error.operation) == (256, 128, "nl.ndarray")
    assert error.place == (__file__, line_of(kernel, "nl.ndarray"))
    assert str(error) == (
        "nl.ndarray: axis 0 (partitions) of tile [256, 64] float32 in sbuf is 256, the limit is 128 "
        f"(tile_size.pmax), at {__file__}:{error.place[1]}; loop over tiles of 128 partitions, or put that "
        "axis on a free axis"
    )


def psum(*shape, dtype="float32"):
    return nl.ndarray(shape, dtype, buffer=nl.psum)


def sbuf(*shape, dtype="float32"):
    return nl.zeros(shape, dtype)


REFUSED = {
    "moving of 513 columns": (
        lambda: nisa.nc_matmul(psum(4, 512), sbuf(8, 4), sbuf(8, 513)),
        "moving free size is 513, the limit is 512",
    ),
    "stationary of 129 columns": (
        lambda: nisa.nc_matmul(psum(128, 8), sbuf(8, 129), sbuf(8, 8)),
        "stationary free size is 129, the limit is 128",
    ),
    "unequal contraction": (
        lambda: nisa.nc_matmul(psum(4, 8), sbuf(8, 4), sbuf(16, 8)),
        "stationary has 8 partitions and moving 16",
    ),
    "result across banks": (
        lambda: nisa.nc_matmul(psum(4, 1024)[:, 256:768], sbuf(8, 4), sbuf(8, 512)),
        "dst lies in PSUM banks 0 to 1",
    ),
    "result in SBUF": (
        lambda: nisa.nc_matmul(sbuf(4, 8), sbuf(8, 4), sbuf(8, 8)),
        "dst is in sbuf, it must be in psum",
    ),
    "bfloat16 result": (
        lambda: nisa.nc_matmul(psum(4, 8, dtype="bfloat16"), sbuf(8, 4), sbuf(8, 8)),
        "dst is bfloat16; trn2 accumulates in float32",
    ),
    "float32 with bfloat16": (
        lambda: nisa.nc_matmul(psum(4, 8), sbuf(8, 4), sbuf(8, 8, dtype="bfloat16")),
        "32-bit floats mix only with 32-bit floats",
    ),
    "integers in a matmul": (
        lambda: nisa.nc_matmul(psum(4, 8), sbuf(8, 4, dtype="int8"), sbuf(8, 8, dtype="int8")),
        "operand dtype int8",
    ),
    "transpose of 129": (
        lambda: nisa.nc_transpose(psum(128, 4), sbuf(4, 129)),
        "a side is 129, the limit is 128",
    ),
    "vector transpose of 33": (
        lambda: nisa.nc_transpose(sbuf(33, 4), sbuf(4, 33)),
        "a side is 33, the limit is 32",
    ),
    "DMA from PSUM": (
        lambda: nisa.dma_copy(sbuf(4, 4), psum(4, 4)),
        "src is in psum, it must be in",
    ),
    "unequal DMA": (
        lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 5)),
        "has 16 elements, src [4, 5] has 20",
    ),
    "two operands in PSUM": (
        lambda: nisa.tensor_tensor(sbuf(4, 4), psum(4, 4), psum(4, 4), nl.add),
        "data1 and data2 are both in PSUM",
    ),
    "GpSimd in PSUM": (
        lambda: nisa.tensor_copy(sbuf(4, 4), psum(4, 4), engine=nisa.engine.gpsimd),
        "GpSimd does not reach PSUM",
    ),
    "unequal partitions": (
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(5, 4)),
        "src is [5, 4] and dst is [4, 4]",
    ),
    "start partition 1": (
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(8, 4)[1:5]),
        "src has 4 partitions from partition 1; the start must be 0, 32, 64 or 96",
    ),
    "64 partitions from 32": (
        lambda: nisa.tensor_copy(sbuf(64, 4), sbuf(128, 4)[32:96]),
        "the start must be 0 or 64",
    ),
    "a number for an engine": (
        lambda: nisa.tensor_copy(sbuf(4, 4), sbuf(4, 4), engine=5),
        "engine=5 is no member of engine",
    ),
    "a wrong engine": (
        lambda: nisa.memset(sbuf(4, 4), 0.0, engine=nisa.engine.tensor),
        "engine.tensor does not run it",
    ),
    "an op that is none": (
        lambda: nisa.tensor_tensor(sbuf(4, 4), sbuf(4, 4), sbuf(4, 4), np.add),
        "is no operator",
    ),
    "a string for a buffer": (lambda: nl.ndarray((4, 4), nl.float32, buffer="sbuf"), "is no memory"),
    "an unknown dtype": (lambda: nl.ndarray((4, 4), "float64"), "unknown dtype 'float64'; valid: bool_"),
    "one axis on chip": (lambda: nl.ndarray((4,), nl.float32), "a partition axis and a free axis"),
    "half a partition": (lambda: nl.ndarray((2.5, 2), nl.float32), "shape=(2.5, 2)"),
    "a pattern without counts": (lambda: sbuf(4, 4).ap([[4, 4], [1]]), "pattern [[4, 4], [1]]"),
    "a wide reduction result": (
        lambda: nisa.activation(
            sbuf(4, 2), nl.exp, sbuf(4, 2), reduce_res=sbuf(4, 2), reduce_cmd=nisa.reduce_cmd.reset_reduce
        ),
        "has 8 elements, the result 4",
    ),
    "an empty axis": (lambda: nl.ndarray((4, 0), nl.float32), "shape (4, 0)"),
    "SBUF bytes": (
        lambda: nl.ndarray((128, 57345), nl.float32),
        "in sbuf is 229380, the limit is 229376 (sbuf of trn2)",
    ),
    "PSUM bytes": (lambda: psum(128, 4097), "in psum is 16388, the limit is 16384 (psum of trn2)"),
    "PSUM off a bank": (
        lambda: nl.ndarray((4, 4), nl.float32, buffer=nl.psum, address=(0, 1024)),
        "it must start on a bank boundary",
    ),
    "an address past the end": (
        lambda: nl.ndarray((4, 4), nl.float32, address=(0, 229364)),
        "plus its offset is 229380, the limit is 229376",
    ),
    "17 DMA sources": (
        lambda: nisa.dma_compute(sbuf(4, 4), [sbuf(4, 4)] * 17, nl.add),
        "number of sources is 17, the limit is 16",
    ),
    "mask of 31": (
        lambda: nisa.nc_stream_shuffle(sbuf(32, 4), sbuf(32, 4), [0] * 31),
        "a mask of 31 entries",
    ),
    "hwdge with a cast": (
        lambda: nisa.dma_copy(sbuf(4, 4, dtype="bfloat16"), sbuf(4, 4), dge_mode=nisa.dge_mode.hwdge),
        "hwdge does not convert float32 to bfloat16",
    ),
    "priority on trn2": (
        lambda: nisa.dma_copy(sbuf(4, 4), sbuf(4, 4), priority=1),
        "priority=1 needs NeuronCore-v4",
    ),
    "a barrier alone": (
        lambda: nisa.core_barrier(nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm), (0, 1)),
        "needs two cores, this launch has one",
    ),
    "store of PSUM": (
        lambda: nl.store(nl.ndarray((4, 4), nl.float32, buffer=nl.hbm), psum(4, 4)),
        "value is in PSUM, which DMA cannot read",
    ),
    "a second index": (
        lambda: nl.ndarray((4, 4), nl.float32, buffer=nl.hbm).ap(
            [[4, 4], [1, 4]], scalar_offset=nisa.register_alloc(0), vector_offset=sbuf(4, 1, dtype="uint32")
        ),
        "scalar_offset and vector_offset together",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_rule_is_refused_where_it_stands(name):
    body, message = REFUSED[name]
    with pytest.raises(ValueError) as caught:
        in_kernel(body)
    assert message in str(caught.value)
    if isinstance(caught.value, nki.NkiValidationError):
        assert caught.value.place[0] == __file__
        assert caught.value.cure


@pytest.mark.parametrize(
    ("instruction", "generation"),
    [
        ("activate2", "trn3"),
        ("exponential", "trn3"),
        ("quantize_mx", "trn3"),
        ("rand2", "trn3"),
        ("nc_matmul_mx", "trn3"),
    ],
)
def test_an_instruction_of_a_later_generation_is_refused(instruction, generation):
    function = getattr(nisa, instruction)
    count = len(
        [p for p in inspect.signature(function).parameters.values() if p.default is inspect.Parameter.empty]
    )
    with pytest.raises(
        nki.NkiValidationError, match=rf"needs NeuronCore-v4 \({generation}\), the target is trn2"
    ):
        in_kernel(lambda: function(*[sbuf(32, 8) for _ in range(count)]))


def test_capacity_counts_what_is_live_at_once():
    def kernel(a, together):
        out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
        tiles = []
        for _ in range(5):
            tile = nl.ndarray((128, 12_000), nl.float32)
            nisa.memset(tile, 1.0)
            tiles.append(tile)
            if not together:
                nisa.dma_copy(out, tile[:, 0:1])
        for tile in tiles if together else []:
            nisa.dma_copy(out, tile[:, 0:1])
        return out

    x = np.ones((1, 1), np.float32)
    nki.simulate(kernel)(x, False)
    assert nki.last_run().cores[0].sbuf.bytes_per_partition == 48_000
    with pytest.raises(nki.NkiValidationError) as caught:
        nki.simulate(kernel)(x, True)
    assert (caught.value.value, caught.value.limit) == (240_000, 229_376)
    assert caught.value.place == (__file__, line_of(kernel, "12_000"))
    assert "5 tensors, the largest: [128, 12000] float32 48000 B" in str(caught.value)


def test_psum_holds_eight_banks():
    def kernel(banks):
        x = sbuf(8, 4)
        tiles = [psum(4, 512) for _ in range(banks)]
        for tile in tiles:
            nisa.nc_matmul(tile, x, sbuf(8, 512))
        for tile in tiles:
            nl.copy(tile)

    nki.simulate(kernel)(8)
    assert nki.last_run().cores[0].psum.bytes_per_partition == 16_384
    with pytest.raises(
        nki.NkiValidationError, match="18432 bytes per partition are live at once, the limit is 16384"
    ):
        nki.simulate(kernel)(9)


def placed(byte, name):
    return nl.ndarray((16, 8), nl.float32, name=name, address=(0, byte))


def test_a_value_lost_to_an_overlapping_address_is_refused():
    def body():
        first, second = placed(0, "first"), placed(16, "second")
        nisa.memset(first, 1.0)
        nisa.memset(second, 2.0)
        nl.copy(first)

    with pytest.raises(
        nki.NkiValidationError, match=r"'first'.*is read after 'second' was written over the same bytes"
    ):
        in_kernel(body)


def test_reusing_an_address_after_the_last_read_is_fine():
    def body():
        first, second = placed(0, "first"), placed(16, "second")
        nisa.memset(first, 1.0)
        nl.copy(first)
        nisa.memset(second, 2.0)
        nl.copy(second)
        nisa.memset(first, 3.0)
        return nl.copy(first)

    assert (tile_of(body) == 3).all()


@pytest.mark.parametrize(
    ("dtype", "narrow"), [(np.int64, "int32"), (np.float64, "float32"), (np.uint64, "uint32")]
)
def test_64_bit_arguments_are_refused_with_the_type_to_use(dtype, narrow):
    with pytest.raises(nki.NkiValidationError, match=rf"argument 0 is {np.dtype(dtype)}.*pass it as {narrow}"):
        nki.simulate(copied)(np.ones((4, 4), dtype))


def test_returning_an_on_chip_tensor_is_refused():
    with pytest.raises(nki.NkiValidationError, match="result is in sbuf; results are returned in shared_hbm"):
        nki.simulate(lambda a: nl.load(a))(normal(4, 4))


def test_returning_private_hbm_is_reported():
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.hbm)
        nl.store(out, nl.load(a))
        return out

    with pytest.warns(nki.NkiWarning, match=r"returned from nl.hbm; the real compiler wants nl.shared_hbm"):
        nki.simulate(kernel)(normal(4, 4))


def test_instructions_outside_a_kernel_say_what_to_do():
    with pytest.raises(ValueError, match="only inside a running kernel"):
        nl.ndarray((4, 4), nl.float32)


def test_fp8_e4m3fn_needs_trn3():
    x = normal(4, 4, dtype=ml_dtypes.float8_e4m3fn)

    def body(a):
        acc = psum(4, 4)
        nisa.nc_matmul(acc, a, a)
        return acc

    with pytest.raises(nki.NkiValidationError, match="float8_e4m3fn needs NeuronCore-v4"):
        tile_of(body, x)
