"""The `torch.backends` entry point: `import torch` calls it in every environment that has neuron_lab installed.

It does nothing unless `NEURON_LAB_DEVICE` is set, as `activate()` does for child processes. PyTorch turns an
error here into a failed `import torch` that names this package, which is right: a process that was told to use
the device must not run without it.
"""

from __future__ import annotations

import os


def autoload() -> None:
    if os.environ.get("NEURON_LAB_DEVICE", "").strip().lower() in ("", "off"):
        return
    from neuron_lab.device.activation import activate

    activate()
