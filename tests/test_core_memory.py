"""The core's memory: what is charged, to whom, and what happens when it does not fit."""

import gc
import threading

import pytest
import torch
from fresh_process import run

import neuron_lab
from neuron_lab.device.core import load_core

HBM_BYTES = 25_769_803_776


@pytest.fixture(scope="module", autouse=True)
def core():
    neuron_lab.activate(mode="emulated")
    return load_core()


def held(core, device=0):
    gc.collect()
    return core.memory_stats(device)["current"]


def test_a_tensor_is_charged_its_bytes_and_a_view_nothing(core):
    before = held(core)
    x = torch.empty(1000, device="neuron")
    assert held(core) - before == 4000
    view = x[10:20].view(2, 5)
    assert held(core) - before == 4000
    del x
    assert held(core) - before == 4000  # the view keeps the storage
    del view
    assert held(core) == before


def test_an_operators_result_is_charged_to_the_core_of_its_inputs(core):
    x = torch.ones(256, device="neuron:2")
    before = held(core, 2)
    y = x + x
    assert held(core, 2) - before == 1024
    assert y.device == torch.device("neuron:2")


def test_the_peak_is_what_was_held_at_once(core):
    core.reset_peak(0)
    before = core.memory_stats(0)["peak"]
    x = torch.empty(1 << 20, dtype=torch.uint8, device="neuron")
    del x
    y = torch.empty(1 << 19, dtype=torch.uint8, device="neuron")
    assert core.memory_stats(0)["peak"] - before == 1 << 20
    assert y.numel() == 1 << 19


def test_totals_start_again_at_a_reset_and_what_is_held_does_not(core):
    x = torch.empty(100, dtype=torch.uint8, device="neuron")
    current = held(core)
    core.reset_accumulated(0)
    y = torch.empty(50, dtype=torch.uint8, device="neuron")
    stats = core.memory_stats(0)
    assert (stats["allocated"], stats["freed"], stats["num_allocs"], stats["num_frees"]) == (50, 0, 1, 0)
    assert stats["current"] == current + 50
    assert x.numel() + y.numel() == 150


@pytest.mark.parametrize("make", [torch.empty, torch.zeros, torch.ones, torch.rand])
def test_a_tensor_beyond_the_limit_is_refused_before_the_host_pays_for_it(core, make):
    asked = 30 << 30
    with pytest.raises(RuntimeError) as raised:
        make(asked, device="neuron:1")
    text = str(raised.value)
    assert text.startswith(f"NRT allocation failed for size {4 * asked} (OOM)")
    assert f"limit {HBM_BYTES} bytes" in text
    assert "neuron:1" in text
    assert "trn2.3xlarge" in text
    assert type(raised.value) is RuntimeError


def test_an_operators_result_counts_too_and_a_failed_one_leaves_nothing(core):
    filler = torch.empty(HBM_BYTES - held(core, 3) - 4096, dtype=torch.uint8, device="neuron:3")
    x = torch.ones(512, dtype=torch.uint8, device="neuron:3")
    before = held(core, 3)
    ooms = core.memory_stats(3)["num_ooms"]
    with pytest.raises(RuntimeError, match="NRT allocation failed for size 4096"):
        x.expand(8, 512) + 1
    assert held(core, 3) == before
    assert core.memory_stats(3)["num_ooms"] == ooms + 1
    del filler
    assert (x.expand(8, 512) + 1).sum().item() == 8192


def test_an_output_argument_that_grows_is_charged_its_new_size(core):
    out = torch.empty(0, device="neuron")
    x = torch.ones(64, device="neuron")
    before = held(core)
    torch.add(x, x, out=out)
    assert held(core) - before == 256
    assert out.shape == (64,)
    assert out.cpu().tolist() == [2.0] * 64
    out.untyped_storage().resize_(0)
    assert held(core) == before


def test_memory_freed_by_another_thread_is_returned(core):
    before = held(core)
    tensors = [torch.empty(1 << 16, device="neuron")]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    assert held(core) == before


def test_seventeen_gibibytes_nobody_touches_cost_the_host_nothing():
    lines = run(
        """
        import torch, neuron_lab
        neuron_lab.activate(mode="emulated")
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        before = resident()
        x = torch.empty(17 << 30, dtype=torch.uint8, device="neuron")
        print(x.nbytes == 17 << 30, resident() - before < 64 << 20)
        """
    )
    assert lines[-1] == "True True"


def test_two_cores_of_one_pool_share_its_limit():
    lines = run(
        """
        import types
        import torch
        from neuron_lab.device.core import load_core
        core = load_core()
        core.configure([0, 0, 1, 1], [1000, 1000], "test")
        torch.utils.rename_privateuse1_backend("neuron")
        torch._register_device_module("neuron", types.ModuleType("torch.neuron"))
        keep = torch.empty(600, dtype=torch.uint8, device="neuron:0")
        print(core.pool_free_bytes(1), core.pool_free_bytes(2))
        try:
            torch.empty(600, dtype=torch.uint8, device="neuron:1")
        except RuntimeError as error:
            print("(shared by 2 cores)" in str(error))
        """
    )
    assert lines == ["400 1000", "True"]


def test_configuration_is_refused_once_memory_was_used(core):
    torch.empty(1, device="neuron")
    with pytest.raises(RuntimeError, match="cannot change in this process"):
        core.configure([0], [1], "other")
