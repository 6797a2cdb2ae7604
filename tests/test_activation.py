"""Switching the device on and off. In fresh processes: the device slot is given away only once."""

import os

import pytest
from fresh_process import run, run_failing

from neuron_lab.hardware.instances import INSTANCES


def test_installing_and_importing_changes_nothing():
    assert run(
        """
        import torch, neuron_lab, sys
        print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "neuron"))
        print(neuron_lab.device_info().kind, "|", neuron_lab.device_info().why)
        """
    ) == [
        "privateuseone False",
        "off | not activated; %load_ext neuron_lab or neuron_lab.activate() switches it on",
    ]


def test_a_child_process_may_activate_before_it_imports_torch():
    """Importing torch then activates by itself, in the middle of the activation that imported it."""
    assert run(
        """
        import neuron_lab
        print(neuron_lab.activate().kind)
        import torch
        print(torch.ones(2, device="neuron").sum().item())
        """,
        environ={"NEURON_LAB_DEVICE": "emulated"},
    ) == ["emulated", "2.0"]


def test_activate_returns_what_the_device_is():
    assert run(
        """
        import neuron_lab
        info = neuron_lab.activate(mode="emulated")
        print(info.kind, info.instance, info.chip, info.lnc, info.cores, info.hbm_per_core_bytes)
        print(info is neuron_lab.device_info())
        """
    ) == ["emulated trn2.3xlarge trn2 2 4 25769803776", "True"]


def test_tensors_live_on_the_device_and_torch_knows_it_as_its_accelerator():
    assert run(
        """
        import neuron_lab, torch
        neuron_lab.activate()
        x = torch.arange(3, device="neuron")
        print(x.device, x.is_neuron, (x + 1).cpu().tolist())
        print(torch.accelerator.current_accelerator(), torch.accelerator.is_available())
        print(torch.nn.Linear(2, 2).neuron().weight.device)
        """
    ) == ["neuron:0 True [1, 2, 3]", "neuron True", "neuron:0"]


def test_children_inherit_the_choice_and_deactivate_takes_it_back():
    assert run(
        """
        import os, neuron_lab
        names = ("NEURON_LAB_DEVICE", "NEURON_LAB_INSTANCE", "NEURON_LAB_CORES", "NEURON_LAB_LNC")
        neuron_lab.activate("trn2.48xlarge", cores=3, lnc=1)
        print([os.environ.get(name) for name in names])
        neuron_lab.deactivate()
        print([os.environ.get(name) for name in names])
        """,
        environ={"NEURON_LAB_LNC": "2"},
    ) == ["['emulated', 'trn2.48xlarge', '3', '1']", "[None, None, None, '2']"]


def test_deactivate_keeps_tensors_and_removes_the_standin():
    assert run(
        """
        import importlib.util, neuron_lab, torch
        neuron_lab.activate()
        import torch_neuronx
        x = torch.ones(2, device="neuron")
        neuron_lab.deactivate()
        print(importlib.util.find_spec("torch_neuronx"), (x + 1).tolist())
        info = neuron_lab.device_info()
        print(info.kind, "|", info.why, "|", info.notes[0][:35])
        """
    ) == ["None [2.0, 2.0]", "off | deactivated | the device key stays named 'neuron'"]


def test_it_can_be_activated_again_after_deactivating():
    assert run(
        """
        import neuron_lab, torch
        neuron_lab.activate()
        x = torch.ones(2, device="neuron")
        neuron_lab.deactivate()
        info = neuron_lab.activate()
        import torch_neuronx
        print(info.kind, (x + 1).tolist(), torch_neuronx.neuron is torch.neuron)
        """
    ) == ["emulated [2.0, 2.0] True"]


def test_activating_twice_is_the_same_as_once():
    assert run(
        """
        import sys, neuron_lab, torch
        first = neuron_lab.activate()
        torch.ones(1, device="neuron")
        finders = len(sys.meta_path)
        print(neuron_lab.activate() == first, len(sys.meta_path) == finders)
        """
    ) == ["True True"]


def test_the_machine_can_change_until_the_first_tensor_and_not_after():
    message = run_failing(
        """
        import neuron_lab, torch
        neuron_lab.activate()
        neuron_lab.activate("trn2.48xlarge")
        assert torch.neuron.device_count() == 64
        torch.ones(1, device="neuron:63")
        neuron_lab.activate("trn2.3xlarge")
        """
    )
    assert message == (
        "neuron_lab.errors.ActivationError: the emulated machine cannot change from trn2.48xlarge (LNC 2, 64 "
        "cores) to trn2.3xlarge (LNC 2, 4 cores): device tensors exist already; restart the kernel (or start "
        "a fresh process) and activate first"
    )


def test_an_unknown_instance_leaves_everything_as_it_was():
    assert run(
        """
        import os, sys, torch, neuron_lab
        try:
            neuron_lab.activate("trn9")
        except ValueError as error:
            print(error)
        print(torch._C._get_privateuse1_backend_name(), "NEURON_LAB_DEVICE" in os.environ)
        """
    ) == [f"unknown instance 'trn9'; valid: {', '.join(INSTANCES)}", "privateuseone False"]


def test_off_activates_nothing():
    assert run(
        "import neuron_lab, torch; print(neuron_lab.activate().why); print(hasattr(torch, 'neuron'))",
        environ={"NEURON_LAB_DEVICE": "off"},
    ) == ["NEURON_LAB_DEVICE=off asks for no device", "False"]


def test_activation_does_not_import_dynamo_but_dynamo_gets_the_interface_when_it_comes():
    assert run(
        """
        import sys, neuron_lab, torch
        neuron_lab.activate()
        (torch.ones(4, 4, device="neuron") @ torch.ones(4, 4, device="neuron")).sum().item()
        print("torch._dynamo" in sys.modules)
        from torch._dynamo.device_interface import get_interface_for_device
        print(get_interface_for_device("neuron").device_count(), get_interface_for_device("neuron:3").__name__)
        """
    ) == ["False", "4 NeuronInterface"]


def test_a_process_of_torchrun_starts_on_the_core_of_its_local_rank():
    assert run(
        """
        import threading, neuron_lab, torch
        neuron_lab.activate()
        print(torch.neuron.current_device(), torch.ones(1, device="neuron").device)
        thread = threading.Thread(target=lambda: print(torch.neuron.current_device()))
        thread.start(), thread.join()
        """,
        environ={"LOCAL_RANK": "3"},
    ) == ["3 neuron:3", "3"]


def test_no_compiler_is_said_by_the_build_not_hidden(tmp_path):
    message = run_failing(
        "import neuron_lab; neuron_lab.activate()",
        environ={"NEURON_LAB_CACHE": str(tmp_path), "PATH": str(tmp_path), "CXX": ""},
    )
    assert message.startswith("neuron_lab.errors.CoreBuildError: ")


AUTOLOAD = """
import neuron_lab.autoload, torch
neuron_lab.autoload.autoload()
print(neuron_lab.device_info().kind, hasattr(torch, "neuron"))
"""


@pytest.mark.parametrize(
    ("environ", "printed"),
    [
        ({}, "off False"),
        ({"NEURON_LAB_DEVICE": "off"}, "off False"),
        ({"NEURON_LAB_DEVICE": "emulated"}, "emulated True"),
    ],
    ids=["unset", "off", "emulated"],
)
def test_the_entry_point_acts_only_when_the_variable_asks(environ, printed):
    assert run(AUTOLOAD, environ=environ) == [printed]


def test_import_torch_brings_the_device_in_a_child_that_inherits_the_variable(tmp_path):
    metadata = tmp_path / "neuron_lab-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: neuron-lab\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\nneuron_lab = neuron_lab.autoload:autoload\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    code = "import torch; print(torch.ones(1, device='neuron').device, torch.neuron.device_count())"
    environ = {"PYTHONPATH": path, "NEURON_LAB_DEVICE": "emulated", "NEURON_LAB_CORES": "2"}
    assert run(code, environ=environ) == ["neuron:0 2"]


# With a real torch_neuronx, played by a package on the import path

REAL = """
import types, torch
torch.neuron = types.SimpleNamespace(
    device_count=lambda: {cores},
    get_device_properties=lambda index: types.SimpleNamespace(name="trn2", total_memory=25769803776),
)
"""


@pytest.fixture
def real_package(tmp_path):
    """Install a native package that reports so many cores; returns the program's first lines."""

    def install(cores):
        package = tmp_path / "torch_neuronx"
        (package / "neuron_dynamo_backend").mkdir(parents=True)
        (package / "__init__.py").write_text(REAL.format(cores=cores))
        return (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            "from neuron_lab.device import native; native.device_nodes = lambda: ['/dev/neuron0']\n"
            "import neuron_lab, torch, os\n"
        )

    return install


def test_real_hardware_is_used_as_it_is(real_package):
    code = real_package(8) + (
        "info = neuron_lab.activate()\n"
        "print(info.kind, info.chip, info.cores, info.hbm_per_core_bytes, os.environ['NEURON_LAB_DEVICE'])\n"
        "import torch_neuronx; print(hasattr(torch_neuronx, '__neuron_lab_standin__'))\n"
    )
    assert run(code) == ["hardware trn2 8 25769803776 hardware", "False"]


def test_choosing_a_machine_on_real_hardware_is_refused_with_the_cure(real_package):
    assert run_failing(real_package(8) + "neuron_lab.activate('trn2.48xlarge')") == (
        "neuron_lab.errors.UsageError: instance='trn2.48xlarge' chooses an emulated machine, but this one has "
        "real Neuron cores; leave it out, or add mode='emulated'"
    )


def test_emulating_beside_an_installed_real_package_hides_it(real_package):
    code = real_package(8) + (
        "print(neuron_lab.activate(mode='emulated').kind)\n"
        "import torch_neuronx; print(torch_neuronx.__version__)\n"
    )
    assert run(code) == ["emulated", "2.13.3.0+emulated"]
