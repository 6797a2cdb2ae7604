"""Libraries remember whether a `neuron` device exists; this makes the ones already imported ask again.

It touches only what is in `sys.modules` and imports nothing. Read from the sources of transformers 5.24,
accelerate 1.15, diffusers 0.42 and torch 2.13; a library that renames these functions simply has nothing to
clear here.
"""

from __future__ import annotations

import sys

CACHED_FUNCTIONS = (
    ("transformers.utils.import_utils", "is_torch_neuron_available"),
    ("transformers.utils.import_utils", "is_torch_neuroncore_available"),
    ("transformers.utils.import_utils", "is_torch_bf16_gpu_available"),
    ("transformers.utils.import_utils", "is_torch_fp16_available_on_device"),
    ("accelerate.utils.imports", "is_neuron_available"),
    ("torch._dynamo.backends.registry", "_lazy_import"),  # both remember the compile backends' entry points
    ("torch._dynamo.backends.registry", "_discover_entrypoint_backends"),
)


def forget_answers() -> None:
    """Clear the cached answers of every imported library."""
    for module_name, function_name in CACHED_FUNCTIONS:
        function = getattr(sys.modules.get(module_name), function_name, None)
        clear = getattr(function, "cache_clear", None)
        if clear is not None:
            clear()
    detector = getattr(sys.modules.get("diffusers.utils.torch_utils"), "TorchDeviceBackend", None)
    clear = getattr(getattr(detector, "_detect_device_type", None), "cache_clear", None)
    if clear is not None:
        clear()


def frozen_answers() -> list[str]:
    """One sentence, with its cure, for each library whose answer cannot be asked again."""
    found = []
    if getattr(sys.modules.get("diffusers.utils.import_utils"), "_torch_neuronx_available", None) is False:
        found.append(
            "diffusers was imported before the neuron device existed and keeps its answer; "
            "restart the kernel and activate before importing diffusers"
        )
    shared = getattr(getattr(sys.modules.get("accelerate.state"), "PartialState", None), "_shared_state", None)
    device = shared.get("device") if isinstance(shared, dict) else None
    if device is not None and device.type != "neuron":
        found.append(
            f"accelerate has already chosen the device {device} for this process; "
            "call accelerate.state.AcceleratorState._reset_state(True) or restart the kernel"
        )
    return found
