"""What recording costs: the same eager generation with a profile open and without, and under torch.profiler."""

from __future__ import annotations

import time

import torch
from torch.profiler import ProfilerActivity
from transformers import AutoModelForCausalLM, AutoTokenizer

import neuron_lab
from benchmarks.paired import paired_ratio
from neuron_lab.tutorial_models import smollm2

TOKENS = 32
PAIRS = 12


def main() -> None:
    neuron_lab.activate()
    name = smollm2()
    tokenizer = AutoTokenizer.from_pretrained(name)
    inputs = tokenizer("The sky is blue because", return_tensors="pt").to("neuron")
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, device_map="neuron")

    def plain() -> None:
        model.generate(**inputs, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False)

    def profiled() -> None:
        with neuron_lab.profile():
            plain()

    def torch_profiled() -> None:
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]):
            plain()

    ratio = paired_ratio(profiled, plain, pairs=PAIRS)
    print(f"SmolLM2-135M, {TOKENS} greedy tokens, neuron_lab.profile on / off: {ratio}; target <= 1.03")
    torch.set_num_threads(1)
    ratio = paired_ratio(profiled, plain, pairs=PAIRS // 2, clock=time.process_time)
    print(f"the same in processor time of one thread: {ratio}")
    other = paired_ratio(torch_profiled, plain, pairs=6, clock=time.process_time)
    print(f"torch.profiler on / off, processor time of one thread: {other}")


if __name__ == "__main__":
    main()
