"""The child process of `neuron-lab check`.

    python -m neuron_lab.checks.run_script FOLDER TIMEOUT INSTANCE SCRIPT …

The script's output goes where it always goes. An empty TIMEOUT or INSTANCE means none, and the default.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from neuron_lab.checks.watched_run import WatchedRun


def main(arguments: list[str]) -> int:
    import neuron_lab

    folder, timeout, instance, script, *rest = arguments
    neuron_lab.activate(instance=instance or None, mode="emulated")
    run = WatchedRun(Path(folder), Path(script).stem, float(timeout) if timeout else None)
    sys.argv = [script, *rest]
    sys.path[0] = str(Path(script).resolve().parent)
    run.run(lambda: runpy.run_path(script, run_name="__main__"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
