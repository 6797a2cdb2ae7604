"""Operators of the core: CPU values under device tensors, and errors instead of silent mixing of devices."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import neuron_lab


@pytest.fixture(scope="module", autouse=True)
def device():
    neuron_lab.activate(mode="emulated")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with two, the CPU itself changes some attention gradients by 1e-7
    yield
    torch.set_num_threads(threads)


def both(function, *arguments):
    """The function's result on the CPU, and on the device brought back; seeded alike."""
    torch.manual_seed(5)
    on_cpu = function(*arguments)
    torch.manual_seed(5)
    on_device = function(*(a.to("neuron") for a in arguments))
    assert on_device.device.type == "neuron"
    return on_cpu, on_device.cpu()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ x.t(),
        lambda x: x.softmax(-1),
        lambda x: torch.linalg.svd(x)[1],
        lambda x: torch.cat([x, x[1:]]),
        lambda x: x[torch.tensor([2, 0])],
        lambda x: F.dropout(x, 0.3),
        lambda x: torch.rand_like(x) + x,
        lambda x: x.to(torch.bfloat16).sum(0),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: torch.polar(x, x).conj() * 2,
    ],
    ids=["matmul", "softmax", "svd", "cat", "cpu-index", "dropout", "rand_like", "bfloat16", "fft", "conj"],
)
def test_values_are_those_of_the_cpu_bit_for_bit(function):
    on_cpu, on_device = both(function, torch.arange(12.0).reshape(4, 3).sin())
    assert torch.equal(on_cpu, on_device)
    assert on_cpu.stride() == on_device.stride()


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_forward_and_backward(kind):
    torch.manual_seed(0)
    layer = kind(5, 7, num_layers=2, bidirectional=True)
    x = torch.randn(4, 3, 5)

    def gradients(device):
        layer.to(device).zero_grad()
        layer(x.to(device))[0].square().sum().backward()
        return [p.grad.cpu() for p in layer.parameters()]

    for ours, theirs in zip(gradients("neuron"), gradients("cpu"), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_attention_and_its_gradient_equal_the_cpus():
    torch.manual_seed(0)
    leaves = [torch.randn(2, 4, 8, 16) for _ in range(3)]

    def run(device):
        q, k, v = (t.to(device).requires_grad_() for t in leaves)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        return [t.cpu() for t in (out.detach(), q.grad, k.grad, v.grad)]

    assert all(torch.equal(a, b) for a, b in zip(run("neuron"), run("cpu"), strict=True))


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_linear_backward_equals_autograd(shape):
    torch.manual_seed(0)
    x, w, b = torch.randn(shape, requires_grad=True), torch.randn(4, 5, requires_grad=True), torch.randn(4)
    b.requires_grad_()
    out = F.linear(x, w, b)
    grad = torch.randn_like(out)
    expected = torch.autograd.grad(out, (x, w, b), grad)
    found = torch.ops.aten.linear_backward(
        x.detach().to("neuron"), grad.to("neuron"), w.detach().to("neuron"), [True, False, True]
    )
    assert torch.equal(found[0].cpu(), expected[0])
    assert found[1] is None
    assert torch.equal(found[2].cpu(), expected[2])


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c: x + c,
        lambda x, c: torch.where(x > 0, x, c),
        lambda x, c: torch.cat([x, c]),
        lambda x, c: x.index_select(0, torch.tensor([1])),
    ],
    ids=["add", "where", "cat", "index_select"],
)
def test_a_cpu_tensor_among_device_tensors_is_refused_in_the_devices_words(call):
    with pytest.raises(RuntimeError, match="is on cpu device, expected neuron"):
        call(torch.ones(3, device="neuron"), torch.ones(3))


def test_a_cpu_scalar_tensor_is_accepted():
    assert (torch.ones(2, device="neuron") * torch.tensor(3.0)).cpu().tolist() == [3.0, 3.0]


def test_tensors_of_two_cores_do_not_mix():
    with pytest.raises(RuntimeError, match=r"found at least two devices, neuron:0 and neuron:1"):
        torch.ones(2, device="neuron:0") + torch.ones(2, device="neuron:1")


def test_a_core_beyond_the_machine_is_refused_by_its_range():
    with pytest.raises(
        ValueError, match=r"Device index 9 is out of range\. Valid range is 0 to 3 for this process"
    ):
        torch.empty(1, device="neuron:9")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to_sparse_csr(),
        lambda x: torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (2,), device="neuron"),
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    ],
    ids=["coo", "csr", "coo-factory", "quantized"],
)
def test_layouts_the_device_does_not_hold_are_refused_with_what_to_do(make):
    with pytest.raises(NotImplementedError, match="CPU"):
        make(torch.ones(2, 2, device="neuron"))


def test_copies_are_copies():
    source = torch.ones(3)
    on_device = source.to("neuron")
    back = on_device.cpu()
    source.zero_()
    back.fill_(7)
    assert on_device.cpu().tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(TypeError):
        on_device.numpy()


def test_a_users_operator_with_a_cpu_kernel_runs_and_its_result_is_on_the_device():
    with torch.library._scoped_library("core_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        kept = []

        def twice(x):
            kept.append(x * 2)
            return kept[-1]

        library.impl("twice", twice, "CPU")
        out = torch.ops.core_test.twice(torch.ones(2, device="neuron"))
        assert out.device.type == "neuron"
        out.add_(1)
        assert kept[0].device.type == "cpu"
        assert kept[0].tolist() == [2.0, 2.0]  # what the kernel kept is its own


def test_an_operator_without_a_kernel_says_where_to_register_one():
    with torch.library._scoped_library("core_test", "FRAGMENT") as library:
        library.define("nowhere(Tensor x) -> Tensor")
        with pytest.raises(NotImplementedError, match=r"neither a neuron nor a CPU kernel.*Register one"):
            torch.ops.core_test.nowhere(torch.ones(2, device="neuron"))


def test_a_dispatch_mode_sees_the_device_operator_and_nothing_below_it():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen.append(function.name())
            return function(*args, **(kwargs or {}))

    x = torch.ones(2, 2, device="neuron")
    with Names() as names:
        torch.logit(x * 0.5)
    assert names.seen == ["aten::mul.Tensor", "aten::logit"]


def test_torchs_profiler_counts_an_operator_once():
    x = torch.ones(2, 2, device="neuron")
    with torch.profiler.profile() as profile:
        torch.logit(x)
    counts = {row.key: row.count for row in profile.key_averages()}
    assert counts["aten::logit"] == 1


def test_a_draw_from_a_neuron_generator_repeats_from_its_state_and_leaves_the_cpus_alone():
    generator = torch.Generator(device="neuron").manual_seed(3)
    before = torch.get_rng_state()
    torch.rand(4, device="neuron", generator=generator)
    state = generator.get_state()
    assert state.numel() == 16
    again = torch.rand(4, device="neuron", generator=generator)
    generator.set_state(state)
    assert torch.equal(again, torch.rand(4, device="neuron", generator=generator))
    assert torch.equal(before, torch.get_rng_state())
