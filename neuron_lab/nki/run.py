"""The state of one simulated core while it runs a kernel: memories, clocks, accumulators, findings, the log.

A *core* is one program of a launch (two with LNC 2, times the ranks). Each runs in its own thread and finds its
state here. Nothing of the time model is in here: `log` holds what it needs.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from neuron_lab.errors import UsageError
from neuron_lab.nki.dtypes import Array, DType
from neuron_lab.nki.places import Place, kernel_place
from neuron_lab.nki.random_state import RandomState
from neuron_lab.nki.storage import Access, Lifetime, MemoryRegion, Storage, blank
from neuron_lab.nki.target import Target

if TYPE_CHECKING:
    from neuron_lab.nki.turns import Turns


class Recorded(NamedTuple):
    """One instruction as the time model needs it; its position in the log is its number on that core.

    Dependencies come from overlapping accesses, from `state` (registers an opcode keeps between instructions)
    and from `after` (explicit edges). `extra` holds cost inputs that no access shows.
    """

    opcode: str
    engine: str
    writes: tuple[Access, ...]
    reads: tuple[Access, ...]
    file: str
    line: int
    name: str | None
    extra: Any = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that simulates but is probably not meant, or not accepted by the real compiler."""

    kind: str
    text: str
    place: Place


class Stopped(BaseException):
    """Another core failed, or the user interrupted: unwind without a message."""


@dataclass(slots=True, eq=False)
class Launch:
    """What the cores of one launch share."""

    target: Target
    precise: bool
    lnc: int = 1
    gridded: bool = False  # launched as kernel[n]
    ranks: int = 1
    turns: Turns | None = None
    stopped: bool = False
    shared: dict[tuple[int, int], Storage] = field(default_factory=dict)
    findings: dict[Finding, int] = field(default_factory=dict)
    mail: dict[Any, Any] = field(default_factory=dict)  # what meets at barriers, sends and collectives
    next_storage: int = 0


@dataclass(slots=True, eq=False)
class Core:
    launch: Launch
    program: int = 0
    rank: int = 0
    log: list[Recorded] | None = None
    clock: int = 0  # instructions so far
    lifetimes: list[Lifetime] = field(default_factory=list)
    placed: list[weakref.ref[Storage]] = field(default_factory=list)
    scalar_accumulator: Array | None = None
    vector_accumulator: Array | None = None
    vector_accumulator_lost: bool = False
    random: RandomState = field(default_factory=RandomState)
    shared_met: int = 0
    open_order_blocks: int = 0
    constants: dict[Any, Any] = field(default_factory=dict)
    meetings: dict[Any, int] = field(default_factory=dict)
    edges: list[tuple[int, int]] = field(default_factory=list)  # (earlier, later) instruction numbers
    order_blocks: list[tuple[int, int]] = field(default_factory=list)  # [first, end) numbers kept in order

    @property
    def target(self) -> Target:
        return self.launch.target

    def find(self, kind: str, text: str, place: Place | None = None) -> None:
        """Note it once per place, with a count."""
        finding = Finding(kind, text, place or kernel_place())
        self.launch.findings[finding] = self.launch.findings.get(finding, 0) + 1

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: MemoryRegion,
        name: str,
        address: tuple[int, int] | None = None,
    ) -> Storage:
        """A new storage; a shared tensor that both programs of a core pair meet is one."""
        if buffer is MemoryRegion.shared_hbm and self.launch.lnc > 1:
            return self._shared(shape, dtype, name)
        return self._new(shape, dtype, buffer, name, address)

    def _new(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: MemoryRegion,
        name: str,
        address: tuple[int, int] | None,
    ) -> Storage:
        number = self.launch.next_storage
        self.launch.next_storage += 1
        made = blank(
            number, shape, dtype, buffer, name, kernel_place(), precise=self.launch.precise, address=address
        )
        self.lifetimes.append(made.life)
        return made

    def _shared(self, shape: tuple[int, ...], dtype: DType, name: str) -> Storage:
        key = (self.rank, self.shared_met)
        self.shared_met += 1
        found = self.launch.shared.get(key)
        if found is None:
            found = self.launch.shared[key] = self._new(shape, dtype, MemoryRegion.shared_hbm, name, None)
        elif (found.shape, found.dtype) != (shape, dtype):
            from neuron_lab.nki.refusal import refusal

            raise refusal(
                "nl.ndarray",
                f"shared tensor {key[1]} is {list(shape)} {dtype} here and {list(found.shape)} {found.dtype} "
                "on the other program",
                cure="allocate shared tensors in the same order on both programs",
            )
        return found


class _Here(threading.local):
    core: Core | None = None


_here = _Here()


def current() -> Core:
    """The core this thread runs."""
    core = _here.core
    if core is None:
        raise UsageError(
            "nki instructions and tensors exist only inside a running kernel; "
            "put them in a function and call nki.simulate(function)(arrays)"
        )
    return core


def running_core() -> Core | None:
    """The core this thread runs, if it runs one."""
    return _here.core


class running:  # noqa: N801 - reads as a statement
    """`with running(core):` makes it the core of this thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._before: Core | None = None

    def __enter__(self) -> Core:
        self._before, _here.core = _here.core, self._core
        return self._core

    def __exit__(self, *raised: object) -> None:
        _here.core = self._before
