"""Compile the device core, once per machine and torch, into a cache that processes share.

The core is not in the wheel: it must match the torch it is loaded into, and torch cannot be asked for at
build time without an isolated build fetching a CUDA one. What is compiled is everything in `csrc/`. This module
knows how to build and where to find a build; it does not load anything.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from neuron_lab.errors import CoreBuildError

MODULE_NAME = "_neuron_core"
SOURCES_DIR = Path(__file__).parent / "csrc"
_TORCH_HEADERS = SOURCES_DIR / "precompiled" / "torch_headers.h"
"""Parsing torch's headers is most of the work, so they are precompiled once per build."""
_COMPILE_FLAGS = ("-O2", "-g0", "-fPIC", "-std=c++20", "-fvisibility=hidden", "-Wall", "-Wno-unknown-pragmas")
_LOG_LINES_SHOWN = 25
_HOW_TO_INSTALL = "install a C++20 compiler (Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"


@dataclass(frozen=True)
class CoreBuild:
    """One build of the core: where it is, and what it was made for."""

    key: str
    directory: Path
    compiler: str
    torch_version: str

    @property
    def library(self) -> Path:
        return self.directory / f"{MODULE_NAME}.so"

    @property
    def log(self) -> Path:
        return self.directory / "build.log"

    @property
    def exists(self) -> bool:
        return self.library.exists()


def cache_dir() -> Path:
    """Where builds are kept: `NEURON_LAB_CACHE`, else `~/.cache/neuron_lab`."""
    override = os.environ.get("NEURON_LAB_CACHE")
    return Path(override) if override else Path.home() / ".cache" / "neuron_lab"


def planned_build() -> CoreBuild:
    """The build this process needs, whether it exists or not."""
    compiler = _compiler_id()
    parts = [
        torch.__version__,
        str(torch.version.git_version),
        f"abi{int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        str(sysconfig.get_config_var("SOABI")),
        platform.machine(),
        compiler,
        " ".join(_COMPILE_FLAGS),
        _sources_hash(),
    ]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
    return CoreBuild(key, cache_dir() / "core" / key, compiler, torch.__version__)


def ensure_built(*, force: bool = False) -> CoreBuild:
    """Build unless a build with this key exists. Processes that ask at the same time wait for one of them."""
    build = planned_build()
    if build.exists and not force:
        return build
    from filelock import FileLock

    try:
        build.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoreBuildError(
            f"cannot make the cache directory for the device core, {build.directory}: {error}; "
            "set NEURON_LAB_CACHE to a directory you can write"
        ) from error
    with FileLock(build.directory.with_suffix(".lock")):
        if force or not build.exists:
            _compile(build)
    return build


def _sources() -> list[Path]:
    return sorted(SOURCES_DIR.glob("*.cpp"))


def _sources_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES_DIR.rglob("*.[ch]*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")


def _compiler_id() -> str:
    compiler = _compiler()
    if compiler is None:
        return "none"
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else compiler


def _require_tools() -> tuple[str, str]:
    compiler = _compiler()
    if compiler is None:
        wanted = os.environ.get("CXX", "g++")
        raise CoreBuildError(
            f"the emulated neuron device is compiled on first use, and no C++ compiler was found (looked for "
            f"{wanted} and c++ on PATH); {_HOW_TO_INSTALL}, or set CXX"
        )
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if not headers.exists():
        raise CoreBuildError(
            f"the emulated neuron device is compiled on first use, and Python's headers are missing "
            f"({headers}); install them (Debian/Ubuntu: apt install python3-dev)"
        )
    if not (_torch_dir() / "include" / "torch" / "library.h").exists():
        raise CoreBuildError(
            f"the emulated neuron device is compiled on first use, and this torch ({torch.__version__} in "
            f"{_torch_dir()}) has no C++ headers; install PyTorch from its wheel"
        )
    try:
        from ninja import BIN_DIR

        ninja = str(Path(BIN_DIR) / "ninja")
    except ImportError:
        ninja = shutil.which("ninja") or ""
    if not ninja:
        raise CoreBuildError("the device core is built with ninja, which is missing; pip install ninja")
    return compiler, ninja


def _torch_dir() -> Path:
    return Path(torch.__file__).parent


def _ninja_file(compiler: str, work: Path) -> str:
    torch_dir = _torch_dir()
    includes = [
        torch_dir / "include",
        torch_dir / "include" / "torch" / "csrc" / "api" / "include",
        Path(sysconfig.get_path("include")),
    ]
    flags = [
        *_COMPILE_FLAGS,
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-DTORCH_EXTENSION_NAME={MODULE_NAME}",
        *(f"-isystem {_escape(path)}" for path in includes),
    ]
    libraries = f"-L{_escape(torch_dir / 'lib')} -lc10 -ltorch_cpu -ltorch -ltorch_python"
    lines = [
        "ninja_required_version = 1.3",
        f"cxx = {_escape(Path(compiler))}",
        f"flags = {' '.join(flags)}",
        "rule precompile",  # gcc finds it as <torch_headers.h> in the build directory, before the plain header
        "  command = $cxx -MMD -MF $out.d $flags -x c++-header $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "rule compile",
        f"  command = $cxx -MMD -MF $out.d -I. -I{_escape(_TORCH_HEADERS.parent)} $flags -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "rule link",
        f"  command = $cxx -shared $in {libraries} -o $out",
    ]
    lines.append(f"build torch_headers.h.gch: precompile {_escape(_TORCH_HEADERS)}")
    objects = []
    for source in _sources():
        target = f"{source.stem}.o"
        objects.append(target)
        needs = " | torch_headers.h.gch" if _TORCH_HEADERS.name in source.read_text() else ""
        lines.append(f"build {target}: compile {_escape(source)}{needs}")
    lines.append(f"build {MODULE_NAME}.so: link {' '.join(objects)}")
    lines.append(f"default {MODULE_NAME}.so")
    return "\n".join(lines) + "\n"


def _escape(path: Path) -> str:
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _compile(build: CoreBuild) -> None:
    compiler, ninja = _require_tools()
    print(
        f"neuron_lab: compiling the emulated neuron device for torch {torch.__version__} "
        f"(once, about a minute) into {build.directory}",
        file=sys.stderr,
        flush=True,
    )
    started = time.monotonic()
    work = build.directory / "work"
    work.mkdir(exist_ok=True)
    (work / "build.ninja").write_text(_ninja_file(compiler, work))
    done = subprocess.run(
        [ninja, "-C", str(work), "-j", str(_jobs())],
        capture_output=True,
        text=True,
        check=False,
        env=_environ(),
    )
    build.log.write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        shown = "\n".join((done.stdout + done.stderr).splitlines()[-_LOG_LINES_SHOWN:])
        raise CoreBuildError(
            f"compiling the device core for torch {torch.__version__} with {build.compiler} failed "
            f"(full log: {build.log}). The last lines were:\n{shown}"
        )
    os.replace(work / f"{MODULE_NAME}.so", build.library)
    shutil.rmtree(work, ignore_errors=True)
    print(f"neuron_lab: compiled in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _jobs() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1))


def _environ() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}  # compiler messages in English, so that a log can be searched for
