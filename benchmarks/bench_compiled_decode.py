"""Decoding SmolLM2 with a static cache: compiled for neuron against the same decode eagerly, same tokens."""

from __future__ import annotations

import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import neuron_lab
from benchmarks.paired import paired_ratio
from neuron_lab.tutorial_models import smollm2

TOKENS = 32
PAIRS = 8


def main() -> None:
    neuron_lab.activate()
    torch.set_num_threads(1)
    name = smollm2()
    inputs = AutoTokenizer.from_pretrained(name)("The sky is blue because", return_tensors="pt").to("neuron")
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, device_map="neuron")

    def generate(*, compiled: bool) -> list[int]:
        options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
        options |= {"cache_implementation": "static", "disable_compile": not compiled}
        return model.generate(**inputs, **options)[0].tolist()

    same = generate(compiled=True) == generate(compiled=False)
    ratio = paired_ratio(
        lambda: generate(compiled=True),
        lambda: generate(compiled=False),
        pairs=PAIRS,
        clock=time.process_time,
    )
    print(
        f"SmolLM2-135M, {TOKENS} tokens, static cache, compiled / eager, processor time: {ratio}; target <= 1"
    )
    print(f"token ids equal: {same}")
    if not same:
        raise SystemExit("the compiled decode generated other tokens than the eager one")


if __name__ == "__main__":
    main()
