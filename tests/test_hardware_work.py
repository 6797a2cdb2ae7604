"""Flops, element operations and bytes of single operators."""

from dataclasses import dataclass

import pytest

from neuron_lab.hardware.operator_kinds import base_name, is_in_place
from neuron_lab.hardware.work import Work, item_bytes, work_of


@dataclass(frozen=True)
class Spec:
    dtype: str
    shape: tuple[int, ...]


def _f32(*shapes: tuple[int, ...]) -> tuple[Spec, ...]:
    return tuple(Spec("float32", shape) for shape in shapes)


def _bf16(*shapes: tuple[int, ...]) -> tuple[Spec, ...]:
    return tuple(Spec("bfloat16", shape) for shape in shapes)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("aten::add_.Tensor", "add"),
        ("aten::mm", "mm"),
        ("aten::__and__.Scalar", "__and__"),
        ("aten::_foreach_mul_.ScalarList", "mul"),
        ("aten::_to_copy", "_to_copy"),
        ("mine::mm", "mine::mm"),
    ],
)
def test_base_name_drops_namespace_overload_and_in_place_mark(op: str, name: str) -> None:
    assert base_name(op) == name


def test_an_in_place_operator_is_told_by_its_underscore() -> None:
    assert (
        is_in_place("aten::add_.Tensor"),
        is_in_place("aten::add.Tensor"),
        is_in_place("aten::__and__"),
    ) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("bfloat16", 2), ("int64", 8), ("bool", 1), ("float8_e4m3fn", 1), ("complex64", 8)],
)
def test_bytes_per_element(dtype: str, size: int) -> None:
    assert item_bytes(dtype) == size


def test_matrix_multiplication() -> None:
    assert work_of("aten::mm", _f32((256, 128), (128, 512)), _f32((256, 512))) == Work(
        kind="matmul",
        engine="tensor",
        dtype="float32",
        flops=2 * 256 * 128 * 512,
        tensor_cycles=2 * 512,
        read_bytes=4 * (256 * 128 + 128 * 512),
        write_bytes=4 * 256 * 512,
    )


def test_a_published_128_128_512_step_takes_512_cycles() -> None:
    assert work_of("aten::mm", _bf16((128, 128), (128, 512)), _bf16((128, 512))).tensor_cycles == 512


def test_a_published_row_times_matrix_takes_64_cycles_a_step() -> None:
    assert work_of("aten::mm", _bf16((1, 128), (128, 128)), _bf16((1, 128))).tensor_cycles == 64


def test_bias_is_read_but_not_multiplied() -> None:
    work = work_of("aten::addmm", _f32((4,), (2, 3), (3, 4)), _f32((2, 4)))
    assert (work.flops, work.read_bytes) == (2 * 2 * 3 * 4, 4 * (4 + 6 + 12))


@pytest.mark.parametrize(
    ("op", "inputs", "output", "flops"),
    [
        ("aten::bmm", ((5, 2, 3), (5, 3, 4)), (5, 2, 4), 2 * 5 * 2 * 3 * 4),
        ("aten::baddbmm", ((5, 2, 4), (5, 2, 3), (5, 3, 4)), (5, 2, 4), 2 * 5 * 2 * 3 * 4),
        ("aten::linear", ((5, 2, 3), (4, 3), (4,)), (5, 2, 4), 2 * 10 * 3 * 4),
        ("aten::linear_backward", ((5, 3), (5, 4), (4, 3)), (5, 3), 2 * (2 * 5 * 3 * 4)),
        ("aten::matmul", ((5, 2, 3), (3, 4)), (5, 2, 4), 2 * 5 * 2 * 3 * 4),
        ("aten::mv", ((2, 3), (3,)), (2,), 2 * 2 * 3),
        ("aten::dot", ((3,), (3,)), (), 2 * 3),
        ("aten::_grouped_mm", ((6, 3), (2, 3, 4)), (6, 4), 2 * 6 * 3 * 4),
        ("aten::convolution", ((1, 3, 8, 8), (16, 3, 3, 3)), (1, 16, 6, 6), 2 * 16 * 36 * 27),
    ],
)
def test_flops_of_the_matmul_family(
    op: str, inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...], flops: int
) -> None:
    assert work_of(op, _f32(*inputs), _f32(output)).flops == flops


def test_a_transposed_convolution_counts_by_its_input() -> None:
    work = work_of("aten::convolution", _f32((1, 16, 6, 6), (16, 3, 3, 3)), _f32((1, 3, 8, 8)))
    assert work.flops == 2 * 16 * 36 * 27


def test_convolution_backward_makes_two_products() -> None:
    inputs = _f32((1, 16, 6, 6), (1, 3, 8, 8), (16, 3, 3, 3))
    assert work_of("aten::convolution_backward", inputs, _f32((1, 3, 8, 8))).flops == 2 * (2 * 16 * 36 * 27)


def test_attention_multiplies_twice_and_takes_a_softmax() -> None:
    work = work_of(
        "aten::_scaled_dot_product_fused_attention_overrideable",
        _bf16((1, 9, 7, 64), (1, 3, 32, 64), (1, 3, 32, 64)),
        _bf16((1, 9, 7, 64)),
    )
    pairs = 9 * 7 * 32
    assert (work.flops, work.vector_elements, work.scalar_elements) == (2 * pairs * 128, 2 * pairs, pairs)


def test_attention_backward_makes_five_products() -> None:
    work = work_of(
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
        _bf16((1, 1, 8, 64), (1, 1, 8, 64), (1, 1, 8, 64), (1, 1, 8, 64)),
        _bf16((1, 1, 8, 64)),
    )
    assert work.flops == 5 * (8 * 8 * 128)


@pytest.mark.parametrize(
    "op", ["aten::view", "aten::t", "aten::expand", "aten::empty.memory_format", "aten::detach"]
)
def test_views_and_allocations_are_no_work(op: str) -> None:
    assert work_of(op, _f32((2, 3)), _f32((2, 3))).is_none


def test_addition_takes_one_vector_pass() -> None:
    assert work_of("aten::add.Tensor", _f32((2, 3), (3,)), _f32((2, 3))) == Work(
        kind="elementwise",
        engine="vector",
        dtype="float32",
        vector_elements=6,
        read_bytes=4 * 9,
        write_bytes=4 * 6,
    )


def test_an_exponential_runs_on_the_scalar_engine() -> None:
    work = work_of("aten::exp", _f32((2, 3)), _f32((2, 3)))
    assert (work.engine, work.scalar_elements, work.vector_elements) == ("scalar", 6, 0)


def test_a_foreach_operator_counts_every_tensor() -> None:
    work = work_of("aten::_foreach_add_.List", _f32((4,), (6,), (4,), (6,)), _f32((4,), (6,)))
    assert work.vector_elements == 10


def test_a_reduction_counts_its_input() -> None:
    work = work_of("aten::sum.dim_IntList", _f32((8, 16)), _f32((8,)))
    assert (work.kind, work.vector_elements, work.read_bytes, work.write_bytes) == ("reduction", 128, 512, 32)


def test_softmax_takes_two_vector_passes_and_an_exponential() -> None:
    work = work_of("aten::_softmax", _f32((8, 16)), _f32((8, 16)))
    assert (work.vector_elements, work.scalar_elements) == (256, 128)


def test_a_copy_moves_bytes_only() -> None:
    assert work_of("aten::cat", _f32((2, 3), (4, 3)), _f32((6, 3))) == Work(
        kind="copy", engine="dma", dtype="float32", read_bytes=72, write_bytes=72
    )


def test_the_copying_form_of_a_view_is_a_copy() -> None:
    assert work_of("aten::slice_copy.Tensor", _f32((8,)), _f32((2,))).kind == "copy"


def test_a_copy_into_a_tensor_does_not_read_it() -> None:
    work = work_of("aten::copy_", (*_f32((2, 3)), *_bf16((2, 3))), _f32((2, 3)))
    assert (work.read_bytes, work.write_bytes) == (12, 24)


def test_an_out_variant_does_not_read_its_output() -> None:
    work = work_of("aten::mm.out", _f32((2, 3), (3, 4), (2, 4)), _f32((2, 4)))
    assert work.read_bytes == 4 * (6 + 12)


def test_a_fill_writes_only() -> None:
    work = work_of("aten::zero_", _f32((2, 3)), _f32((2, 3)))
    assert (work.kind, work.read_bytes, work.write_bytes) == ("fill", 0, 24)


def test_an_embedding_reads_the_rows_it_picks() -> None:
    work = work_of("aten::embedding", (*_bf16((49152, 576)), Spec("int64", (1, 5))), _bf16((1, 5, 576)))
    assert (work.kind, work.read_bytes) == ("gather", 5 * 576 * 2 + 5 * 8)


def test_a_scatter_in_place_moves_the_new_values_only() -> None:
    inputs = (*_bf16((1, 3, 256, 64)), Spec("int64", (1,)), *_bf16((1, 3, 1, 64)))
    work = work_of("aten::index_copy_", inputs, _bf16((1, 3, 256, 64)))
    assert (work.read_bytes, work.write_bytes) == (8 + 384, 384)


def test_a_scatter_out_of_place_copies_the_whole_tensor() -> None:
    inputs = (*_bf16((1, 3, 256, 64)), Spec("int64", (1,)), *_bf16((1, 3, 1, 64)))
    assert work_of("aten::index_copy", inputs, _bf16((1, 3, 256, 64))).write_bytes == 2 * 3 * 256 * 64


def test_an_unknown_operator_counts_one_pass_and_says_it_is_assumed() -> None:
    assert work_of("mine::thing", _f32((2, 3)), _f32((2, 3))) == Work(
        kind="unknown",
        engine="vector",
        dtype="float32",
        vector_elements=6,
        read_bytes=24,
        write_bytes=24,
        assumed=True,
    )


def test_attention_without_its_three_tensors_is_unknown() -> None:
    assert (
        work_of("aten::_scaled_dot_product_fused_attention_overrideable", _bf16((1, 2)), ()).kind == "unknown"
    )
