"""The time model's exact values on trn2."""

import math
from dataclasses import dataclass, field

import pytest

from neuron_lab.hardware.assumptions import DEFAULT, Assumption
from neuron_lab.hardware.chips import TRN2
from neuron_lab.hardware.cost import (
    NO_COST,
    Cost,
    compile_seconds,
    dma_best_rate,
    dma_worst_ns,
    graph_cost,
    hbm_share_rate,
    kernel_cost,
    stack_best_rate,
    worst_times,
)
from neuron_lab.hardware.graph_work import graph_work
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import NO_WORK, work_of


@dataclass(frozen=True)
class Spec:
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    op: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    static: str = field(default="")


def _bf16(*shape: int) -> Spec:
    return Spec("bfloat16", shape)


def _matmul(size: int, dtype: str = "bfloat16") -> Cost:
    spec = Spec(dtype, (size, size))
    return kernel_cost(work_of("aten::mm", [spec, spec], [spec]), TRN2, 2)


def test_low_of_a_large_product_is_flops_over_the_published_peak() -> None:
    assert _matmul(4096).low_ns == math.ceil(2 * 4096**3 / (2 * 79e12) * 1e9)


def test_a_large_product_is_bound_by_the_tensor_engine() -> None:
    assert (_matmul(4096).bound, _matmul(4096).engine) == ("tensor", "tensor")


def test_float32_runs_at_its_own_published_peak() -> None:
    assert _matmul(4096, "float32").low_ns == math.ceil(2 * 4096**3 / (2 * 20e12) * 1e9)


def test_float64_is_computed_in_float32_and_that_is_documented() -> None:
    assert (_matmul(4096, "float64").low_ns, _matmul(4096, "float64").low_confidence) == (
        _matmul(4096, "float32").low_ns,
        "documented",
    )


def test_an_integer_product_has_no_documented_rate() -> None:
    assert _matmul(4096, "int8").low_confidence == "assumed"


def test_high_adds_engines_that_do_not_overlap_and_dma_latency() -> None:
    size_bytes = 2 * 4096**2
    cores = 2 * 0.7
    tensor = max(32 * 32 * 4096 / 2.4, 2 * 4096**3 / 79e3) / (cores * 0.35)
    memory = 3 * size_bytes / (725 * 0.4)
    assert _matmul(4096).high_ns == math.ceil(tensor + memory + 4 * 1300)


def test_a_thin_product_is_bound_by_reading_the_weights() -> None:
    cost = kernel_cost(work_of("aten::mm", [_bf16(1, 576), _bf16(576, 1536)], [_bf16(1, 1536)]), TRN2, 2)
    assert (cost.bound, cost.low_ns) == ("hbm", math.ceil(2 * (576 + 576 * 1536 + 1536) / 750))


def test_one_core_is_bound_by_its_dma_engines_and_two_by_their_stack() -> None:
    spec = _bf16(1, 1_000_000)
    copy = work_of("aten::clone", [spec], [spec])
    assert (dma_best_rate(TRN2, 1), stack_best_rate(TRN2)) == (pytest.approx(435.2), 750)
    assert [kernel_cost(copy, TRN2, lnc).bound for lnc in (1, 2)] == ["dma", "hbm"]


def test_the_worst_rate_is_the_share_of_a_busy_chip() -> None:
    assert hbm_share_rate(TRN2, 2) == 725


def test_short_rows_take_as_long_as_rows_of_2430_bytes() -> None:
    per_row = 2430 / (16 * 23)
    assert dma_worst_ns(64 * 1000, 64, TRN2, 1) == pytest.approx(1000 * per_row)
    assert dma_worst_ns(4860 * 1000, 4860, TRN2, 1) == pytest.approx(2 * 1000 * per_row)


def test_a_whole_tensor_is_one_row_per_partition_at_least() -> None:
    assert dma_worst_ns(1280, 0, TRN2, 1) == pytest.approx(128 * 2430 / (16 * 23))


def test_nothing_moved_takes_no_time() -> None:
    assert dma_worst_ns(0, 0, TRN2, 1) == 0


def test_gathering_elements_is_worse_than_gathering_rows() -> None:
    table, picked = _bf16(50_000, 64), Spec("int64", (1024, 64))
    rows = work_of("aten::embedding", [table, Spec("int64", (1024,))], [_bf16(1024, 64)])
    elements = work_of("aten::gather", [table, picked], [_bf16(1024, 64)])
    assert (rows.row_bytes, elements.row_bytes) == (128, 2)


def test_no_work_costs_nothing() -> None:
    assert kernel_cost(NO_WORK, TRN2, 2) == NO_COST


def test_an_unknown_operator_says_that_even_its_low_end_is_assumed() -> None:
    cost = kernel_cost(work_of("mine::thing", [_bf16(8)], [_bf16(8)]), TRN2, 2)
    assert cost.low_confidence == "assumed"


def test_an_interval_as_a_whole_is_assumed() -> None:
    assert (_matmul(64).low_confidence, _matmul(64).confidence) == ("documented", "assumed")


def test_an_assumption_moves_the_high_end_only() -> None:
    work = work_of("aten::mm", [_bf16(4096, 4096)] * 2, [_bf16(4096, 4096)])
    slower = DEFAULT.replace(tensor_share=Assumption(0.2, 0.1, 1, "of tensor peak", "read on an instance"))
    before, after = kernel_cost(work, TRN2, 2), kernel_cost(work, TRN2, 2, slower)
    assert before.low_ns == after.low_ns
    assert before.high_ns < after.high_ns


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(
    ("op", "inputs", "outputs"),
    [
        ("aten::mm", [_bf16(1, 64), _bf16(64, 64)], [_bf16(1, 64)]),
        ("aten::add.Tensor", [_bf16(1), _bf16(1)], [_bf16(1)]),
        ("aten::exp", [Spec("float32", (10_000_000,))], [Spec("float32", (10_000_000,))]),
        ("aten::zero_", [_bf16(3)], [_bf16(3)]),
        ("aten::normal_", [_bf16(300)], [_bf16(300)]),
        ("aten::topk", [_bf16(1, 50_000)], [_bf16(1, 5), Spec("int64", (1, 5))]),
    ],
)
def test_low_is_never_above_high(op: str, inputs: list[Spec], outputs: list[Spec], lnc: int) -> None:
    cost = kernel_cost(work_of(op, inputs, outputs), TRN2, lnc)
    assert 0 < cost.low_ns <= cost.high_ns


def _two_layers() -> list[Node]:
    hidden, up, down = _bf16(1, 512), _bf16(512, 2048), _bf16(2048, 512)
    wide = _bf16(1, 2048)
    return [
        Node("aten::mm", (hidden, up), (wide,)),
        Node("aten::silu", (wide,), (wide,)),
        Node("aten::mm", (wide, down), (hidden,)),
    ]


def test_a_graph_reads_its_inputs_and_writes_its_result_but_no_intermediates() -> None:
    assert graph_work(_two_layers()).boundary_bytes == 2 * (512 + 512 * 2048 + 2048 * 512 + 512)


def test_a_view_of_an_input_is_still_the_input() -> None:
    nodes = [
        Node("aten::t", (_bf16(2048, 512),), (_bf16(512, 2048),)),
        Node("aten::mm", (_bf16(1, 512), _bf16(512, 2048)), (_bf16(1, 2048),)),
    ]
    assert graph_work(nodes).boundary_bytes == 2 * (512 + 512 * 2048 + 2048)


def test_a_graph_reads_only_the_embedding_rows_it_picks() -> None:
    nodes = [Node("aten::embedding", (_bf16(50_000, 64), Spec("int64", (1, 3))), (_bf16(1, 3, 64),))]
    assert graph_work(nodes).boundary_bytes == 2 * (2 * 3 * 64) + 3 * 8


def test_a_graph_costs_less_than_its_kernels_at_the_low_end() -> None:
    nodes = _two_layers()
    apart = [kernel_cost(work_of(node.op, node.inputs, node.outputs), TRN2, 2) for node in nodes]
    together = graph_cost(graph_work(nodes), TRN2, 2)
    assert together.low_ns == math.ceil(graph_work(nodes).boundary_bytes / 750) < sum(c.low_ns for c in apart)


def test_the_high_end_of_a_graph_writes_its_intermediates_but_loads_while_it_computes() -> None:
    nodes = _two_layers()
    worst = [worst_times(work_of(node.op, node.inputs, node.outputs), TRN2, 2) for node in nodes]
    computing = sum(sum(times.as_tuple()[:4]) for times in worst)
    moving = max(sum(times.hbm for times in worst), sum(times.dma for times in worst))
    together = graph_cost(graph_work(nodes), TRN2, 2)
    assert together.high_ns == math.ceil(max(computing, moving) + 3 * 4 * 1300)


def test_a_graph_of_views_costs_nothing() -> None:
    assert graph_cost(graph_work([Node("aten::t", (_bf16(2, 3),), (_bf16(3, 2),))]), TRN2, 2) == NO_COST


def test_compile_time_grows_with_kernels_graphs_and_nodes() -> None:
    assert compile_seconds(3, [100, 50]) == Interval(5 * 1 + 150 * 0.01, 5 * 30 + 150 * 0.5)
