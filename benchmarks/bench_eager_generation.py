"""SmolLM2 on the emulated device against plain CPU: 32 greedy tokens, eager, float32, same token ids."""

from __future__ import annotations

import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import neuron_lab
from benchmarks.paired import paired_ratio
from neuron_lab.tutorial_models import smollm2

TOKENS = 32
PAIRS = 10


def main() -> None:
    neuron_lab.activate()
    name = smollm2()
    tokenizer = AutoTokenizer.from_pretrained(name)
    chat = [{"role": "user", "content": "Explain in three sentences why the sky is blue."}]
    inputs = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    on_cpu = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    on_neuron = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, device_map="neuron")

    def generate(model: torch.nn.Module) -> list[int]:
        options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
        return model.generate(**inputs.to(model.device), **options)[0].tolist()

    same = generate(on_cpu) == generate(on_neuron)
    ratio = paired_ratio(lambda: generate(on_neuron), lambda: generate(on_cpu), pairs=PAIRS)
    print(f"SmolLM2-135M, {TOKENS} greedy tokens, eager, neuron / CPU: {ratio}; target <= 1.05")
    torch.set_num_threads(1)
    ratio = paired_ratio(
        lambda: generate(on_neuron), lambda: generate(on_cpu), pairs=PAIRS // 2, clock=time.process_time
    )
    print(f"the same in processor time of one thread: {ratio}")
    print(f"token ids equal the CPU's: {same}")
    if not same:
        raise SystemExit("the emulated device generated other tokens than the CPU")


if __name__ == "__main__":
    main()
