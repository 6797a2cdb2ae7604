"""Ranges, device loops, the launch grid, and ordering blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.registers import VirtualRegister, integer
from neuron_lab.nki.run import current
from neuron_lab.nki.storage import HBM, ON_CHIP, PSUM, SBUF, MemoryRegion


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """`range`; deprecated."""
    return range(start) if stop is None else range(start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """`range`; deprecated."""
    return affine_range(start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """`range`; deprecated."""
    return affine_range(start, stop, step)


def dynamic_range(start: Any, stop: Any = None, step: Any = 1) -> Iterator[VirtualRegister]:
    """A device loop: the induction value is a frozen register."""
    _no_device_loop_in_order_block("nl.dynamic_range")
    first, last = (0, integer(start)) if stop is None else (integer(start), integer(stop))
    return _registers(first, last, _positive("nl.dynamic_range", step))


def _registers(first: int, last: int, step: int) -> Iterator[VirtualRegister]:
    for value in range(first, last, step):
        yield VirtualRegister(value, frozen=True)


def _positive(loop: str, step: Any) -> int:
    if not isinstance(step, int) or step < 1:
        raise refusal(loop, f"step={step!r}", cure="use a positive integer", value=step, limit=1)
    return step


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[VirtualRegister], Any], step: int = 1) -> None:
    """`body_fun(i)` for i in [lower, upper); the body returns nothing."""
    _no_device_loop_in_order_block("nl.fori_loop")
    for value in range(integer(lower), integer(upper), _positive("nl.fori_loop", step)):
        if body_fun(VirtualRegister(value)) is not None:
            raise refusal("nl.fori_loop", "the body returned a value", cure="write results into a tensor")


def while_loop(init: Any, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """`while r: r = body_fun(r)`."""
    _no_device_loop_in_order_block("nl.while_loop")
    register = init if isinstance(init, VirtualRegister) else VirtualRegister(integer(init))
    while register.value != 0:
        register = body_fun(register)
        if not isinstance(register, VirtualRegister):
            raise refusal("nl.while_loop", f"the body returned {register!r}", cure="return the next register")


def _no_device_loop_in_order_block(loop: str) -> None:
    if current().open_order_blocks:
        raise refusal(loop, "a device loop inside nl.no_reorder()", cure="unroll it with range, or move it out")


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside keep program order."""
    core = current()
    first = core.clock
    core.open_order_blocks += 1
    try:
        yield
    finally:
        core.open_order_blocks -= 1
        core.order_blocks.append((first, core.clock))


def program_id(axis: int = 0) -> int:
    """Index of this core in the launch."""
    _axis("nl.program_id", axis)
    return current().program


def num_programs(axes: Any = 0) -> int:
    """Cores in the launch."""
    return current().launch.lnc


def program_ndim() -> int:
    """Rank of the launch grid: 0 without one."""
    return 1 if current().launch.gridded else 0


def _axis(function: str, axis: int) -> None:
    if axis != 0:
        raise refusal(
            function, f"axis {axis} of a launch with one axis", cure="use axis=0", value=axis, limit=0
        )


def ds(start: Any, size: int) -> slice:
    """`slice(start, start + size)`."""
    first = integer(start)
    return slice(first, first + int(size))


def is_hbm(buffer: MemoryRegion) -> bool:
    return buffer in HBM


def is_sbuf(buffer: MemoryRegion) -> bool:
    return buffer is SBUF


def is_psum(buffer: MemoryRegion) -> bool:
    return buffer is PSUM


def is_on_chip(buffer: MemoryRegion) -> bool:
    return buffer in ON_CHIP
