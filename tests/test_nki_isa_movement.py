"""DMA, on-chip copies, matrix multiply, transposes and MX formats against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_kernels import in_kernel, integers, normal, on_tiles, tile_of

from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl


def to_hbm(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 64), st.integers(1, 16), st.sampled_from([np.float32, np.float16, np.int32]))
def test_dma_copy_keeps_row_major_order_between_shapes(rows, columns, out):
    x = normal(rows, columns, 2) * 50

    def kernel(a):
        dst = nl.ndarray((rows * columns, 2), np.dtype(out), buffer=nl.shared_hbm)
        nisa.dma_copy(dst, a)
        return dst

    result = nki.simulate(kernel)(x)
    wanted = np.rint(x).astype(out) if out is np.int32 else x.astype(out)
    np.testing.assert_array_equal(result, wanted.reshape(-1, 2))


def test_a_gather_by_row_index():
    table, index = normal(50, 8), integers(16, 1, high=50, dtype=np.uint32)

    def kernel(a, i):
        rows = nl.load(i)
        dst = nl.ndarray((16, 8), nl.float32)
        nisa.dma_copy(dst, a.ap([[8, 16], [1, 8]], vector_offset=rows))
        return to_hbm(dst)

    np.testing.assert_array_equal(nki.simulate(kernel)(table, index), table[index[:, 0]])


def test_a_gather_skips_or_refuses_rows_outside():
    table, index = normal(4, 3), np.array([[1], [9], [3]], np.uint32)

    def kernel(a, i, mode):
        rows = nl.load(i)
        dst = nl.full((3, 3), -1.0, nl.float32)
        nisa.dma_copy(dst, a.ap([[3, 3], [1, 3]], vector_offset=rows), oob_mode=mode)
        return to_hbm(dst)

    result = nki.simulate(kernel)(table, index, nisa.oob_mode.skip)
    np.testing.assert_array_equal(result, [table[1], [-1, -1, -1], table[3]])
    with pytest.raises(nki.NkiValidationError, match="an index outside 0–3"):
        nki.simulate(kernel)(table, index, nisa.oob_mode.error)


def test_a_scatter_writes_chosen_rows():
    x, index = normal(3, 4), np.array([[5], [0], [2]], np.uint32)

    def kernel(a, i):
        out = nl.zeros((6, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out.ap([[4, 3], [1, 4]], vector_offset=nl.load(i)), nl.load(a))
        return out

    wanted = np.zeros((6, 4), np.float32)
    wanted[[5, 0, 2]] = x
    np.testing.assert_array_equal(nki.simulate(kernel)(x, index), wanted)


@pytest.mark.parametrize("kind", ["register", "tensor", "select"])
def test_a_scalar_offset_chooses_a_block(kind):
    x = normal(5, 4, 3)

    def kernel(a, i):
        dst = nl.ndarray((4, 3), nl.float32)
        index = nl.load(i)
        if kind == "select":
            nisa.dma_copy(dst, a.select(0, index))
        else:
            where = nisa.register_alloc(0)
            nisa.register_load(where, i)
            offset = where if kind == "register" else index
            nisa.dma_copy(dst, a.ap([[3, 4], [1, 3]], scalar_offset=offset))
        return to_hbm(dst)

    np.testing.assert_array_equal(nki.simulate(kernel)(x, np.array([[3]], np.int32)), x[3])


def test_registers_move_load_and_store():
    def kernel(a):
        r, s = nisa.register_alloc(5), nisa.register_alloc()
        nisa.register_load(r, a)
        nisa.register_move(s, r)
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.register_store(out, s)
        return out

    assert nki.simulate(kernel)(np.array([[-7]], np.int32)).tolist() == [[-7]]


def test_an_unset_register_is_refused():
    with pytest.raises(nki.NkiValidationError, match="read before it was written"):
        in_kernel(lambda: nisa.register_move(nisa.register_alloc(), nisa.register_alloc()))


def test_dma_transpose_of_two_three_and_four_axes():
    for shape, axes in [((16, 40), (1, 0)), ((6, 5, 4), (2, 1, 0)), ((4, 1, 6, 8), (3, 1, 2, 0))]:
        x = normal(*shape)
        wanted = x.transpose(axes)

        def kernel(a, axes=axes, shape=wanted.shape):
            dst = nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm)
            nisa.dma_transpose(dst, a, axes=axes)
            return dst

        np.testing.assert_array_equal(nki.simulate(kernel)(x), wanted)


def test_dma_transpose_orders_rows_by_an_index_first():
    x = normal(40, 8, dtype=np.float16)
    index = integers(16, 1, high=40, dtype=np.uint32)

    def kernel(a, i):
        dst = nl.ndarray((8, 16), nl.float16)
        nisa.dma_transpose(dst, a.ap([[8, 16], [1, 8]], vector_offset=nl.load(i)))
        return to_hbm(dst)

    np.testing.assert_array_equal(nki.simulate(kernel)(x, index), x[index[:, 0]].T)


def test_dma_compute_sums_in_float32():
    parts = [normal(8, 4, seed=k, dtype=ml_dtypes.bfloat16) for k in range(3)]

    def kernel(*tensors):
        dst = nl.ndarray((8, 4), nl.float32)
        nisa.dma_compute(dst, tensors, nl.add)
        return to_hbm(dst)

    np.testing.assert_array_equal(nki.simulate(kernel)(*parts), sum(p.astype(np.float32) for p in parts))


def test_dma_compute_adds_into_chosen_rows():
    x, index = np.ones((3, 4), np.float32), np.array([[5], [0], [2]], np.uint32)

    def kernel(a, i):
        out = nl.full((6, 4), 10, nl.float32, buffer=nl.shared_hbm)
        view = out.ap([[4, 3], [1, 4]], vector_offset=nl.load(i))
        nisa.dma_compute(view, [view, nl.load(a)], nl.add)
        return out

    result = nki.simulate(kernel)(x, index)
    assert result[:, 0].tolist() == [11, 10, 11, 10, 10, 11]


def test_tensor_copy_flattens_free_axes():
    x = normal(8, 24)
    result = on_tiles(lambda d, a: nisa.tensor_copy(d, a), x, shape=(8, 4, 6))
    np.testing.assert_array_equal(result, x.reshape(8, 4, 6))


def test_integers_saturate_and_round_half_to_even():
    x = np.array([[0.5, 1.5, -2.5, 300, -300, np.nan]], np.float32)
    assert on_tiles(lambda d, a: nisa.tensor_copy(d, a), x, dtype=nl.int8).tolist() == [
        [0, 2, -2, 127, -128, 0]
    ]


def test_tfloat32_keeps_ten_bits():
    x = np.array([[1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, np.inf]], np.float32)

    def body(dst, a):
        rounded = nl.ndarray((1, 4), nl.tfloat32)
        nisa.tensor_copy(rounded, a)
        nisa.tensor_copy(dst, rounded)

    assert on_tiles(body, x).tolist() == [[1 + 2**-10, 1, 1 + 2**-9, np.inf]]


@pytest.mark.parametrize("name", ["float8_e4m3", "float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"])
def test_low_precision_is_really_stored(name, monkeypatch):
    x = normal(8, 16)
    stored = np.dtype(getattr(ml_dtypes, name, None) or getattr(np, name))

    def body(dst, a):
        low = nl.ndarray((8, 16), getattr(nl, name))
        nisa.tensor_copy(low, a)
        nisa.tensor_copy(dst, low)

    np.testing.assert_array_equal(on_tiles(body, x), x.astype(stored).astype(np.float32))
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    np.testing.assert_array_equal(on_tiles(body, x), x)


def test_memset_refuses_a_float_into_integers():
    with pytest.raises(nki.NkiValidationError, match=r"the float 1.5 into int32"):
        in_kernel(lambda: nisa.memset(nl.ndarray((2, 2), nl.int32), 1.5))


def test_assignment_copies_and_fills():
    x = normal(8, 6)

    def body(dst, a):
        dst[...] = 0.0
        dst[:, 1:3] = a[:, 1:3]

    wanted = np.zeros_like(x)
    wanted[:, 1:3] = x[:, 1:3]
    np.testing.assert_array_equal(on_tiles(body, x), wanted)


def matmul(moving_dtype=np.float32, shapes=((64, 32), (64, 100)), **options):
    x, y = normal(*shapes[0], dtype=moving_dtype), normal(*shapes[1], seed=1, dtype=moving_dtype)

    def body(a, b):
        acc = nl.ndarray((a.shape[-1], b.shape[-1]), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, a, b, **options)
        return acc

    return x.astype(np.float32), y.astype(np.float32), tile_of(body, x, y)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 128),
    st.integers(1, 128),
    st.integers(1, 512),
    st.sampled_from([np.float32, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2]),
)
def test_nc_matmul_is_the_float32_product(k, m, n, dtype):
    x, y, result = matmul(dtype, ((k, m), (k, n)))
    np.testing.assert_allclose(result, x.T @ y, rtol=1e-5, atol=1e-4)


def test_double_row_contracts_the_pair_axis():
    x, y, result = matmul(
        ml_dtypes.float8_e5m2, ((32, 2, 16), (32, 2, 20)), perf_mode=nisa.matmul_perf_mode.double_row
    )
    np.testing.assert_allclose(result, np.einsum("kpm,kpn->mn", x, y), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("accumulate", "factor"), [(None, 3), (False, 1)])
def test_psum_accumulates_from_the_second_matmul_on(accumulate, factor):
    x, y = normal(16, 8), normal(16, 12, seed=1)

    def body(a, b):
        acc = nl.ndarray((8, 12), nl.float32, buffer=nl.psum)
        for _ in range(3):
            nisa.nc_matmul(acc, a, b, accumulate=accumulate)
        return acc

    np.testing.assert_allclose(tile_of(body, x, y), factor * (x.T @ y), rtol=1e-5, atol=1e-5)


def test_accumulation_is_decided_per_location():
    ones = np.ones((4, 4), np.float32)

    def body(a):
        acc = nl.ndarray((4, 8), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc[:, 0:4], a, a)
        nisa.nc_matmul(acc[:, 2:6], a, a)
        nisa.nc_matmul(acc[:, 4:8], a, a)
        return acc

    assert tile_of(body, ones)[0].tolist() == [4, 4, 8, 8, 8, 8, 4, 4]


def test_adding_to_unwritten_psum_is_reported():
    def body(a):
        acc = nl.zeros((4, 4), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, a, a, accumulate=True)
        return acc

    with pytest.warns(nki.NkiWarning, match="let the first matmul of the group overwrite"):
        tile_of(body, np.ones((4, 4), np.float32))


@pytest.mark.parametrize(("shape", "engine"), [((128, 100), "tensor"), ((32, 30), "vector")])
def test_nc_transpose(shape, engine):
    x = normal(*shape, dtype=ml_dtypes.bfloat16)
    x[0, 0] = np.nan

    def body(a):
        buffer = nl.psum if engine == "tensor" else nl.sbuf
        dst = nl.ndarray(shape[::-1], nl.bfloat16, buffer=buffer)
        nisa.nc_transpose(dst, a, engine=getattr(nisa.engine, engine))
        return dst

    assert tile_of(body, x).tobytes() == np.ascontiguousarray(x.T).tobytes()


def test_8_bit_floats_leave_the_tensor_engine_as_16_bit_elements():
    x = normal(8, 4, dtype=ml_dtypes.float8_e5m2)

    def body(a):
        dst = nl.ndarray((4, 8), nl.bfloat16, buffer=nl.psum)
        nisa.nc_transpose(dst, a)
        return dst

    np.testing.assert_array_equal(tile_of(body, x).view(np.uint16), x.T.view(np.uint8).astype(np.uint16))


@pytest.fixture
def trn3(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")


def quantized(a, packed):
    partitions, free = a.shape
    data, scale = nl.ndarray((partitions, free // 4), packed), nl.ndarray((partitions, free // 4), nl.uint8)
    nisa.quantize_mx(data, a, scale)
    return data, scale


def rounded_in_blocks(x, element, largest_exponent):
    """Each block of 8 partitions x 4 elements rounded in units of its power of two."""
    blocks = x.astype(np.float32).reshape(x.shape[0] // 8, 8, -1, 4)
    _, exponent = np.frexp(np.abs(blocks).max(axis=(1, 3), keepdims=True))
    unit = np.exp2(exponent - 1.0 - (largest_exponent - 1)).astype(np.float32)
    return ((blocks / unit).astype(element).astype(np.float32) * unit).reshape(x.shape[0], -1, 4)


@pytest.mark.parametrize(
    ("packed", "element", "exponent"),
    [
        ("float8_e4m3fn_x4", ml_dtypes.float8_e4m3fn, 8),
        ("float8_e5m2_x4", ml_dtypes.float8_e5m2, 15),
    ],
)
@pytest.mark.parametrize("partitions", [32, 128])
def test_mx_matmul_of_quantised_operands(trn3, packed, element, exponent, partitions):
    x, y = (normal(partitions, n, seed=n, dtype=ml_dtypes.bfloat16) for n in (64, 40))

    def body(a, b):
        left, right = quantized(a, packed), quantized(b, packed)
        acc = nl.ndarray((16, 10), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(acc, left[0], right[0], left[1], right[1])
        return acc

    left, right = rounded_in_blocks(x, element, exponent), rounded_in_blocks(y, element, exponent)
    wanted = np.einsum("kmq,knq->mn", left, right)
    np.testing.assert_allclose(tile_of(body, x, y), wanted, rtol=1e-4, atol=1e-3)


def test_quantize_mx_scales_by_a_power_of_two_per_block(trn3):
    x = np.zeros((32, 4), ml_dtypes.bfloat16)
    x[0, 0], x[8, 1] = 448.0, 3.0

    def kernel(a):
        _, scale = quantized(nl.load(a), "float8_e4m3fn_x4")
        out = nl.ndarray(scale.shape, nl.uint8, buffer=nl.shared_hbm)
        nisa.dma_copy(out, scale)
        return out

    # 448 = 1.75 * 2**8 -> exponent 8 - 7; 3 = 1.5 * 2 -> 1 - 7; empty blocks -> -127
    assert nki.simulate(kernel)(x)[:4, 0].tolist() == [128, 121, 0, 0]


def test_fp4_low_nibble_comes_first():
    from neuron_lab.nki.isa.microscaling import unpacked

    assert unpacked(np.array([[0xF721]], np.uint16), "float4_e2m1fn_x4").tolist() == [[[0.5, 1.0, 6.0, -6.0]]]
