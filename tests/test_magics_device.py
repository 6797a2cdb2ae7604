"""`%neuron_device` and loading, in a real kernel: what is shown, chosen and refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, kernel_environment

from neuron_lab.hardware.instances import INSTANCES

pytestmark = pytest.mark.slow


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[NotebookKernel]:
    kernel = NotebookKernel(tmp_path, kernel_environment(tmp_path))
    yield kernel
    kernel.close()


def test_the_device_is_shown_chosen_and_kept(kernel: NotebookKernel) -> None:
    assert kernel.run("%load_ext neuron_lab\nimport torch").ok
    shown = kernel.run("%neuron_device")
    assert "neuron: emulated on CPU" in (shown.result or "")
    assert "<table" in shown.of_type("execute_result")[0]["content"]["data"]["text/html"]
    assert kernel.run("_.instance").result == "'trn2.3xlarge'"

    chosen = kernel.run("info = %neuron_device trn2.48xlarge --lnc 1 --cores 8")
    assert chosen.ok
    assert kernel.ask("[info.instance, info.cores, info.lnc, torch.neuron.device_count()]") == [
        *("trn2.48xlarge", 8, 1),
        8,
    ]

    kernel.run("t = torch.ones(2, device='neuron')")
    refused = kernel.run("%neuron_device trn2.3xlarge")
    assert refused.error == "ActivationError"
    (line,) = refused.of_type("error")[0]["content"]["traceback"]
    assert line.startswith("ActivationError: the emulated machine cannot change from trn2.48xlarge")

    assert kernel.run("%reload_ext neuron_lab").ok  # returns to the machine the tensors live on
    assert kernel.run("t.sum().item()").result == "2.0"
    assert "trn2.48xlarge" in (kernel.run("%neuron_device").result or "")


def test_a_first_profile_does_without_the_libraries_that_only_files_and_frames_need(
    kernel: NotebookKernel,
) -> None:
    assert kernel.run("%load_ext neuron_lab\nimport sys, torch").ok
    assert kernel.run("%%neuron_profile\nt = torch.ones(2, device='neuron')").ok
    assert kernel.ask("[name for name in ('pyarrow', 'pandas', 'transformers') if name in sys.modules]") == []


def test_a_wrong_choice_is_one_line_with_the_valid_ones(kernel: NotebookKernel) -> None:
    assert kernel.run("%load_ext neuron_lab").ok
    expected = {
        "trn9": f"unknown instance 'trn9'; valid: {', '.join(INSTANCES)}",
        "--cores few": "%neuron_device: --cores needs a whole number, got 'few'",
        "--core 2": "%neuron_device: unknown option '--core'; valid: --cores N, --lnc N, --mode MODE",
        "trn2.3xlarge twice": "%neuron_device: unexpected 'twice'; usage: %neuron_device [INSTANCE] [options]",
    }
    said = {line: kernel.run(f"%neuron_device {line}").stream("stderr") for line in expected}
    assert said == {line: f"UsageError: {message}\n" for line, message in expected.items()}
    assert "trn2.3xlarge" in (kernel.run("%neuron_device").result or "")


def test_an_unknown_machine_in_the_environment_is_one_line_at_load(tmp_path: Path) -> None:
    environment = kernel_environment(tmp_path) | {"NEURON_LAB_INSTANCE": "trn9"}
    kernel = NotebookKernel(tmp_path, environment)
    try:
        cell = kernel.run("%load_ext neuron_lab")
        magics = kernel.ask("[n for n in get_ipython().magics_manager.magics['cell'] if 'neuron' in n]")
    finally:
        kernel.close()
    assert cell.error == "UsageError"
    assert cell.stream("stderr").startswith("UsageError: unknown instance 'trn9'; valid: trn2.3xlarge")
    assert cell.stream("stderr").count("\n") == 1
    assert magics == []


def test_a_profile_without_a_device_says_how_to_get_one(kernel: NotebookKernel) -> None:
    kernel.run("%load_ext neuron_lab\nimport neuron_lab\nneuron_lab.deactivate()")
    cell = kernel.run("%%neuron_profile\nprint('ran')")
    assert (cell.error, cell.stream("stdout")) == ("ActivationError", "")
    (line,) = cell.of_type("error")[0]["content"]["traceback"]
    assert "call neuron_lab.activate() first" in line
