"""The probe for the real `torch_neuronx`, with fake installations on the import path of a fresh process."""

import subprocess
import sys
import textwrap

PROBE = """
import sys
sys.path.insert(0, {folder!r})
from neuron_lab.device import native
native.device_nodes = lambda: {nodes!r}
found = native.probe()
print(found.cores)
print(found.reason)
print("torch_neuronx" in sys.modules)
"""

FAKE_NATIVE = """
import types, torch
torch.neuron = types.SimpleNamespace(device_count=lambda: {cores})
"""


def install(folder, init_text, native=True):
    package = folder / "torch_neuronx"
    package.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(init_text))
    if native:
        (package / "neuron_dynamo_backend").mkdir()


def probe(folder, nodes):
    code = PROBE.format(folder=str(folder), nodes=nodes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cores, reason, imported = done.stdout.splitlines()
    return int(cores), reason, imported == "True"


def test_native_package_with_cores_is_hardware(tmp_path):
    install(tmp_path, FAKE_NATIVE.format(cores=8))
    assert probe(tmp_path, ["/dev/neuron0"]) == (8, "torch_neuronx reports 8 cores", True)


def test_native_package_without_cores_is_not_hardware(tmp_path):
    install(tmp_path, FAKE_NATIVE.format(cores=0))
    assert probe(tmp_path, ["/dev/neuron0"]) == (0, "torch_neuronx is installed but reports no cores", True)


def test_without_the_driver_the_real_package_is_not_even_imported(tmp_path):
    install(tmp_path, FAKE_NATIVE.format(cores=8))
    cores, reason, imported = probe(tmp_path, [])
    assert (cores, imported) == (0, False)
    assert reason == "torch_neuronx is installed, but there is no Neuron driver here (no /dev/neuron*)"


def test_the_older_xla_product_of_the_same_name_is_not_imported(tmp_path):
    install(tmp_path, "raise RuntimeError('imported')", native=False)
    cores, reason, imported = probe(tmp_path, ["/dev/neuron0"])
    assert (cores, imported) == (0, False)
    assert reason.endswith("is the older XLA product")


def test_a_package_that_fails_to_import_gives_its_own_words_as_the_reason(tmp_path):
    install(tmp_path, "raise ImportError('libnrt.so.1 is missing')")
    cores, reason, _ = probe(tmp_path, ["/dev/neuron0"])
    assert cores == 0
    assert reason == "torch_neuronx is installed but does not import: ImportError: libnrt.so.1 is missing"
