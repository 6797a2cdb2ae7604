"""Marks functions whose answer does not change while a program is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def constant_when_traced(function: Function) -> Function:
    """What `torch._dynamo.assume_constant_result` does, without the second that importing Dynamo takes."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
