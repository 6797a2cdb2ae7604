"""What needs another eager kernel on the device, and what does not: counted per operator, shapes and dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch

import neuron_lab
from neuron_lab.analysis.kernels import EagerKernels

Work = Callable[[torch.Tensor], object]


def kernels(work: Work) -> tuple[EagerKernels, neuron_lab.Profile]:
    neuron_lab.activate()
    x = torch.ones(4, 8, device="neuron")
    with neuron_lab.profile() as session:
        work(x)
    return session.profile.totals().kernels, session.profile


def growing_cache(x: torch.Tensor) -> None:
    cache = x[:1]
    for _ in range(3):
        cache = torch.cat([cache, x[:1]])


def same_twice(x: torch.Tensor) -> None:
    x.sin()
    x.sin()


def other_shape(x: torch.Tensor) -> None:
    x.sin()
    x[:2].sin()


def other_dtype(x: torch.Tensor) -> None:
    half = x.to(torch.bfloat16)
    x.sin()
    half.sin()


def other_static_argument(x: torch.Tensor) -> None:
    x.sum(0)
    x.sum(1)


def views(x: torch.Tensor) -> None:
    x.view(8, 4).t()[1:].unsqueeze(0)


def last_batch(x: torch.Tensor) -> None:
    for rows in (4, 4, 3):
        x[:rows].cos()


def in_place_and_not(x: torch.Tensor) -> None:
    x.neg()
    x.neg_()


def other_number(x: torch.Tensor) -> None:
    x.clamp(min=0.0)
    x.clamp(min=1.0)


def other_values(x: torch.Tensor) -> None:
    x.cos()
    (x * 0).cos()


# name: distinct kernels the code needs
DISTINCT = {
    growing_cache: 3,
    same_twice: 1,
    other_shape: 2,
    other_dtype: 3,
    other_static_argument: 2,
    views: 0,
    last_batch: 2,
    in_place_and_not: 2,
    other_number: 2,
    other_values: 2,
}


@pytest.mark.parametrize("work", DISTINCT, ids=lambda work: work.__name__)
def test_distinct_kernels(work: Work) -> None:
    found, _ = kernels(work)
    assert found.distinct == DISTINCT[work]
    again, _ = kernels(work)
    assert (again.distinct, again.new) == (DISTINCT[work], 0)  # this process knows them now


def test_a_new_kernel_names_the_line_that_first_needs_it() -> None:
    def first_use(x: torch.Tensor) -> None:
        torch.lerp(x, x, 0.25)
        torch.lerp(x, x, 0.25)

    found, _ = kernels(first_use)
    _, first = inspect.getsourcelines(first_use)
    assert [(new.op, new.place, new.count) for new in found.new_by_op] == [
        ("aten::lerp.Scalar", f"{__file__}:{first + 1}", 1)
    ]
    assert found.hits == 1
