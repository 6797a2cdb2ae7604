"""Reductions, statistics, selections, gathers and searches against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_kernels import integers, normal, on_tiles

from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl

REDUCERS = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}


@pytest.mark.parametrize("name", REDUCERS)
def test_tensor_reduce_over_the_last_axes(name):
    x = normal(16, 4, 6)
    one = on_tiles(lambda d, a: nisa.tensor_reduce(d, getattr(nl, name), a, axis=2), x, shape=(16, 4))
    np.testing.assert_allclose(one, REDUCERS[name](x, axis=2), rtol=1e-5)
    both = on_tiles(
        lambda d, a: nisa.tensor_reduce(d, getattr(nl, name), a, axis=[1, 2], negate=True), x, shape=(16, 1)
    )
    np.testing.assert_allclose(both[:, 0], -REDUCERS[name](x, axis=(1, 2)), rtol=1e-4)


def test_tensor_reduce_subtracts_everything_from_zero():
    x = np.array([[1, 2, 3]], np.float32)
    assert on_tiles(lambda d, a: nisa.tensor_reduce(d, nl.subtract, a, axis=1), x, shape=(1, 1)) == -6


def test_tensor_reduce_of_bits():
    x = integers(8, 5, high=255, dtype=np.uint8)
    result = on_tiles(lambda d, a: nisa.tensor_reduce(d, nl.bitwise_xor, a, axis=1), x, shape=(8, 1))
    np.testing.assert_array_equal(result[:, 0], np.bitwise_xor.reduce(x, axis=1))


@pytest.mark.parametrize("axis", [0, [0, 1], 1])
def test_tensor_reduce_refuses_axes_that_are_not_the_last_free_ones(axis):
    with pytest.raises(nki.NkiValidationError, match="only the last free axes reduce"):
        on_tiles(lambda d, a: nisa.tensor_reduce(d, nl.add, a, axis=axis), normal(4, 3, 2), shape=(4, 2))


@pytest.mark.parametrize(
    ("name", "reference"), [("add", np.sum), ("average", np.mean), ("maximum", np.max), ("max", np.max)]
)
def test_tensor_partition_reduce(name, reference):
    x = normal(100, 7)
    result = on_tiles(lambda d, a: nisa.tensor_partition_reduce(d, getattr(nl, name), a), x, shape=(1, 7))
    np.testing.assert_allclose(result[0], reference(x, axis=0), rtol=1e-5)


def test_bn_stats_and_aggregate_give_mean_and_variance():
    x = normal(32, 301)

    def body(dst, a):
        stats = nl.ndarray((32, 6), nl.float32)
        nisa.bn_stats(stats, a)
        nisa.bn_aggr(dst, stats)

    result = on_tiles(body, x, shape=(32, 2))
    np.testing.assert_allclose(result[:, 0], x.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(result[:, 1], x.var(axis=1), rtol=1e-5)


def test_bn_stats_splits_even_and_odd_positions():
    x = np.array([[1, 10, 3, 30]], np.float32)
    assert on_tiles(nisa.bn_stats, x, shape=(1, 6)).tolist() == [[2, 2, 2, 2, 20, 200]]


def test_bn_stats_refuses_more_than_512_elements():
    with pytest.raises(nki.NkiValidationError, match=r"is 513, the limit is 512 \(tile_size.bn_stats_fmax\)"):
        on_tiles(nisa.bn_stats, normal(4, 513), shape=(4, 6))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 128), st.integers(1, 6), st.integers(1, 6), st.integers(-9, 9), st.integers(-9, 9))
def test_iota(partitions, outer, inner, offset, multiplier):
    pattern = [[7, outer], [2, inner]]
    result = on_tiles(
        lambda d, a: nisa.iota(d, pattern, offset, multiplier),
        np.zeros((partitions, outer * inner), np.int32),
    )
    p, i, j = np.ix_(range(partitions), range(outer), range(inner))
    np.testing.assert_array_equal(result, (offset + p * multiplier + 7 * i + 2 * j).reshape(partitions, -1))


def test_affine_select_makes_a_causal_mask():
    x = normal(16, 16)

    def body(dst, a):
        nisa.affine_select(dst, [[-1, 16]], 1, a, -1e4, cmp_op=nl.greater_equal)

    np.testing.assert_array_equal(on_tiles(body, x), np.where(np.tri(16) != 0, x, np.float32(-1e4)))


def test_range_select_keeps_a_window_and_its_maximum():
    x, low, high = normal(8, 32), np.full((8, 1), 4, np.float32), np.full((8, 1), 20, np.float32)

    def body(dst, a, first, last):
        kept = nl.ndarray(a.shape, nl.float32)
        nisa.range_select(kept, a, nl.greater_equal, nl.less, first, last, reduce_res=dst, range_start=2)

    result = on_tiles(body, x, low, high, shape=(8, 1))
    np.testing.assert_array_equal(result[:, 0], x[:, 2:18].max(axis=1))


def test_range_select_refuses_another_false_value():
    x, one = normal(4, 8), np.ones((4, 1), np.float32)
    with pytest.raises(nki.NkiValidationError, match=r"on_false_value=0.0"):
        on_tiles(lambda d, a, b: nisa.range_select(d, a, nl.less, nl.less, b, b, on_false_value=0.0), x, one)


@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce(reverse):
    x, predicate = normal(8, 10), integers(8, 10, high=2, dtype=np.uint8)
    result = on_tiles(lambda d, a, p: nisa.select_reduce(d, p, a, -5.0, reverse_pred=reverse), x, predicate)
    np.testing.assert_array_equal(result, np.where((predicate != 0) != reverse, x, np.float32(-5)))


@pytest.mark.parametrize("reverse", [False, True])
def test_tensor_copy_predicated_leaves_the_rest(reverse):
    x, predicate = normal(8, 10), integers(8, 10, high=2, dtype=np.uint8)

    def body(dst, a, p):
        nisa.memset(dst, 7.0)
        nisa.tensor_copy_predicated(dst, a, p, reverse_pred=reverse)

    np.testing.assert_array_equal(
        on_tiles(body, x, predicate), np.where((predicate != 0) != reverse, x, np.float32(7))
    )


@pytest.mark.parametrize("run", [1, 4])
def test_local_gather_per_group_of_sixteen(run):
    data = normal(32, 64)
    numbers = integers(32, 2, high=64 // run, dtype=np.uint16) * np.uint16(run)
    wanted = np.empty((32, 32 * run), np.float32)
    for group in range(2):
        lanes = slice(16 * group, 16 * group + 16)
        flat = numbers[lanes].T.reshape(-1)
        columns = (flat[:, None] + np.arange(run)).reshape(-1)
        wanted[lanes] = data[lanes][:, columns]
    result = on_tiles(
        lambda d, a, i: nisa.local_gather(d, a, i, num_elem_per_idx=run), data, numbers, shape=wanted.shape
    )
    np.testing.assert_array_equal(result, wanted)


def test_nc_n_gather():
    data, index = normal(64, 20), integers(64, 9, high=20, dtype=np.uint32)
    result = on_tiles(lambda d, a, i: nisa.nc_n_gather(d, a, i), data, index, shape=(64, 9))
    np.testing.assert_array_equal(result, np.take_along_axis(data, index.astype(np.int64), axis=1))


def test_nc_stream_shuffle_within_quadrants():
    x = normal(64, 5)
    mask = [*range(31, 0, -1), 255]

    def body(dst, a):
        nisa.memset(dst, 0.0)
        nisa.nc_stream_shuffle(dst, a, mask)

    wanted = np.zeros_like(x)
    for quadrant in (0, 32):
        wanted[quadrant : quadrant + 31] = x[quadrant + 31 : quadrant : -1]
    np.testing.assert_array_equal(on_tiles(body, x), wanted)


def test_nc_stream_shuffle_broadcasts_one_row():
    row = normal(1, 8)
    result = on_tiles(lambda d, a: nisa.nc_stream_shuffle(d, a, [0] * 32), row, shape=(32, 8))
    np.testing.assert_array_equal(result, np.broadcast_to(row, (32, 8)))


def test_max8_find_and_replace():
    x = normal(16, 50)

    def values(dst, a):
        nisa.max8(dst, a)

    def indices(dst, a):
        top = nl.ndarray((16, 8), nl.float32)
        nisa.max8(top, a)
        nisa.nc_find_index8(dst, a, top)

    def replaced(dst, a):
        top = nl.ndarray((16, 8), nl.float32)
        nisa.max8(top, a)
        nisa.nc_match_replace8(dst, a, top, -9.0)

    order = np.argsort(-x, axis=1)[:, :8]
    np.testing.assert_array_equal(on_tiles(values, x, shape=(16, 8)), np.take_along_axis(x, order, axis=1))
    np.testing.assert_array_equal(on_tiles(indices, x, shape=(16, 8), dtype=nl.uint32), order)
    wanted = x.copy()
    np.put_along_axis(wanted, order, -9, axis=1)
    np.testing.assert_array_equal(on_tiles(replaced, x), wanted)


def test_equal_values_take_successive_occurrences():
    data = np.array([[5, 1, 5, 2, 3, 4, 6, 5, 0]], np.float32)
    vals = np.array([[5, 5, 5, 5, 1, 9, 2, 3]], np.float32)
    found = on_tiles(lambda d, a, v: nisa.nc_find_index8(d, a, v), data, vals, shape=(1, 8), dtype=nl.uint16)
    assert found.tolist() == [[0, 2, 7, 65535, 1, 65535, 3, 4]]

    def positions(dst, a, v):
        scratch = nl.ndarray(a.shape, nl.float32)
        nisa.nc_match_replace8(scratch, a, v, 0.0, dst_idx=dst)

    down = on_tiles(positions, data, vals, shape=(1, 8), dtype=nl.uint32)
    assert down.tolist() == [[2**32 - 1, 7, 2, 0, 1, 2**32 - 1, 3, 4]]


def test_sequence_bounds():
    ids = np.array([[1, 1, 2, 2, 2, 0, 3]], np.int32)
    result = on_tiles(nisa.sequence_bounds, ids, shape=(1, 2, 7))
    assert result.tolist() == [[[0, 0, 2, 2, 2, 7, 6], [2, 2, 5, 5, 5, -1, 7]]]


def test_nonzero_with_count_on_every_sixteenth_partition():
    x = np.zeros((32, 5), np.float32)
    x[0, [1, 4]] = 1
    x[16] = 2

    def body(dst, a):
        nisa.memset(dst, 77)
        nisa.nonzero_with_count(dst, a, index_offset=10)

    result = on_tiles(body, x, shape=(32, 6), dtype=nl.int32)
    assert result[0].tolist() == [11, 14, -1, -1, -1, 2]
    assert result[16].tolist() == [10, 11, 12, 13, 14, 5]
    assert (result[1:16] == 77).all()


def test_topk_ascending_over_the_snake():
    x = normal(16, 4).astype(ml_dtypes.bfloat16)

    def kernel(a):
        src = nl.load(a)
        values, indices = nl.ndarray((16, 5), nl.bfloat16), nl.ndarray((16, 5), nl.uint32)
        nisa.topk(values, indices, src, 60)
        out = nl.ndarray((16, 5), nl.bfloat16, buffer=nl.shared_hbm)
        where = nl.ndarray((16, 5), nl.uint32, buffer=nl.shared_hbm)
        nl.store(out, values)
        nl.store(where, indices)
        return out, where

    values, indices = nki.simulate(kernel)(x)
    snake = x.T.reshape(-1)[:60].astype(np.float32)
    order = np.argsort(snake, kind="stable")[-5:]
    np.testing.assert_array_equal(indices[3], order)
    np.testing.assert_array_equal(values[7].astype(np.float32), snake[order])


def test_random_bits_and_saved_state():
    def body(dst, a):
        state = nl.ndarray((4, 6), nl.uint32)
        nisa.rand_get_state(state)
        first, second = nl.ndarray((4, 8), nl.int32), nl.ndarray((4, 8), nl.int32)
        nisa.rng(first)
        nisa.rand_set_state(state)
        nisa.rng(second)
        nisa.tensor_tensor(dst, first, second, nl.equal)

    assert on_tiles(body, np.zeros((4, 8), np.int32)).all()


def test_dropout_keeps_about_the_asked_share():
    x = np.ones((128, 100), np.float32)
    kept = np.count_nonzero(on_tiles(lambda d, a: nisa.dropout(d, a, 0.25), x))
    assert 9300 < kept < 9900


def test_rand2_is_uniform_between_its_bounds(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    x = on_tiles(lambda d, a: nisa.rand2(d, -1.0, 3.0), np.zeros((64, 64), np.float32))
    assert -1 <= x.min() < -0.9
    assert 2.9 < x.max() <= 3
    with pytest.raises(nki.NkiValidationError, match="is not below"):
        on_tiles(lambda d, a: nisa.rand2(d, 1.0, 1.0), np.zeros((4, 4), np.float32))


def test_rng_and_seed_refusals():
    with pytest.raises(nki.NkiValidationError, match=r"nisa.rng: dst is float32"):
        on_tiles(lambda d, a: nisa.rng(d), normal(4, 4))
    with pytest.raises(nki.NkiValidationError, match=r"pass a \[1, 1\] 32-bit tensor"):
        on_tiles(lambda d, a: nisa.set_rng_seed(a), normal(4, 4))
