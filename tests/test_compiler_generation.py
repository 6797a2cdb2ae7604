"""transformers' generate with a static cache compiles its decode steps by itself, with the neuron backend."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from builders import rows

import neuron_lab
from neuron_lab.compiler.observer import OBSERVER
from neuron_lab.compiler.steps import STEPS
from neuron_lab.device.source import SOURCE
from neuron_lab.trace.events import Kind, TraceHeader
from neuron_lab.trace.recorder import RECORDER

transformers = pytest.importorskip("transformers")

PROMPTS = {"A": [5, 17, 3, 99, 41], "B": [7, 250, 13, 2, 88, 61, 9, 120, 33]}
NEW_TOKENS = 8


def tiny_llama(device: str) -> transformers.LlamaForCausalLM:
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        pad_token_id=0,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval().to(device)


def answer(model: transformers.LlamaForCausalLM, prompt: str, **options: object) -> list[int]:
    tokens = torch.tensor([PROMPTS[prompt]], device=model.device)
    result = model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        **options,
    )
    return result[0].tolist()


def compiled_answers(order: str) -> list[list[int]]:
    neuron_lab.activate(instance="trn2.3xlarge")
    model = tiny_llama("neuron")
    return [answer(model, prompt, cache_implementation="static") for prompt in order]


def eager_answers(order: str) -> list[list[int]]:
    model = tiny_llama("cpu")
    return [answer(model, prompt) for prompt in order]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("order", ["ABA", "BAB"])
def test_gn_1_the_second_prompt_gets_its_own_answer(order: str) -> None:
    script = (
        f"import sys, json; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_compiler_generation as case\n"
        f"print(json.dumps(case.compiled_answers({order!r})))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.splitlines()[-1]) == eager_answers(order)


def test_decode_is_one_compiled_graph_per_token_without_breaks() -> None:
    neuron_lab.activate(instance="trn2.3xlarge")
    model = tiny_llama("neuron")
    for source in (SOURCE, OBSERVER, STEPS):
        RECORDER.add_source(source)
    recording = RECORDER.open()
    answer(model, "A", cache_implementation="static")
    trace = recording.close(TraceHeader())
    graph_ops = {i for i, signature in enumerate(trace.signatures) if signature.graph >= 0}
    executions = [s for s in trace.table(Kind.OPERATOR).column("signature").tolist() if s in graph_ops]
    assert len(trace.table(Kind.GRAPH_BREAK)) == 0
    assert len(trace.table(Kind.RECOMPILE)) == 0
    assert len(executions) == NEW_TOKENS - 1  # the first token comes from the prefill, which is not compiled
    assert rows(trace, Kind.STEP, "name", "index") == [("token", index) for index in range(NEW_TOKENS)]


def test_a_training_step_of_a_tiny_llama_is_bitwise_eagers() -> None:
    neuron_lab.activate(instance="trn2.3xlarge")
    model = tiny_llama("neuron").train()
    tokens = torch.tensor([PROMPTS["A"], PROMPTS["B"][:5]], device="neuron")

    def step(function: torch.nn.Module) -> list[torch.Tensor]:
        model.zero_grad()
        loss = function(input_ids=tokens, labels=tokens).loss
        loss.backward()
        return [loss.detach().cpu(), *(p.grad.cpu().clone() for p in model.parameters())]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, attention gradients differ by rounding on the CPU too
    try:
        expected, result = step(model), step(torch.compile(model, backend="neuron"))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(expected, result, strict=True))
