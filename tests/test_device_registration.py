"""Who holds PyTorch's device slot, in fresh processes: it can be given away only once."""

from fresh_process import run_failing


def test_a_slot_taken_by_another_backend_is_named_with_its_module():
    message = run_failing(
        """
        import torch, types
        torch.utils.rename_privateuse1_backend("npu")
        torch._register_device_module("npu", types.ModuleType("torch_npu"))
        import neuron_lab
        neuron_lab.activate(mode="emulated")
        """
    )
    assert message == (
        "neuron_lab.errors.ActivationError: the emulated neuron device needs PrivateUse1, PyTorch's one slot "
        "for an out-of-tree device, and in this process it is taken by a device named 'npu' (torch_npu, built "
        "in); start a fresh process that does not load it (TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps installed "
        "backends from loading by themselves)"
    )


def test_a_slot_with_kernels_but_no_name_is_taken_too():
    message = run_failing(
        """
        import torch
        library = torch.library.Library("aten", "IMPL")
        library.impl("empty.memory_format", lambda *a, **k: None, "PrivateUse1")
        import neuron_lab
        neuron_lab.activate(mode="emulated")
        """
    )
    assert "it is taken by an extension that registered kernels without naming its device" in message
