"""Operators that exist for out-of-tree devices only, computed over CPU aliases in a compiled graph.

`scaled_dot_product_attention` on the device becomes an operator of its own, which the device's kernel
computes with the CPU's flash attention. Here the same is done over aliases, so a compiled graph gives eager
mode's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    output, logsumexp = _aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_bias, scale=scale
    )
    seed, offset = torch.empty((), dtype=torch.int64), torch.empty((), dtype=torch.int64)
    return output, logsumexp, None, None, query.shape[2], key.shape[2], seed, offset, None


def _attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    grad_input_mask: list[bool],
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    gradients = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask=attn_bias, scale=scale
    )
    return (*gradients, None)


CPU_FORMS: dict[Any, Callable[..., Any]] = {
    _aten._scaled_dot_product_fused_attention_overrideable.default: _attention,
    _aten._scaled_dot_product_fused_attention_overrideable_backward.default: _attention_backward,
}
"""By operator overload. The arguments are the operator's own."""


def has_cpu_kernel(target: torch._ops.OpOverload) -> bool:
    """Whether an operator can run over CPU tensors as it is."""
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(target.name(), "CPU"))
