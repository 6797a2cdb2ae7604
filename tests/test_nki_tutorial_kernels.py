"""Whole kernels in the style of the public tutorials, with every argument named, against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from nki_kernels import normal

from neuron_lab import nki
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import language as nl

pytestmark = pytest.mark.filterwarnings("error::neuron_lab.nki.NkiWarning")


@nki.jit
def average_pool(image, size):
    """Channels on partitions; windows by an access pattern with two more axes."""
    channels, height, width = image.shape
    out = nl.ndarray((channels, height // size, width // size), image.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(image.shape, image.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=image)
    windows = tile.ap(
        pattern=[
            [height * width, channels],
            [size * width, height // size],
            [size, width // size],
            [width, size],
            [1, size],
        ]
    )
    pooled = nl.ndarray(out.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=pooled, op=nl.add, data=windows, axis=[3, 4])
    nisa.tensor_scalar(dst=pooled, data=pooled, op0=nl.multiply, operand0=1.0 / (size * size))
    nisa.dma_copy(dst=out, src=pooled)
    return out


def test_average_pool():
    x = normal(16, 12, 20)
    wanted = x.reshape(16, 6, 2, 10, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(average_pool(x, 2), wanted, rtol=1e-5, atol=1e-6)


@nki.jit
def transpose_free(a, rows, columns):
    """Swap two free axes by one strided copy."""
    out = nl.ndarray((a.shape[0], columns * rows), a.dtype, buffer=nl.shared_hbm)
    tile, turned = nl.load(a), nl.ndarray((a.shape[0], columns, rows), a.dtype)
    nisa.tensor_copy(dst=turned, src=tile.reshape((a.shape[0], rows, columns)).permute((0, 2, 1)))
    nisa.dma_copy(dst=out, src=turned)
    return out


def test_transpose_of_free_axes():
    x = normal(32, 6 * 5)
    wanted = x.reshape(32, 6, 5).transpose(0, 2, 1).reshape(32, 30)
    np.testing.assert_array_equal(transpose_free(x, 6, 5), wanted)


@nki.jit
def rms_norm(x, weight):
    """Rows on partitions in tiles of 128; the sum of squares comes out of the scalar engine's register."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    scale = nl.broadcast_to(nl.load(weight), (nl.tile_size.pmax, columns))
    for start in nl.affine_range(0, rows, nl.tile_size.pmax):
        count = min(nl.tile_size.pmax, rows - start)
        tile = nl.load(x[start : start + count])
        squares = nl.ndarray((count, columns), nl.float32)
        total = nl.ndarray((count, 1), nl.float32)
        nisa.activation(
            dst=squares,
            op=nl.square,
            data=tile,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        factor = nl.ndarray((count, 1), nl.float32)
        nisa.activation(dst=factor, op=nl.rsqrt, data=total, bias=1e-6, scale=1.0 / columns)
        normed = nl.ndarray((count, columns), x.dtype)
        nisa.scalar_tensor_tensor(
            dst=normed, data=tile, op0=nl.multiply, operand0=factor, op1=nl.multiply, operand1=scale[0:count]
        )
        nisa.dma_copy(dst=out[start : start + count], src=normed)
    return out


def test_rms_norm_with_a_last_tile_that_is_not_full():
    x, weight = normal(300, 64), normal(1, 64, seed=1)
    wanted = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(rms_norm(x, weight), wanted, rtol=1e-5, atol=1e-6)


@nki.jit
def attention(q, k, v):
    """One head: scores on the tensor engine, softmax by rows, the product through a transpose."""
    length = q.shape[1]
    out = nl.ndarray((length, v.shape[1]), nl.float32, buffer=nl.shared_hbm)
    scores = nl.ndarray((length, length), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=nl.load(q), moving=nl.load(k))
    largest = nl.ndarray((length, 1), nl.float32)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
    weights, total = nl.ndarray((length, length), nl.bfloat16), nl.ndarray((length, 1), nl.float32)
    nisa.activation_reduce(
        dst=weights, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=total, bias=largest, scale=1.0
    )
    turned = nl.ndarray((length, length), nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=weights)
    product = nl.ndarray((length, v.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=nl.copy(turned), moving=nl.load(v))
    result, inverse = nl.ndarray(out.shape, nl.float32), nl.ndarray((length, 1), nl.float32)
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=result, data=product, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_attention_of_one_head():
    q, k = normal(64, 128) / 8, normal(64, 128, seed=1)
    v = normal(128, 64, seed=2, dtype=ml_dtypes.bfloat16)
    scores = q.T @ k
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = weights @ v.astype(np.float32) / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(attention(q, k, v), wanted, atol=0.01)


@nki.jit
def matmul(left_t, right):
    """Two SBUF buffers for the right side, placed by hand and used in turn; one PSUM bank per row tile."""
    depth, rows = left_t.shape
    columns = right.shape[1]
    out = nl.ndarray((rows, columns), left_t.dtype, buffer=nl.shared_hbm)
    step = columns * right.dtype.itemsize
    for m in range(rows // 128):
        total = nl.ndarray((128, columns), nl.float32, buffer=nl.psum, address=(0, m % 8 * 2048))
        for k in range(depth // 128):
            moving = nl.ndarray((128, columns), right.dtype, address=(0, k % 2 * step))
            nisa.dma_copy(dst=moving, src=right[nl.ds(128 * k, 128)])
            stationary = nl.load(left_t[128 * k : 128 * k + 128, 128 * m : 128 * m + 128])
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moving, accumulate=k > 0)
        nl.store(out[nl.ds(128 * m, 128)], nl.copy(total, dtype=left_t.dtype))
    return out


def test_matmul_with_placed_double_buffers():
    left, right = (normal(512, n, seed=n, dtype=ml_dtypes.bfloat16) for n in (256, 512))
    wanted = left.astype(np.float32).T @ right.astype(np.float32)
    np.testing.assert_allclose(matmul(left, right).astype(np.float32), wanted, rtol=0.01, atol=0.05)


@nki.jit
def selective_scan(decay, drive, mix):
    """The recurrence of a state-space layer in one instruction, then the output mix."""
    out = nl.ndarray(decay.shape, decay.dtype, buffer=nl.shared_hbm)
    state = nl.ndarray(decay.shape, nl.float32)
    nisa.tensor_tensor_scan(
        dst=state, data0=nl.load(decay), data1=nl.load(drive), initial=0.0, op0=nl.multiply, op1=nl.add
    )
    mixed = nl.ndarray(decay.shape, nl.float32)
    nisa.tensor_tensor(dst=mixed, data1=state, data2=nl.load(mix), op=nl.multiply)
    nisa.dma_copy(dst=out, src=mixed)
    return out


def test_selective_scan():
    decay, drive, mix = np.abs(normal(64, 50)) / 3, normal(64, 50, seed=1), normal(64, 50, seed=2)
    state = np.zeros(64, np.float32)
    wanted = np.empty_like(decay)
    for i in range(50):
        state = decay[:, i] * state + drive[:, i]
        wanted[:, i] = state * mix[:, i]
    np.testing.assert_allclose(selective_scan(decay, drive, mix), wanted, rtol=1e-5, atol=1e-6)
