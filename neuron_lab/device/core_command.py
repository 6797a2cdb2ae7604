"""`neuron-lab core build` and `neuron-lab core info`: compile the device core ahead of time, describe it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from neuron_lab.device.build import CoreBuild, ensure_built, planned_build


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status. Raises CoreBuildError when the core cannot be built."""
    parser = argparse.ArgumentParser(prog="neuron-lab core", description="The emulated device's compiled core.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="compile it now, unless this machine has it already")
    build.add_argument("--force", action="store_true", help="compile even when a build exists")
    verbs.add_parser("info", help="where it is, and what it was built for")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "build":
        print(ensure_built(force=chosen.force).library)
    else:
        print(describe(planned_build()))
    return 0


def describe(build: CoreBuild) -> str:
    """The facts of one build, a line each."""
    state = f"{build.library.stat().st_size / 1e6:.1f} MB" if build.exists else "not built yet"
    return "\n".join(
        [
            f"library   {build.library} ({state})",
            f"key       {build.key}",
            f"torch     {build.torch_version}",
            f"compiler  {build.compiler}",
        ]
    )
