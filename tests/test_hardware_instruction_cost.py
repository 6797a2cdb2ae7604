"""Documented instruction times, exactly."""

import pytest

from neuron_lab.hardware.chips import TRN1, TRN2
from neuron_lab.hardware.instruction_cost import (
    CHAIN_CYCLES,
    activation_cycles,
    dma_share_of_full_rate,
    dma_transfer_ns,
    iota_cycles,
    load_stationary_cycles,
    matmul_cycles,
    one_input_cycles,
    reciprocal_cycles,
    reduce_cycles,
    scan_cycles,
    top_k_cycles,
    two_input_cycles,
)


def test_a_step_of_128_by_128_by_512_is_512_cycles() -> None:
    assert matmul_cycles(128, 512) == 512


def test_float32_products_take_four_times_as_long() -> None:
    assert matmul_cycles(128, 512, "float32") == 2048


def test_a_vector_as_moving_operand_takes_64_cycles_and_as_stationary_128() -> None:
    assert (matmul_cycles(128, 1), matmul_cycles(1, 128)) == (64, 128)


def test_loading_128_stationary_columns_takes_32_cycles() -> None:
    assert load_stationary_cycles(128) == 32


def test_a_chain_of_dependent_scalar_instructions_takes_189_ns_each() -> None:
    assert round(CHAIN_CYCLES / TRN1.scalar_clock.value) == 189


def test_no_instruction_is_shorter_than_64_cycles() -> None:
    assert [
        one_input_cycles(1),
        two_input_cycles(1),
        scan_cycles(1),
        reduce_cycles(1),
        activation_cycles(1),
    ] == [64] * 5


def test_two_inputs_take_twice_as_long_unless_fast() -> None:
    assert (two_input_cycles(512), two_input_cycles(512, fast=True)) == (1024, 512)


@pytest.mark.parametrize(
    ("cycles", "expected"),
    [
        (activation_cycles(512, reads_out=True), 576),
        (reciprocal_cycles(100), 800),
        (reciprocal_cycles(100, "scalar"), 100),
        (top_k_cycles(100, 8), 408),
        (iota_cycles(64), 214),
        (reduce_cycles(512, fast=True), 256),
    ],
)
def test_formulas_of_the_api_pages(cycles: int, expected: int) -> None:
    assert cycles == expected


def test_four_rows_of_8_kib_take_the_measured_1416_ns() -> None:
    assert dma_transfer_ns(4, 8192, TRN2) == pytest.approx(1416, rel=0.01)


# share of the plateau at so many bytes per partition, read off the published curve
@pytest.mark.parametrize(
    ("row_bytes", "percent"),
    [(32, 1.4), (64, 2.6), (128, 5), (256, 10), (512, 21), (1024, 42), (2048, 81), (4096, 97), (16384, 99)],
)
def test_the_descriptor_curve_is_within_four_points_of_the_published_one(
    row_bytes: int, percent: float
) -> None:
    assert abs(100 * dma_share_of_full_rate(row_bytes, TRN2) - percent) < 4
