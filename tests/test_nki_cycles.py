"""Documented cycles of single instructions and the time of single transfers, exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neuron_lab.hardware.chips import TRN1, TRN2
from neuron_lab.nki import isa as nisa
from neuron_lab.nki import jit
from neuron_lab.nki import language as nl
from neuron_lab.nki.run import Recorded
from neuron_lab.nki.timing.cycles import engine_cycles
from neuron_lab.nki.timing.transfers import transfer_of


def last_of(body: Callable[[], Any]) -> Recorded:
    """The last instruction of a kernel without arguments."""

    def kernel() -> None:
        body()

    log = jit(kernel).record().cores[0].log
    assert log is not None
    return log[-1]


def tile(n: int, dtype: Any = nl.float32, partitions: int = 128, buffer: Any = nl.sbuf) -> Any:
    made = nl.ndarray((partitions, n), dtype, buffer=buffer)
    if buffer is nl.sbuf:
        nisa.memset(made, 1)
    return made


def matmul(m: int, n: int, dtype: Any) -> None:
    nisa.nc_matmul(tile(n, partitions=m, buffer=nl.psum), tile(m, dtype), tile(n, dtype))


def pair(n: int, first: Any, second: Any, op: Any = nl.add) -> None:
    nisa.tensor_tensor(tile(n, first), tile(n, first), tile(n, second), op=op)


def product_in_psum(n: int) -> None:
    psum = tile(n, buffer=nl.psum)
    nisa.nc_matmul(psum, tile(128, nl.bfloat16), tile(n, nl.bfloat16))
    nisa.tensor_tensor(tile(n), tile(n), psum, op=nl.multiply)


def activation(n: int, reads_out: bool) -> None:
    extra: dict[str, Any] = {}
    if reads_out:
        extra = {"reduce_op": nl.add, "reduce_res": tile(1), "reduce_cmd": nisa.reduce_cmd.reset_reduce}
    nisa.activation(tile(n), op=nl.exp, data=tile(n), **extra)


def reduce(n: int, dtype: Any) -> None:
    nisa.tensor_reduce(tile(1, dtype), op=nl.maximum, data=tile(n, dtype), axis=1)


def scan(n: int) -> None:
    nisa.tensor_tensor_scan(tile(n), tile(n), tile(n), initial=0.0, op0=nl.multiply, op1=nl.add)


def strided_copy(n: int) -> None:
    nisa.tensor_copy(tile(n), tile(8 * n)[:, 0 : 8 * n : 8])


CYCLES = [
    ("matmul bf16 128x128x512", lambda: matmul(128, 512, nl.bfloat16), 2, 512),
    ("matmul float32 is four times slower", lambda: matmul(128, 512, nl.float32), 2, 2048),
    ("a small matmul takes 64", lambda: matmul(64, 16, nl.bfloat16), 2, 64),
    ("one row moving", lambda: matmul(128, 1, nl.bfloat16), 2, 64),
    ("tensor_tensor float32 2N", lambda: pair(512, nl.float32, nl.float32), 2, 1024),
    ("tensor_tensor bf16 N", lambda: pair(512, nl.bfloat16, nl.bfloat16), 2, 512),
    ("tensor_tensor with one side in PSUM N", lambda: product_in_psum(512), 2, 512),
    ("activation N", lambda: activation(512, False), 2, 512),
    ("activation with readout N + 64", lambda: activation(512, True), 2, 576),
    ("activation of one element 64", lambda: activation(1, False), 2, 64),
    ("reduce float32 N", lambda: reduce(512, nl.float32), 2, 512),
    ("reduce bf16 N/2", lambda: reduce(512, nl.bfloat16), 2, 256),
    ("scan 2N", lambda: scan(512), 2, 1024),
    ("reciprocal 8N", lambda: nisa.reciprocal(tile(100), tile(100)), 2, 800),
    ("copy float32 N", lambda: nisa.tensor_copy(tile(512), tile(512)), 3, 512),
    ("copy bf16 on v2 N", lambda: nisa.tensor_copy(tile(512, nl.bfloat16), tile(512, nl.bfloat16)), 2, 512),
    ("copy bf16 on v3 N/4", lambda: nisa.tensor_copy(tile(512, nl.bfloat16), tile(512, nl.bfloat16)), 3, 128),
    ("zeroes bf16 N/2", lambda: nisa.memset(nl.ndarray((128, 512), nl.bfloat16), 0), 2, 256),
    ("far strides take twice as long", lambda: strided_copy(100), 2, 200),
    ("iota 150 + N", lambda: nisa.iota(nl.ndarray((128, 64), nl.int32), [[1, 64]], 0), 2, 214),
]


@pytest.mark.parametrize(
    ("body", "generation", "wanted"), [row[1:] for row in CYCLES], ids=[r[0] for r in CYCLES]
)
def test_an_instruction_takes_its_documented_cycles(body: Any, generation: int, wanted: int) -> None:
    assert engine_cycles(last_of(body), generation) == wanted


def transfer(shape: tuple[int, int], dtype: Any, **facts: Any) -> Any:
    def kernel(x: Any) -> None:
        nl.load(x)

    x = np.ones(shape, np.float32)
    log = jit(kernel).record(x).cores[0].log
    assert log is not None
    return transfer_of(log[-1], TRN2)


def test_a_transfer_of_128_partitions_takes_all_sixteen_engines_with_eight_rows_each() -> None:
    found = transfer((128, 1024), nl.float32)
    assert (found.engines, found.descriptors, found.row_bytes, found.size_bytes) == (16, 128, 4096, 524_288)
    assert found.engine_ns(23, 2430) == 8 * 4096 / 23


def test_four_rows_of_8_kib_take_the_measured_1416_ns_on_one_engine() -> None:
    found = transfer((4, 2048), nl.float32)
    assert found.engines == 1
    assert round(found.engine_ns(TRN2.dma_rate_achieved.value, 2430)) == 1425  # documented: 1416 at 23 B/ns


def test_short_rows_take_as_long_as_rows_of_full_rate() -> None:
    assert transfer((128, 64), nl.float32).engine_ns(23, 2430) == 8 * 2430 / 23


def test_half_the_rate_for_dma_transpose_within_sbuf_and_nine_tenths_from_hbm() -> None:
    def kernel(x: Any) -> None:
        turned = nl.ndarray((128, 128), x.dtype)
        nisa.dma_transpose(turned, x)

    import ml_dtypes

    log = jit(kernel).record(np.ones((128, 128), ml_dtypes.bfloat16)).cores[0].log
    assert log is not None
    assert transfer_of(log[-1], TRN1).share == 0.9
