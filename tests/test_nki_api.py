"""The documented API by name and signature, and the name `nki` itself."""

from __future__ import annotations

import enum
import inspect
import re
import subprocess
import sys

import pytest

from neuron_lab import nki
from neuron_lab.nki import api, collectives, isa, language
from neuron_lab.nki.dtypes import STORED

MODULES = {"nki": nki, "nki.language": language, "nki.isa": isa, "nki.collectives": collectives}
REFUSED: set[tuple[str, str]] = set()  # documented names that only raise, with a reason
NAMES = [(module, name) for module, names in api.documented().items() for name in names]


def parameters(signature: str) -> list[str]:
    inner = signature[1:-1]
    plain = re.sub(r"\([^()]*\)|\[[^\]]*\]", "", inner)
    return [part.split("=")[0].strip() for part in plain.split(",") if part.strip()]


def test_the_documented_api_has_168_functions():
    assert len(NAMES) == 168


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_documented_function_exists(module, name):
    assert callable(getattr(MODULES[module], name))
    assert (module, name) not in REFUSED


@pytest.mark.parametrize(
    ("module", "name"), [pair for pair in NAMES if pair[0] in {"nki.isa", "nki.collectives"}]
)
def test_an_instruction_takes_the_documented_parameters_in_order(module, name):
    ours = list(inspect.signature(getattr(MODULES[module], name)).parameters)
    assert ours == parameters(api.documented()[module][name]["signature"])


@pytest.mark.parametrize("name", [name for module, name in NAMES if module == "nki.language"])
def test_a_language_function_takes_the_documented_parameters(name):
    ours = list(inspect.signature(getattr(language, name)).parameters)
    wanted = parameters(api.documented()["nki.language"][name]["signature"])
    assert ours == wanted


def test_every_dtype_is_a_string_that_compares_as_one():
    assert len(STORED) == 18
    for name in STORED:
        assert getattr(language, name) == name


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("engine", {"tensor": 1, "vector": 5, "scalar": 2, "gpsimd": 3, "dma": 4, "sync": 6, "unknown": 0}),
        ("reduce_cmd", {"idle": 0, "reset": 1, "reduce": 2, "reset_reduce": 3, "load_reduce": 4}),
        ("dge_mode", {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3}),
        ("oob_mode", {"error": 0, "skip": 1}),
        ("matmul_perf_mode", {"none": "none", "double_row": "double_row"}),
        ("nc_version", {"gen2": 2, "gen3": 3, "gen4": 4}),
        ("dma_engine", {"dma": 1, "gpsimd_dma": 2}),
    ],
)
def test_enumerations_have_the_documented_members(name, members):
    kind = getattr(isa, name)
    assert issubclass(kind, enum.Enum)
    assert {each.name: each.value for each in kind} == members


def test_memory_regions_and_their_names():
    assert language.hbm is language.private_hbm
    assert {each.value for each in language.MemoryRegion} == {"sbuf", "psum", "private_hbm", "shared_hbm"}


def test_tile_sizes_of_trn2(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    sizes = language.tile_size
    assert (sizes.pmax, sizes.psum_bank_fmax, sizes.gemm_moving_fmax) == (128, 512, 512)
    assert sizes.sbuf_size_bytes == 28 * 1024 * 1024
    assert sizes.psum_num_banks == 8
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "true")
    assert sizes.psum_num_banks == 7


def test_the_target_is_read_at_call_time(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "inf2")
    assert isa.get_nc_version() is isa.nc_version.gen2
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    assert isa.get_nc_version() is isa.nc_version.gen4


SERVED = """
import sys
from neuron_lab.device.standin import nki_finder as serving
serving.install()
import nki
import nki.language as nl
import nki.isa as nisa
from nki.isa.constants import engine
import nki.dtype
from nki.typing import tensor
from nki.collectives import all_reduce
import neuron_lab.nki as ours
assert nki is ours and nl is ours.language and nisa is ours.isa
assert tensor[128, 512] is tensor
assert ours.isa.__spec__.name == "neuron_lab.nki.isa"
serving.remove()
assert "nki" not in sys.modules
try:
    import nki
except ModuleNotFoundError:
    print("gone")
"""


def test_the_name_nki_is_served_and_removed():
    done = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, check=True)
    assert done.stdout == "gone\n"


def test_an_installed_nki_wins(tmp_path):
    (tmp_path / "nki.py").write_text("REAL = True\n")
    code = "from neuron_lab.device.standin import nki_finder; nki_finder.install(); import nki; print(nki.REAL)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{tmp_path}:."},
    )
    assert done.stdout == "True\n"


def test_numpy_only_use_imports_neither_torch_nor_ipython():
    code = (
        "import sys, numpy as np; from neuron_lab import nki; from neuron_lab.nki import language as nl\n"
        "def k(a):\n o = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n nl.store(o, nl.load(a))\n"
        " return o\n"
        "nki.simulate(k)(np.ones((2, 2), np.float32))\n"
        "print([m for m in ('torch', 'IPython', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
