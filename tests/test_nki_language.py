"""Every `nl` function on tiles against its numpy form, over shapes, dtypes and memories."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_kernels import in_kernel, integers, normal, on_tiles, tile_of

from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl

SHAPES = [(1, 1), (128, 3), (64, 40), (33, 2, 5)]


def vector(function):
    return lambda x: np.vectorize(function, otypes=[np.float64])(x.astype(np.float64))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def slope(function):
    return lambda x: (function(x + 1e-4) - function(x - 1e-4)) / 2e-4


UNARY = {
    "abs": np.abs,
    "arctan": np.arctan,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": vector(math.erf),
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x.astype(np.float64) ** 2)),
    "exp": np.exp,
    "floor": np.floor,
    "gelu": vector(gelu),
    "gelu_dx": vector(slope(gelu)),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": vector(slope(lambda x: x * sigmoid(1.702 * x))),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "log": lambda x: np.log(x),
    "logical_not": lambda x: x == 0,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "negative": np.negative,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "sign": np.sign,
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": vector(slope(lambda x: x * sigmoid(x))),
    "sin": np.sin,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
POSITIVE = {"log", "rsqrt", "sqrt"}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs_max": lambda x, y: np.where(np.abs(x) > np.abs(y), x, y),
    "abs_min": lambda x, y: np.where(np.abs(x) < np.abs(y), x, y),
    "power": lambda x, y: np.power(x, y),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "fmod": np.fmod,
    "mod": np.mod,
}
BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": lambda x, y: np.left_shift(x, y),
    "right_shift": lambda x, y: (x.view(np.uint32) >> y.view(np.uint32)).view(np.int32),
}
SILENT = pytest.mark.filterwarnings("ignore::neuron_lab.nki.NkiWarning")


@pytest.mark.parametrize("name", UNARY)
def test_a_unary_function_gives_numpys_values(name):
    for shape in SHAPES:
        x = normal(*shape, seed=len(name))
        if name in POSITIVE:
            x = np.abs(x) + np.float32(0.1)
        result = tile_of(getattr(nl, name), x)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, np.asarray(UNARY[name](x), np.float64), rtol=2e-5, atol=2e-6)


@SILENT
@pytest.mark.parametrize("name", BINARY)
def test_a_binary_function_gives_numpys_values(name):
    for shape in SHAPES:
        x, y = normal(*shape, seed=1), normal(*shape, seed=2)
        if name == "power":
            x = np.abs(x)
        result = tile_of(getattr(nl, name), x, y)
        np.testing.assert_allclose(result, BINARY[name](x, y).astype(np.float32), rtol=1e-6)


@SILENT
@pytest.mark.parametrize("name", [name for name in BINARY if name != "power"])
def test_a_binary_function_takes_a_number_on_either_side(name):
    x = normal(16, 8)
    function = getattr(nl, name)
    np.testing.assert_allclose(
        tile_of(lambda t: function(t, 0.5), x), BINARY[name](x, np.float32(0.5)), rtol=1e-6
    )
    np.testing.assert_allclose(
        tile_of(lambda t: function(0.5, t), x), BINARY[name](np.float32(0.5), x), rtol=1e-6
    )


@pytest.mark.parametrize("name", BITS)
def test_a_bit_function_acts_on_the_bits(name):
    x, y = integers(32, 6, low=-(2**31), high=2**31, dtype=np.int64).astype(np.int32), integers(32, 6, high=31)
    np.testing.assert_array_equal(tile_of(getattr(nl, name), x, y), BITS[name](x, y))


def test_invert_flips_every_bit():
    x = integers(8, 4, low=-50, high=50)
    np.testing.assert_array_equal(tile_of(nl.invert, x), ~x)


def test_a_bit_function_refuses_floats():
    with pytest.raises(
        nki.NkiValidationError, match=r"nl.bitwise_and: operand of float32.*view it as an integer"
    ):
        tile_of(nl.bitwise_and, normal(4, 4), normal(4, 4))


def test_tiles_do_not_broadcast():
    with pytest.raises(nki.NkiValidationError, match=r"\[4, 1\] do not broadcast.*nl.broadcast_to"):
        tile_of(nl.add, normal(4, 8), normal(4, 1))


def test_bfloat16_is_computed_in_float32_and_rounded_once():
    x = np.full((2, 2), 1.0, ml_dtypes.bfloat16)
    y = np.full((2, 2), 1 / 256, ml_dtypes.bfloat16)
    assert tile_of(lambda a, b: nl.add(a, b, dtype=nl.float32), x, y)[0, 0] == np.float32(1 + 1 / 256)
    assert tile_of(nl.add, x, y)[0, 0] == 1.0  # 1.00390625 lies half way and rounds to even


REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean, "prod": np.prod, "var": np.var}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_over_the_last_axes(name):
    x = normal(16, 3, 5)
    function = getattr(nl, name)
    np.testing.assert_allclose(
        tile_of(lambda t: function(t, axis=2, keepdims=True), x),
        REDUCTIONS[name](x, axis=2, keepdims=True),
        rtol=2e-5,
    )
    both = tile_of(lambda t: function(t, axis=(1, 2), keepdims=True), x)
    np.testing.assert_allclose(both, REDUCTIONS[name](x, axis=(1, 2), keepdims=True), rtol=1e-4)


def test_a_reduction_without_kept_axes_keeps_two_axes():
    assert tile_of(lambda t: nl.sum(t, axis=1), normal(16, 4)).shape == (16, 1)
    assert tile_of(lambda t: nl.sum(t, axis=2), normal(16, 3, 4)).shape == (16, 3)


def test_var_keeps_its_axes_anyway():
    assert tile_of(lambda t: nl.var(t, axis=2), normal(16, 3, 4)).shape == (16, 3, 1)


def test_a_reduction_refuses_the_partition_axis():
    with pytest.raises(nki.NkiValidationError, match=r"nl.sum: axis 0 of a tensor with 2 axes"):
        tile_of(lambda t: nl.sum(t, axis=0), normal(4, 4))


def test_all_is_one_where_no_element_is_zero():
    x = np.array([[1, 2, 3], [1, 0, 3]], np.float32)
    np.testing.assert_array_equal(tile_of(lambda t: nl.all(t, axis=1), x), [[1], [0]])


def test_softmax_sums_to_one():
    x = normal(32, 20)
    wanted = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tile_of(nl.softmax, x), wanted, rtol=1e-5)


def test_rms_norm_divides_by_the_root_of_the_mean_square():
    x, w = normal(8, 64), normal(8, 64, seed=3)
    wanted = x / np.sqrt((x**2).sum(axis=1, keepdims=True) / 64 + 1e-6) * w
    np.testing.assert_allclose(tile_of(lambda a, b: nl.rms_norm(a, b, axis=1, n=64), x, w), wanted, rtol=1e-5)


def test_where_chooses_by_the_condition():
    c, x, y = integers(8, 5, high=2).astype(np.float32), normal(8, 5), normal(8, 5, seed=1)
    np.testing.assert_array_equal(tile_of(nl.where, c, x, y), np.where(c != 0, x, y))
    np.testing.assert_array_equal(tile_of(lambda a, b: nl.where(a, b, 0.0), c, x), np.where(c != 0, x, 0))


@pytest.mark.parametrize(("rate", "zeros"), [(0.0, 0), (1.0, 64)])
def test_dropout_at_the_ends(rate, zeros):
    result = tile_of(lambda t: nl.dropout(t, rate), np.ones((8, 8), np.float32))
    assert np.count_nonzero(result == 0) == zeros


def test_filled_tensors():
    assert (tile_of(lambda: nl.zeros((4, 3), nl.bfloat16)) == 0).all()
    assert (tile_of(lambda: nl.ones((4, 3), nl.int32)) == 1).all()
    assert (tile_of(lambda: nl.full((4, 3), 2.5, nl.float16, buffer=nl.psum)) == 2.5).all()
    assert (tile_of(lambda t: nl.zeros_like(t, dtype=nl.uint8), normal(4, 3)).dtype) == np.uint8


@pytest.mark.filterwarnings("ignore::neuron_lab.nki.NkiWarning")
def test_an_unwritten_tensor_holds_the_sentinel():
    assert np.isnan(tile_of(lambda t: nl.empty_like(t), normal(4, 3))).all()
    assert (tile_of(lambda: nl.ndarray((4, 3), nl.int16)) == 4).all()


def test_rand_is_in_the_unit_interval_and_repeats_from_a_seed():
    def body(seed):
        nl.random_seed(seed)
        return nl.rand((16, 16), nl.float32)

    first = tile_of(body, np.array([[7]], np.uint32))
    assert 0 <= first.min() < first.max() < 1
    np.testing.assert_array_equal(first, tile_of(body, np.array([[7]], np.uint32)))
    assert (first != tile_of(body, np.array([[8]], np.uint32))).any()


def test_random_seed_refuses_a_number():
    with pytest.raises(nki.NkiValidationError, match="7 is no tile"):
        in_kernel(lambda: nl.random_seed(7))


def test_shared_constants(tmp_path):
    table = normal(4, 6)
    np.save(tmp_path / "table.npy", table)
    np.testing.assert_array_equal(tile_of(lambda: nl.load(nl.shared_constant(table))), table)
    np.testing.assert_array_equal(
        tile_of(lambda: nl.load(nl.shared_constant(str(tmp_path / "table.npy")))), table
    )


def test_the_identity_is_shared_per_size_and_dtype():
    def body():
        first = nl.shared_identity_matrix(8)
        assert nl.shared_identity_matrix(8) is first
        assert nl.shared_identity_matrix(8, nl.bfloat16) is not first
        return first

    np.testing.assert_array_equal(tile_of(body), np.eye(8, dtype=np.uint8))


def test_transposes():
    x = normal(24, 40)
    np.testing.assert_array_equal(tile_of(nl.transpose, x), x.T)

    def kernel(a):
        tile = nl.load_transpose2d(a)
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(x), x.T)


def test_matmul_contracts_the_partitions():
    x, y = normal(64, 32), normal(64, 100, seed=1)
    result = tile_of(lambda a, b: nl.matmul(a, b, transpose_x=True), x, y)
    np.testing.assert_allclose(result, x.T @ y, rtol=1e-4, atol=1e-5)


def test_matmul_without_transpose_simulates_with_a_finding():
    x, y = normal(32, 64), normal(64, 10, seed=1)
    with pytest.warns(nki.NkiWarning, match="real compiler refuses"):
        np.testing.assert_allclose(tile_of(nl.matmul, x, y), x @ y, rtol=1e-4, atol=1e-5)


def test_broadcast_to_spreads_over_free_axes_and_partitions():
    x, row = normal(8, 1), normal(1, 6)
    np.testing.assert_array_equal(tile_of(lambda t: nl.broadcast_to(t, (8, 6)), x), np.broadcast_to(x, (8, 6)))
    np.testing.assert_array_equal(
        tile_of(lambda t: nl.broadcast_to(t, (8, 6)), row), np.broadcast_to(row, (8, 6))
    )


def test_expand_dims_is_a_view():
    assert tile_of(lambda t: nl.expand_dims(t, 1), normal(4, 6)).shape == (4, 1, 6)


def test_gather_flattened():
    data, index = normal(8, 12), integers(8, 5, high=12, dtype=np.uint32)
    wanted = np.take_along_axis(data, index.astype(np.int64), axis=1)
    np.testing.assert_array_equal(tile_of(nl.gather_flattened, data, index), wanted)


def test_device_print_shows_prefix_and_value(capsys):
    tile_of(lambda t: (nl.device_print("x =", t), t)[1], np.full((1, 2), 3, np.float32))
    assert capsys.readouterr().out == "x = [[3. 3.]]\n"


def test_ranges_are_ranges():
    assert nl.affine_range(3) == nl.sequential_range(3) == nl.static_range(0, 3) == nl.range(3) == range(3)
    assert nl.affine_range(2, 8, 3) == range(2, 8, 3)


def test_a_device_loop_counts_with_a_frozen_register():
    def body():
        seen = []
        for i in nl.dynamic_range(2, 8, 3):
            seen.append(i.value)
            with pytest.raises(nki.NkiValidationError, match="induction register"):
                nisa.register_move(i, 1)
        assert seen == [2, 5]

    in_kernel(body)


def test_fori_loop_and_while_loop_run_the_body():
    def body(dst, src):
        nl.fori_loop(0, 3, lambda i: nisa.tensor_copy(dst[:, nl.ds(i, 1)], src[:, nl.ds(i, 1)]) and None)
        register = nisa.register_alloc(2)

        def step(r):
            nisa.tensor_scalar(dst, dst, nl.add, 1.0)
            return nisa.register_alloc(r.value - 1)

        nl.while_loop(register, step)

    x = normal(4, 3)
    np.testing.assert_array_equal(on_tiles(body, x), x + np.float32(1) + np.float32(1))


def test_a_device_loop_is_refused_in_an_order_block():
    def body():
        with nl.no_reorder():
            nl.fori_loop(0, 2, lambda i: None)

    with pytest.raises(nki.NkiValidationError, match=r"a device loop inside nl.no_reorder"):
        in_kernel(body)


def test_memory_questions():
    assert nl.is_hbm(nl.hbm)
    assert nl.is_hbm(nl.shared_hbm)
    assert nl.is_sbuf(nl.sbuf)
    assert nl.is_psum(nl.psum)
    assert nl.is_on_chip(nl.psum)
    assert not nl.is_on_chip(nl.hbm)


def test_the_grid_of_a_plain_call():
    def body():
        assert (nl.program_id(0), nl.num_programs(), nl.program_ndim()) == (0, 1, 0)

    in_kernel(body)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 128), st.integers(1, 64), st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]))
def test_copy_is_bit_exact(partitions, free, dtype):
    x = normal(partitions, free, seed=free, dtype=dtype)
    result = tile_of(nl.copy, x)
    assert result.dtype == x.dtype
    assert result.tobytes() == x.tobytes()
