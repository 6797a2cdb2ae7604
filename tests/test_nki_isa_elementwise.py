"""Vector, scalar and GpSimd arithmetic instructions against numpy, element by element."""

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

ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.fixture
def trn3(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")


@pytest.mark.parametrize("name", ARITHMETIC)
def test_tensor_tensor(name):
    for shape in [(1, 1), (128, 33), (40, 2, 7)]:
        x, y = normal(*shape), normal(*shape, seed=1)
        result = on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, getattr(nl, name)), x, y)
        np.testing.assert_array_equal(result, ARITHMETIC[name](x, y).astype(np.float32))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 128),
    st.integers(1, 40),
    st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int32]),
    st.sampled_from([np.float32, ml_dtypes.bfloat16, np.int16, np.uint8]),
)
def test_tensor_tensor_computes_in_float32_and_casts_once(partitions, free, kind, out):
    x, y = normal(partitions, free) * 40, normal(partitions, free, seed=2) * 40
    x, y = x.astype(kind), y.astype(kind)
    result = on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add), x, y, dtype=np.dtype(out))
    exact = x.astype(np.float32) + y.astype(np.float32)
    if np.dtype(out).kind in "iu":
        limits = np.iinfo(out)
        exact = np.clip(np.rint(exact), limits.min, limits.max)
    np.testing.assert_array_equal(result, exact.astype(out))


def test_32_bit_integers_are_exact_on_gpsimd_and_rounded_on_vector():
    x = np.array([[2**24 + 1, 2**31 - 1]], np.int32)
    one = np.ones_like(x)
    native = on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add), x, one)
    assert native.tolist() == [[2**24 + 2, -(2**31)]]
    rounded = on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add, engine=nisa.engine.vector), x, one)
    assert rounded.tolist() == [[2**24, 2**31 - 1]]


def test_power_runs_on_gpsimd_only():
    x, y = np.abs(normal(4, 4)), normal(4, 4)
    np.testing.assert_allclose(
        on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.power), x, y), x**y, rtol=1e-6
    )
    with pytest.raises(nki.NkiValidationError, match=r"nl.power runs on GpSimd"):
        on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.power, engine=nisa.engine.vector), x, y)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_tensor_tensor_on_bits(name):
    x, y = integers(16, 5, high=255, dtype=np.uint8), integers(16, 5, high=255, seed=1, dtype=np.uint8)
    result = on_tiles(lambda d, a, b: nisa.tensor_tensor(d, a, b, getattr(nl, name)), x, y)
    np.testing.assert_array_equal(result, getattr(np, name)(x, y))


def test_right_shift_is_logical():
    x = np.full((1, 2), -8, np.int32)
    result = on_tiles(lambda d, a: nisa.tensor_scalar(d, a, nl.right_shift, 1), x)
    assert result[0, 0] == 2**31 - 4


@pytest.mark.parametrize("first", ["add", "multiply", "maximum", "subtract", "less"])
@pytest.mark.parametrize("second", ["add", "multiply", "minimum"])
def test_tensor_scalar_chains_two_operators(first, second):
    x, column = normal(64, 20), normal(64, 1, seed=4)
    f, g = ARITHMETIC[first], ARITHMETIC[second]

    def body(dst, data, operand):
        nisa.tensor_scalar(dst, data, getattr(nl, first), 0.75, op1=getattr(nl, second), operand1=operand)

    wanted = g(f(x, np.float32(0.75)).astype(np.float32), column)
    np.testing.assert_array_equal(on_tiles(body, x, column), wanted)


def test_tensor_scalar_reverses_each_side():
    x = normal(8, 8)

    def body(dst, data):
        nisa.tensor_scalar(
            dst, data, nl.subtract, 2.0, reverse0=True, op1=nl.subtract, operand1=5.0, reverse1=True
        )

    np.testing.assert_array_equal(on_tiles(body, x), np.float32(5) - (np.float32(2) - x))


@pytest.mark.parametrize(
    ("name", "reference"),
    [("abs", np.abs), ("rsqrt", lambda x: 1 / np.sqrt(x)), ("reciprocal", lambda x: 1 / x)],
)
def test_tensor_scalar_takes_unary_operators(name, reference):
    x = np.abs(normal(8, 8)) + np.float32(0.5)
    result = on_tiles(lambda d, a: nisa.tensor_scalar(d, a, getattr(nl, name), None), x)
    np.testing.assert_allclose(result, reference(x), rtol=1e-6)


def test_tensor_scalar_refuses_mixed_classes_and_narrow_operands():
    x, column = normal(8, 8), normal(8, 1, dtype=ml_dtypes.bfloat16)
    with pytest.raises(nki.NkiValidationError, match="arithmetic and bit-pattern operators do not mix"):
        on_tiles(lambda d, a: nisa.tensor_scalar(d, a, nl.add, 1.0, op1=nl.bitwise_and, operand1=1), x)
    with pytest.raises(nki.NkiValidationError, match="an operand tensor of bfloat16"):
        on_tiles(lambda d, a, c: nisa.tensor_scalar(d, a, nl.add, c), x, column)


def test_the_scalar_engine_of_trn2_only_multiplies_and_adds():
    x = normal(8, 8)
    scalar = nisa.engine.scalar
    result = on_tiles(
        lambda d, a: nisa.tensor_scalar(d, a, nl.multiply, 2.0, op1=nl.add, operand1=1.0, engine=scalar), x
    )
    np.testing.assert_array_equal(result, x * 2 + 1)
    with pytest.raises(nki.NkiValidationError, match="on the scalar engine of trn2"):
        on_tiles(lambda d, a: nisa.tensor_scalar(d, a, nl.maximum, 2.0, engine=scalar), x)


def test_operators_of_trn3(trn3):
    x = normal(8, 8)
    np.testing.assert_array_equal(on_tiles(lambda d, a: nisa.tensor_scalar(d, a, nl.square, None), x), x * x)
    result = on_tiles(lambda d, a: nisa.tensor_scalar(d, a, nl.abs_max, 0.5), x)
    np.testing.assert_array_equal(result, np.where(np.abs(x) > 0.5, x, np.float32(0.5)))


def test_scalar_tensor_tensor():
    x, y, c = normal(32, 9), normal(32, 9, seed=1), normal(32, 1, seed=2)

    def body(dst, a, b, column):
        nisa.scalar_tensor_tensor(dst, a, nl.subtract, column, nl.multiply, b, reverse0=True)

    np.testing.assert_array_equal(on_tiles(body, x, y, c), (c - x) * y)


def test_reciprocal():
    x = normal(16, 5)
    np.testing.assert_array_equal(on_tiles(nisa.reciprocal, x), np.float32(1) / x)


REDUCERS = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}


@pytest.mark.parametrize("name", REDUCERS)
def test_tensor_scalar_reduce(name):
    x = normal(16, 6)

    def body(dst, a):
        scratch = nl.ndarray(a.shape, nl.float32)
        nisa.tensor_scalar_reduce(scratch, a, nl.add, 1.0, getattr(nl, name), reduce_res=dst)

    wanted = REDUCERS[name](x + 1, axis=1, keepdims=True)
    np.testing.assert_allclose(on_tiles(body, x, shape=(16, 1)), wanted, rtol=1e-5, atol=1e-6)


def test_reduce_continues_what_reset_reduce_began_and_negates_only_the_readout():
    x = np.ones((4, 8), np.float32)

    def body(dst, a):
        scratch = nl.ndarray(a.shape, nl.float32)
        nisa.tensor_scalar_reduce(scratch, a, nl.add, 0.0, nl.add, reduce_res=dst, reduce_res_negate=True)
        more = nisa.reduce_cmd.reduce
        nisa.tensor_scalar_reduce(scratch, a, nl.add, 0.0, nl.add, reduce_res=dst, reduce_cmd=more)

    np.testing.assert_array_equal(on_tiles(body, x, shape=(4, 1)), np.full((4, 1), 16))


def test_load_reduce_starts_from_the_given_value():
    x = np.ones((4, 8), np.float32)

    def body(dst, a):
        scratch = nl.ndarray(a.shape, nl.float32)
        load = nisa.reduce_cmd.load_reduce
        nisa.tensor_scalar_reduce(scratch, a, nl.add, 0.0, nl.add, dst, reduce_cmd=load, reduce_init=100.0)

    np.testing.assert_array_equal(on_tiles(body, x, shape=(4, 1)), np.full((4, 1), 108))


def test_a_reduce_after_idle_is_reported(trn3):
    x = np.ones((4, 8), np.float32)

    def body(dst, a):
        nisa.exponential(dst, a)
        nisa.tensor_scalar_reduce(dst, a, nl.add, 0.0, nl.add, reduce_cmd=nisa.reduce_cmd.reduce)

    with pytest.warns(nki.NkiWarning, match="keep reductions together"):
        on_tiles(body, x)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_tensor_scalar_cumulative(name):
    x = normal(8, 12)
    ufunc = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}[name]
    result = on_tiles(lambda d, a: nisa.tensor_scalar_cumulative(d, a, nl.multiply, getattr(nl, name), 2.0), x)
    np.testing.assert_allclose(result, ufunc.accumulate(x * 2, axis=1), rtol=1e-5, atol=1e-6)


def test_a_cumulative_difference_runs_step_by_step_from_its_start():
    x = np.array([[1, 2, 3]], np.float32)
    load = nisa.reduce_cmd.load_reduce
    result = on_tiles(
        lambda d, a: nisa.tensor_scalar_cumulative(
            d, a, nl.bypass, nl.subtract, 0.0, imm1=10.0, reduce_cmd=load
        ),
        x,
    )
    assert result.tolist() == [[-9, 11, -8]]


def test_tensor_tensor_scan_is_a_recurrence():
    a, b, start = normal(16, 10), normal(16, 10, seed=1), normal(16, 1, seed=2)
    state, wanted = start[:, 0], np.empty_like(a)
    for i in range(10):
        state = wanted[:, i] = a[:, i] * state + b[:, i]
    result = on_tiles(lambda d, x, y, s: nisa.tensor_tensor_scan(d, x, y, s, nl.multiply, nl.add), a, b, start)
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 128), st.integers(1, 30), st.floats(0.25, 4), st.booleans())
def test_activation_scales_shifts_and_sums(partitions, free, scale, with_bias):
    x, bias = normal(partitions, free), normal(partitions, 1, seed=5)

    def body(dst, data, column):
        whole = nl.ndarray(data.shape, nl.bfloat16)
        nisa.activation(
            whole,
            nl.tanh,
            data,
            bias=column if with_bias else None,
            scale=scale,
            reduce_op=nl.add,
            reduce_res=dst,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )

    exact = np.tanh(x * np.float32(scale) + (bias if with_bias else np.float32(0)))
    result = on_tiles(body, x, bias, shape=(partitions, 1))
    np.testing.assert_allclose(result, exact.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::neuron_lab.nki.NkiWarning")
def test_the_sine_table_extrapolates_its_cubic():
    x = np.array([[9.0, -9.0, 1.0]], np.float32)
    result = on_tiles(lambda d, a: nisa.activation(d, nl.sin, a), x)
    np.testing.assert_allclose(result, [[27.65, -27.65, np.sin(1.0)]], rtol=1e-3)


@pytest.mark.parametrize("name", ["exp", "copy", "square", "sqrt", "gelu", "silu", "sigmoid", "abs", "sign"])
def test_activation_uses_the_table(name):
    x = np.abs(normal(8, 8))
    result = on_tiles(lambda d, a: nisa.activation(d, getattr(nl, name), a), x)
    np.testing.assert_array_equal(result, nki_tile(name, x))


def nki_tile(name, x):
    from neuron_lab.nki.activations import TABLE

    return TABLE[name](x)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("sin", 3.14, 3.15), ("log", 2.0**-64, 2.0**-65), ("arctan", 1.57, -1.58), ("reciprocal", 1e12, 1e13)],
)
def test_an_input_outside_the_documented_range_is_reported(name, good, bad):
    def run(value):
        on_tiles(lambda d, a: nisa.activation(d, getattr(nl, name), a), np.full((2, 2), value, np.float32))

    run(good)
    assert nki.last_run().ok
    with pytest.warns(nki.NkiWarning, match="outside the documented magnitudes"):
        run(bad)


def test_activation_refuses_what_is_not_in_the_table():
    with pytest.raises(nki.NkiValidationError, match=r"nisa.activation: op=nl.maximum is not taken"):
        on_tiles(lambda d, a: nisa.activation(d, nl.maximum, a), normal(4, 4))


def test_a_number_as_bias_needs_trn2(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    with pytest.raises(nki.NkiValidationError, match="a number as bias needs NeuronCore-v3"):
        on_tiles(lambda d, a: nisa.activation(d, nl.exp, a, bias=1.0), normal(4, 4))


def test_activation_reduce_sums_the_float32_results():
    x = normal(8, 16)

    def body(dst, a):
        low = nl.ndarray(a.shape, nl.bfloat16)
        nisa.activation_reduce(low, nl.square, a, nl.add, dst)

    result = on_tiles(body, x, shape=(8, 1))
    np.testing.assert_allclose(result, (x * x).sum(axis=1, keepdims=True), rtol=1e-6)


def test_activate2_is_for_trn3():
    with pytest.raises(nki.NkiValidationError, match=r"nisa.activate2: needs NeuronCore-v4 \(trn3\).*trn2"):
        on_tiles(lambda d, a: nisa.activate2(d, nl.exp, a, 1.0, 0.0, nl.multiply, nl.add), normal(4, 4))


def test_activate2(trn3):
    x = normal(8, 6)

    def body(dst, a):
        nisa.activate2(dst, nl.prelu, a, 2.0, 1.0, nl.multiply, nl.subtract, relu_param=0.25)

    inner = x * 2 - 1
    np.testing.assert_array_equal(on_tiles(body, x), np.where(inner > 0, inner, inner * np.float32(0.25)))


def test_exponential(trn3):
    x = normal(8, 6)

    def body(dst, a):
        scratch = nl.ndarray(a.shape, nl.float32)
        top = nl.max(a, axis=1, keepdims=True)
        nisa.exponential(scratch, a, top, reduce_res=dst, reduce_cmd=nisa.reduce_cmd.reset_reduce)

    wanted = np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(on_tiles(body, x, shape=(8, 1)), wanted, rtol=1e-6)
