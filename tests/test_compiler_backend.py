"""torch.compile(backend="neuron") on the emulated device: results, static shapes, events."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator

import pytest
import torch
from builders import rows

import neuron_lab
from neuron_lab.compiler.observer import OBSERVER, CompileCounts
from neuron_lab.device.source import SOURCE
from neuron_lab.trace.events import Kind, TensorSpec, TraceHeader
from neuron_lab.trace.recorder import RECORDER
from neuron_lab.trace.table import Trace


@pytest.fixture(scope="module", autouse=True)
def device() -> None:
    neuron_lab.activate(instance="trn2.3xlarge")


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def observe(body: Callable[[], object]) -> Trace:
    RECORDER.add_source(SOURCE)
    RECORDER.add_source(OBSERVER)
    recording = RECORDER.open()
    try:
        body()
    finally:
        trace = recording.close(TraceHeader())
    return trace


def neuron(function: Callable[..., object], **options: object) -> Callable[..., object]:
    return torch.compile(function, backend="neuron", **options)


def on_device(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to("neuron")


class Perceptron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.gelu(self.up(x)))


def test_a_compiled_module_gives_eagers_numbers_on_the_device() -> None:
    model, x = Perceptron().to("neuron"), on_device(4, 8)
    with torch.no_grad():
        result = neuron(model)(x)
        expected = model(x)
    assert result.device == torch.device("neuron:0")
    assert torch.equal(result.cpu(), expected.cpu())


def test_a_training_step_gives_eagers_loss_and_gradients() -> None:
    model, x = Perceptron().to("neuron"), on_device(4, 8)

    def step(function: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        model.zero_grad()
        loss = function(x).square().mean()
        loss.backward()
        return [loss.detach().cpu(), *(p.grad.cpu().clone() for p in model.parameters())]

    expected, result = step(model), step(neuron(model))
    assert all(torch.equal(a, b) for a, b in zip(expected, result, strict=True))


def test_twenty_training_steps_stay_equal_and_leave_no_memory_behind() -> None:
    def train(compiled: bool) -> list[float]:
        torch.manual_seed(1)
        model = Perceptron().to("neuron")
        function = neuron(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x, losses = on_device(4, 8), []
        for _ in range(20):
            optimizer.zero_grad()
            loss = function(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            memory.append(torch.neuron.memory_allocated())
            del loss
        return losses

    memory: list[int] = []
    expected = train(compiled=False)
    memory.clear()
    assert train(compiled=True) == expected
    assert memory[3] == memory[-1]


def test_inputs_changed_in_place_are_the_callers() -> None:
    def accumulate(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        return total * 2

    total, x = torch.zeros(3, device="neuron"), torch.ones(3, device="neuron")
    version = total._version
    result = neuron(accumulate)(total, x)
    assert total.tolist() == [1.0, 1.0, 1.0]
    assert total._version > version
    assert result.tolist() == [2.0, 2.0, 2.0]


def test_an_output_that_is_an_input_is_the_callers_tensor() -> None:
    def same(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x

    x = torch.ones(2, device="neuron")
    assert neuron(same)(x) is x


def test_an_output_that_is_a_view_of_an_input_shares_its_memory() -> None:
    x = torch.zeros(2, 3, device="neuron")
    view = neuron(lambda value: value[0].view(3))(x)
    view.fill_(7)
    assert x.tolist() == [[7.0] * 3, [0.0] * 3]


def test_outputs_that_share_memory_in_eager_mode_share_it_compiled() -> None:
    def halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.chunk(x + 1, 2)

    first, second = neuron(halves)(torch.zeros(4, device="neuron"))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [1.0, 1.0])


def test_cpu_inputs_are_copied_and_the_result_is_on_the_device() -> None:
    result = neuron(lambda x: x + 1)(torch.ones(2))
    assert result.device.type == "neuron"
    assert result.tolist() == [2.0, 2.0]


def test_copying_cpu_inputs_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY", "1")
    with pytest.raises(RuntimeError, match="Input tensor at index 0 is on cpu device, expected neuron"):
        neuron(lambda x: x + 1)(torch.ones(2))


def test_gradients_of_cpu_inputs_come_back_to_the_cpu() -> None:
    x = torch.ones(2, requires_grad=True)
    neuron(lambda value: value * 3)(x).sum().backward()
    assert x.grad is not None
    assert (x.grad.device.type, x.grad.tolist()) == ("cpu", [3.0, 3.0])


def test_tensors_made_inside_the_graph_are_on_the_device() -> None:
    def positions(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(3, device=x.device) + x.to(torch.int64)

    result = neuron(positions)(torch.ones(3, device="neuron"))
    assert (result.device.type, result.tolist()) == ("neuron", [1, 2, 3])


def test_random_numbers_are_eagers() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    x = on_device(16)
    torch.manual_seed(3)
    expected = noisy(x).cpu()
    torch.manual_seed(3)
    assert torch.equal(neuron(noisy)(x).cpu(), expected)


def test_autocast_inside_gives_eagers_numbers() -> None:
    model, x = Perceptron().to("neuron"), on_device(4, 8)

    def forward(value: torch.Tensor) -> torch.Tensor:
        with torch.autocast("neuron", dtype=torch.bfloat16):
            return model(value)

    with torch.no_grad():
        expected, result = forward(x), neuron(forward)(x)
    assert result.dtype == torch.bfloat16
    assert torch.equal(result.cpu(), expected.cpu())


def test_a_branch_inside_the_graph_runs() -> None:
    def either(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v + torch.ones(2, device=v.device), lambda v: v - 1, (x,))

    compiled = neuron(either)
    assert compiled(torch.ones(2, device="neuron")).tolist() == [2.0, 2.0]
    assert compiled(-torch.ones(2, device="neuron")).tolist() == [-2.0, -2.0]


@pytest.fixture(scope="module")
def seen() -> list[str]:
    """Device types the user's operators below were called with."""
    types: list[str] = []

    @torch.library.custom_op("neuron_lab_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        types.append(x.device.type)
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("neuron_lab_tests::increment_", mutates_args=("x",))
    def increment_(x: torch.Tensor) -> None:
        types.append(x.device.type)
        x.add_(1)

    return types


def test_a_users_operator_sees_device_tensors_in_the_middle_of_a_graph(seen: list[str]) -> None:
    def surrounded(x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.neuron_lab_tests.twice(x)  # an input
        z = torch.ops.neuron_lab_tests.twice(y + 1)  # a value of the graph, used again below
        return z + (y + 1) + x

    seen.clear()
    assert neuron(surrounded, fullgraph=True)(torch.ones(2, device="neuron")).tolist() == [10.0, 10.0]
    assert seen == ["neuron", "neuron"]


def test_a_users_operator_may_be_all_a_graph_returns(seen: list[str]) -> None:
    result = neuron(torch.ops.neuron_lab_tests.twice)(torch.ones(2, device="neuron"))
    assert (result.device.type, result.tolist()) == ("neuron", [2.0, 2.0])


def test_a_users_operator_that_writes_sees_device_tensors(seen: list[str]) -> None:
    def add_one(x: torch.Tensor) -> torch.Tensor:
        torch.ops.neuron_lab_tests.increment_(x)
        return x * 2

    x = torch.ones(2, device="neuron")
    seen.clear()
    assert neuron(add_one, fullgraph=True)(x).tolist() == [4.0, 4.0]
    assert x.tolist() == [2.0, 2.0]
    assert seen == ["neuron"]


def test_each_execution_is_one_event_that_knows_the_graphs_operators() -> None:
    x = torch.ones(4, device="neuron")
    compiled = neuron(lambda value: torch.relu(value + 1))
    compiled(x)

    def body() -> None:
        compiled(x)
        compiled(x)

    trace = observe(body)
    assert len(trace.table(Kind.OPERATOR)) == 2
    signature = trace.signatures[trace.table(Kind.OPERATOR).column("signature")[0]]
    nodes = trace.graphs[signature.graph].nodes
    assert [node.op for node in nodes] == ["aten::add.Tensor", "aten::relu"]
    assert nodes[0].inputs == nodes[0].outputs == (TensorSpec("float32", (4,)),)
    assert nodes[0].static == "1"
    assert len(trace.table(Kind.EAGER_KERNEL)) == 0


def test_a_training_step_compiles_two_graphs() -> None:
    model, x = Perceptron().to("neuron"), on_device(4, 8)
    trace = observe(lambda: neuron(model)(x).sum().backward())
    names = [name.rpartition(" #")[0] for name in trace.table(Kind.COMPILE).strings("name")]
    assert sorted(names) == ["Perceptron backward", "Perceptron forward"]
    assert all(trace.table(Kind.COMPILE).column("graph") >= 0)
    assert (trace.table(Kind.COMPILE).column("node_count") > 3).all()


def test_each_new_shape_is_one_static_graph_and_a_recompile() -> None:
    compiled = neuron(lambda x: x.sum(0) * 2)
    before = OBSERVER.counts()

    def body() -> None:
        for rows_count in (2, 3, 4, 3, 2):
            assert compiled(torch.ones(rows_count, 2, device="neuron")).tolist() == [rows_count * 2.0] * 2

    trace = observe(body)
    assert rows(trace, Kind.RECOMPILE, "variable", "old", "new") == [("x", "2", "3"), ("x", "(3, 2)", "(4, 2)")]
    assert trace.table(Kind.RECOMPILE).strings("reason")[1] == (
        "`x` has shape (4, 2), was (3, 2); neuron compiles one static graph per shape; "
        "pad or bucket it to a few fixed shapes"
    )
    assert OBSERVER.counts() - before == CompileCounts(compiles=3, recompiles=2)
    used = {trace.signatures[i].graph for i in trace.table(Kind.OPERATOR).column("signature").tolist()}
    shapes = sorted(trace.graphs[i].nodes[0].inputs[0].shape for i in used if i >= 0)
    assert shapes == [(2, 2), (3, 2), (4, 2)]


def test_a_new_shape_can_be_trained_on() -> None:
    weight = torch.ones(2, device="neuron", requires_grad=True)
    compiled = neuron(lambda x: (x * weight).sum())
    for rows_count in (2, 3, 4):
        weight.grad = None
        compiled(torch.ones(rows_count, 2, device="neuron")).backward()
        assert weight.grad is not None
        assert weight.grad.tolist() == [rows_count, rows_count]


def test_dynamic_true_is_refused_with_the_dimensions() -> None:
    with pytest.raises(Exception, match="Dynamic shapes detected in the model") as caught:
        neuron(lambda x: x + 1, dynamic=True)(torch.ones(3, 2, device="neuron"))
    text = str(caught.value)
    assert "but torch-neuronx requires static shapes. Found 2 dynamic dimension(s): [x: dimension 0" in text
    assert "test_compiler_backend.py" in text


def test_dynamo_is_configured_as_before() -> None:
    config = torch._dynamo.config
    before = (config.assume_static_by_default, config.automatic_dynamic_shapes, config.recompile_limit)
    compiled = neuron(lambda x: x + 1)
    for size in (2, 3, 4):
        compiled(torch.ones(size, device="neuron"))
    assert (config.assume_static_by_default, config.automatic_dynamic_shapes, config.recompile_limit) == before


def test_torch_compile_without_a_backend_uses_the_neuron_backend_for_device_graphs() -> None:
    compiled = torch.compile(lambda x: x + 1)
    trace = observe(lambda: compiled(torch.ones(2, device="neuron")))
    assert [trace.signatures[i].op for i in trace.table(Kind.OPERATOR).column("signature")][
        -1
    ] == "neuron::graph"


def test_a_mode_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = neuron(lambda x: x + 1, mode="max-autotune")(torch.ones(2, device="neuron"))
    assert result.tolist() == [2.0, 2.0]
    assert (
        "Neuron backend does not support mode='max-autotune', falling back to default mode." in caplog.messages
    )


def test_options_name_the_graph_and_unknown_ones_are_ignored() -> None:
    compiled = neuron(lambda x: x + 1, options={"model_name": "adder", "unknown": 1})
    trace = observe(lambda: compiled(torch.ones(2, device="neuron")))
    assert [name.rpartition(" #")[0] for name in trace.table(Kind.COMPILE).strings("name")] == ["adder"]


def test_results_are_accounted_and_freed() -> None:
    x = torch.ones(1024, device="neuron")
    compiled = neuron(lambda value: value + 1)
    compiled(x)
    gc.collect()
    before = torch.neuron.memory_allocated()
    result = compiled(x)
    assert torch.neuron.memory_allocated() - before == 4096
    del result
    assert torch.neuron.memory_allocated() == before


def test_a_graph_runs_on_the_core_of_its_inputs() -> None:
    x = torch.ones(2, device="neuron:1")
    assert neuron(lambda value: value + 1)(x).device == torch.device("neuron:1")


def test_checkpointed_dropout_repeats_in_the_backward_pass() -> None:
    from torch.utils.checkpoint import checkpoint

    layer, x = Perceptron().to("neuron"), on_device(4, 8)

    def block(value: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(layer(value), 0.5)

    def gradients(function: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        layer.zero_grad()
        torch.manual_seed(5)
        function(x).sum().backward()
        return [p.grad.cpu().clone() for p in layer.parameters()]

    expected = gradients(block)
    result = gradients(neuron(lambda value: checkpoint(block, value, use_reentrant=False)))
    assert all(torch.equal(a, b) for a, b in zip(expected, result, strict=True))


def test_a_written_cache_is_not_copied_but_written_in_place() -> None:
    def update(cache: torch.Tensor, position: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, position, value)
        return cache.sum()

    cache = torch.zeros(2, 4, device="neuron")
    position, value = torch.tensor([2], device="neuron"), torch.ones(2, 1, device="neuron")
    trace = observe(lambda: neuron(update)(cache, position, value))
    assert cache.tolist() == [[0.0, 0.0, 1.0, 0.0]] * 2
    assert [graph.nodes[0].op for graph in trace.graphs] == ["aten::index_copy"]
    assert trace.table(Kind.ALLOC).column("size_bytes").max() < cache.nbytes


def test_an_input_read_after_it_was_written_keeps_both_values_apart() -> None:
    def update(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = x * 1
        view = x.view(-1)
        x.add_(1)
        return before + view, x + before

    x = torch.ones(2, device="neuron")
    mixed, after = neuron(update)(x)
    assert (mixed.tolist(), after.tolist(), x.tolist()) == ([3.0, 3.0], [3.0, 3.0], [2.0, 2.0])


@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradient_are_eagers(causal: bool) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    inputs = [on_device(1, 2, 5, 8).requires_grad_() for _ in range(3)]

    def run(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        result = function(*inputs)
        return [result.detach().cpu(), *(g.cpu() for g in torch.autograd.grad(result.square().sum(), inputs))]

    assert all(torch.equal(a, b) for a, b in zip(run(attend), run(neuron(attend)), strict=True))


def test_a_recurrent_cell_that_only_the_device_has_runs_in_a_graph() -> None:
    cell = torch.nn.GRUCell(4, 3).to("neuron")
    x, h = on_device(2, 4), on_device(2, 3)
    with torch.no_grad():
        assert torch.equal(neuron(cell)(x, h).cpu(), cell(x, h).cpu())
