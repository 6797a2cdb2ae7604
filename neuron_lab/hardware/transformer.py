"""A decoder-only transformer, sharded over tensor-parallel ranks, as the operators one rank runs.

Enough to time a decode step, a prompt or a training step and to say what must fit in memory, from a model's
published dimensions alone. One pass is one compiled graph. It does not know a particular implementation: what
software adds (sampling, bucketing, paging) is not in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from neuron_lab.hardware.assumptions import DEFAULT, Assumptions
from neuron_lab.hardware.collectives import collective_cost
from neuron_lab.hardware.cost import graph_cost
from neuron_lab.hardware.graph_work import GraphWork, graph_work
from neuron_lab.hardware.instances import Instance
from neuron_lab.hardware.interval import Interval
from neuron_lab.hardware.work import item_bytes


@dataclass(frozen=True, slots=True)
class Decoder:
    """Published dimensions. `kv_heads` are the heads of keys and values; `tied` shares input and output
    table."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    head_size: int = 0  # 0: hidden / heads
    tied: bool = False

    @property
    def head_width(self) -> int:
        return self.head_size or self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        attention = self.hidden * self.head_width * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def parameters(self) -> int:
        tables = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * self.layer_parameters + tables + self.hidden

    def cache_bytes_per_token(self, dtype: str = "bfloat16") -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_width * item_bytes(dtype)


LLAMA_3_8B = Decoder("Llama-3-8B", 32, 4096, 32, 8, 14336, 128256)
LLAMA_3_70B = Decoder("Llama-3-70B", 80, 8192, 64, 8, 28672, 128256)
LLAMA_2_7B = Decoder("Llama-2-7b", 32, 4096, 32, 32, 11008, 32000)
LLAMA_2_13B = Decoder("Llama-2-13b", 40, 5120, 40, 40, 13824, 32000)
LLAMA_2_70B = Decoder("Llama-2-70b", 80, 8192, 64, 8, 28672, 32000)
LLAMA_31_405B = Decoder("Llama-3.1-405B", 126, 16384, 128, 8, 53248, 128256)
MISTRAL_7B = Decoder("Mistral-7B-Instruct-v0.2", 32, 4096, 32, 8, 14336, 32000)

DECODERS = {
    each.name: each
    for each in (LLAMA_3_8B, LLAMA_3_70B, LLAMA_2_7B, LLAMA_2_13B, LLAMA_2_70B, LLAMA_31_405B, MISTRAL_7B)
} | {"Llama-3.1-8B": LLAMA_3_8B}


@dataclass(frozen=True, slots=True)
class Spec:
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    op: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    static: str = ""


@dataclass(frozen=True)
class Estimate:
    """One pass on one rank: kernels and collectives one after the other, and what each part takes."""

    compute_ns: Interval
    collective_ns: Interval
    launch_ns: Interval
    collectives: int
    flops: int

    @property
    def total_ns(self) -> Interval:
        return self.compute_ns + self.collective_ns + self.launch_ns


def decode_step(
    model: Decoder,
    instance: Instance,
    *,
    ranks: int,
    batch: int = 1,
    length: int,
    weights: str = "bfloat16",
    lnc: int | None = None,
    assumptions: Assumptions = DEFAULT,
) -> Estimate:
    """One new token for each of `batch` sequences. At best the cache is empty, at worst `length` tokens
    long."""
    short = _pass(model, instance, ranks, batch, 1, 1, weights, lnc, assumptions)
    long = _pass(model, instance, ranks, batch, 1, length, weights, lnc, assumptions)
    return Estimate(
        Interval(short.compute_ns.low, long.compute_ns.high),
        long.collective_ns,
        long.launch_ns,
        long.collectives,
        long.flops,
    )


def prompt_pass(
    model: Decoder,
    instance: Instance,
    *,
    ranks: int,
    batch: int = 1,
    length: int,
    weights: str = "bfloat16",
    lnc: int | None = None,
    assumptions: Assumptions = DEFAULT,
) -> Estimate:
    """All tokens of a prompt at once, up to the first new token."""
    return _pass(model, instance, ranks, batch, length, length, weights, lnc, assumptions)


def training_step(
    model: Decoder,
    instance: Instance,
    *,
    ranks: int,
    replicas: int = 1,
    batch: int,
    length: int,
    lnc: int | None = None,
    assumptions: Assumptions = DEFAULT,
) -> Estimate:
    """One optimizer step over `batch` sequences, `batch / replicas` per replica, one at a time.

    Backward is twice the forward work; at worst the forward pass is computed again for it. The gradients are
    reduced over the replicas once: at best behind the backward pass, at worst after it.
    """
    forward = _pass(model, instance, ranks, 1, length, length, "bfloat16", lnc, assumptions)
    turns = ceil(batch / replicas)
    compute = Interval(3 * forward.compute_ns.low, 4 * forward.compute_ns.high).scale(turns)
    collective = Interval(2 * forward.collective_ns.low, 3 * forward.collective_ns.high).scale(turns)
    gradient_ns = 0.0
    if replicas > 1:
        share = model.parameters * item_bytes("float32") / ranks
        machines = max(1, ceil(replicas * ranks / instance.cores(lnc)))
        spread = replicas * ranks if machines > 1 else replicas
        gradient_ns = collective_cost("all_reduce", share * ranks, spread, instance, lnc, assumptions).high_ns
    return Estimate(
        compute,
        collective + Interval(0, gradient_ns),
        assumptions.launch_ns.interval.scale(2 * turns + 1),
        2 * forward.collectives * turns,
        3 * forward.flops * turns,
    )


def layer_nodes(model: Decoder, ranks: int, batch: int, new: int, context: int, weights: str) -> list[Node]:
    """One layer on one rank: `new` tokens per sequence that look at `context` tokens."""
    heads = max(1, ceil(model.heads / ranks))
    kv_heads = max(1, ceil(model.kv_heads / ranks))  # fewer heads than ranks: each rank keeps a copy
    width, tokens = model.head_width, batch * new
    wide = ceil(model.intermediate / ranks)
    x = Spec("bfloat16", (tokens, model.hidden))
    gate = Spec("bfloat16", (tokens, wide))
    query = Spec("bfloat16", (batch, heads, new, width))
    keys = Spec("bfloat16", (batch, kv_heads, context, width))
    attended = Spec("bfloat16", (tokens, heads * width))
    joined = (heads + 2 * kv_heads) * width
    return [
        Node("aten::rms_norm", (x,), (x,)),
        Node("aten::mm", (x, Spec(weights, (model.hidden, joined))), (Spec("bfloat16", (tokens, joined)),)),
        Node("aten::mul", (query, query), (query,)),  # rotation of the positions
        Node("aten::scaled_dot_product_attention", (query, keys, keys), (query,)),
        Node("aten::mm", (attended, Spec(weights, (heads * width, model.hidden))), (x,)),
        Node("aten::add", (x, x), (x,)),
        Node("aten::rms_norm", (x,), (x,)),
        Node("aten::mm", (x, Spec(weights, (model.hidden, 2 * wide))), (Spec("bfloat16", (tokens, 2 * wide)),)),
        Node("aten::silu", (gate,), (gate,)),
        Node("aten::mul", (gate, gate), (gate,)),
        Node("aten::mm", (gate, Spec(weights, (wide, model.hidden))), (x,)),
        Node("aten::add", (x, x), (x,)),
    ]


def head_nodes(model: Decoder, ranks: int, batch: int, weights: str) -> list[Node]:
    """The last norm and this rank's part of the vocabulary, for one token of each sequence."""
    x = Spec("bfloat16", (batch, model.hidden))
    logits = Spec("bfloat16", (batch, ceil(model.vocabulary / ranks)))
    table = Spec(weights, (model.hidden, ceil(model.vocabulary / ranks)))
    return [Node("aten::rms_norm", (x,), (x,)), Node("aten::mm", (x, table), (logits,))]


def _pass(
    model: Decoder,
    instance: Instance,
    ranks: int,
    batch: int,
    new: int,
    context: int,
    weights: str,
    lnc: int | None,
    assumptions: Assumptions,
) -> Estimate:
    grouping = instance.lnc(lnc)
    layer = graph_work(layer_nodes(model, ranks, batch, new, context, weights))
    head = graph_work(head_nodes(model, ranks, batch, weights))
    parts = [
        graph_cost(part, instance.chip, grouping, assumptions).interval_ns.scale(times)
        for part, times in ((layer, model.layers), (head, 1))
    ]
    reduced = 2 * batch * new * model.hidden
    each = collective_cost("all_reduce", reduced, ranks, instance, lnc, assumptions).interval_ns
    count = 2 * model.layers if ranks > 1 else 0
    return Estimate(
        parts[0] + parts[1],
        each.scale(count),
        assumptions.launch_ns.interval,
        count,
        model.layers * flops_of(layer) + flops_of(head),
    )


def flops_of(*graphs: GraphWork) -> int:
    return sum(node.flops for graph in graphs for node in graph.nodes)


def all_parameters(models: Sequence[Decoder]) -> dict[str, int]:
    return {model.name: model.parameters for model in models}
