"""Functions that look as if they broke the graph and do not: one graph each, no break to report."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
import torch.nn.functional as functional

Tensor = torch.Tensor


def prints_only_when_not_compiling(x: Tensor) -> Tensor:
    if not torch.compiler.is_compiling():
        print("eager")
    return x + 1


def branches_on_a_shape(x: Tensor) -> Tensor:
    if x.shape[0] > 2:
        return x + 1
    return x - 1


def chooses_with_where(x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, x + 1, x - 1)


def masks_without_changing_the_shape(x: Tensor) -> Tensor:
    return x.masked_fill(x > 0, 0.0)


def loops_over_a_range(x: Tensor) -> Tensor:
    for k in range(3):
        x = x + k
    return x


def loops_while_on_a_number(x: Tensor) -> Tensor:
    k = 0
    while k < 3:
        x, k = x + k, k + 1
    return x


def asserts_on_a_shape(x: Tensor) -> Tensor:
    assert x.shape[0] == 4, "four are needed"
    return x + 1


def formats_a_shape(x: Tensor) -> Tensor:
    name = f"{x.shape[0]} elements"
    return x + len(name)


def computes_in_numpy(x: Tensor) -> Tensor:
    return x + torch.from_numpy(np.sin(np.ones(4, dtype=np.float32)))


def computes_with_math(x: Tensor) -> Tensor:
    return x * math.sqrt(x.shape[-1])


def closes_over_a_constant(x: Tensor) -> Tensor:
    factor = 3

    def scaled(value: Tensor) -> Tensor:
        return value * factor

    return scaled(x)


def consumes_a_generator(x: Tensor) -> Tensor:
    return sum((x + k for k in range(3)), x)


@dataclasses.dataclass
class Settings:
    factor: int = 2


def uses_a_dataclass(x: Tensor) -> Tensor:
    return x * Settings(3).factor


def catches_what_is_raised(x: Tensor) -> Tensor:
    try:
        raise ValueError("caught below")
    except ValueError:
        return x + 1


def unpacks_wrongly_and_catches_it(x: Tensor) -> Tensor:
    try:
        a, b = (x, x + 1, x + 2)
    except ValueError:
        return x + 3
    return a + b


def enters_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x + 1


def enters_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return functional.linear(x, torch.ones(4, 4))


def changes_a_temporary_in_place(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(1)
    return y


def fills_a_dictionary(x: Tensor) -> Tensor:
    found = {"a": x}
    found["b"] = found["a"] + 1
    return found["b"]


def asks_for_the_dtype(x: Tensor) -> Tensor:
    return x.to(torch.float16) if x.dtype == torch.float64 else x + 1


def attends(x: Tensor) -> Tensor:
    q = x.reshape(1, 1, 1, 4)
    return functional.scaled_dot_product_attention(q, q, q)


def takes_the_item_of_a_number(x: Tensor) -> Tensor:
    return x * float("2.5")
