"""Who may import whom. Each rule is one line; a violation names the file and the import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "neuron_lab"

# Each layer with what it may import of neuron_lab, besides itself. Nothing else is allowed.
MAY_IMPORT = {
    "errors": set(),
    "hardware": {"errors"},
    "trace": {"errors", "hardware"},
    "device": {"errors", "hardware", "trace"},
    "compiler": {"errors", "hardware", "trace", "device"},
    "nki": {"errors", "hardware", "trace", "device"},
    "analysis": {"errors", "hardware", "trace"},
    "reports": {"errors", "hardware", "trace", "analysis"},
    "kernel_profiles": {"errors", "hardware", "trace", "analysis", "reports", "nki"},
    "widgets": {"errors", "hardware", "trace", "analysis", "reports"},
    "session": {"errors", "hardware", "trace", "device", "compiler", "analysis", "reports", "widgets"},
    "checks": {"errors", "hardware", "trace", "device", "compiler", "analysis", "reports", "session"},
}
# The stand-in's Dynamo entry point is looked up by name in the backend that serves it: the first arrow upwards.
# `nki.profile` is offered where kernels are written, and made of reports.
EXCEPTIONS = {("device", "compiler"), ("nki", "kernel_profiles")}

FORBIDDEN = {
    "errors": {"torch", "IPython", "ipywidgets", "anywidget", "transformers"},
    "hardware": {"torch", "IPython", "ipywidgets", "anywidget", "transformers", "pandas"},
    "trace": {"torch", "IPython", "ipywidgets", "anywidget", "transformers"},
    "analysis": {"torch", "IPython", "ipywidgets", "anywidget", "transformers"},
    "reports": {"torch", "IPython", "ipywidgets", "anywidget", "transformers"},
    "device": {"IPython", "ipywidgets", "anywidget"},
    "compiler": {"IPython", "ipywidgets", "anywidget"},
    "nki": {"IPython", "ipywidgets", "anywidget", "transformers"},
    "kernel_profiles": {"torch", "IPython", "ipywidgets", "anywidget", "transformers"},
}


def modules(layer: str) -> list[Path]:
    folder = PACKAGE / layer
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{layer}.py"]


def imports(path: Path) -> set[str]:
    """Every module named in an import statement, also inside functions and TYPE_CHECKING blocks."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module == "neuron_lab":
                found |= {f"neuron_lab.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_layers_below_it(layer: str) -> None:
    allowed = MAY_IMPORT[layer] | {layer}
    wrong = []
    for path in modules(layer):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "neuron_lab" or len(parts) < 2 or parts[1] not in MAY_IMPORT:
                continue
            if parts[1] not in allowed and (layer, parts[1]) not in EXCEPTIONS:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_a_layer_keeps_heavy_libraries_out(layer: str) -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules(layer)
        for name in imports(path)
        if name.split(".")[0] in FORBIDDEN[layer]
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["trace.parquet", "analysis.totals", "reports.export", "reports.summary"])
def test_the_reading_side_loads_without_torch(module: str) -> None:
    code = f"import sys, neuron_lab.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_importing_the_package_loads_neither_torch_nor_jupyter() -> None:
    code = "import sys, neuron_lab; print(*{'torch', 'IPython', 'numpy', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == ""


def test_the_public_names_are_sorted_and_all_resolve() -> None:
    import neuron_lab

    assert neuron_lab.__all__ == sorted(neuron_lab.__all__)
    assert all(hasattr(neuron_lab, name) for name in neuron_lab.__all__)
