"""Memory by category and place; and that any history replays exactly as in a plain allocator."""

from typing import Any

from builders import Event, make_event, make_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_lab.analysis.memory import memory
from neuron_lab.analysis.memory_use import memory_use
from neuron_lab.trace.events import Frame, Kind


def alloc(start_ns: int, size: int, block: int, category: str = "", **columns: Any) -> Event:
    return make_event(
        Kind.ALLOC,
        start_ns=start_ns,
        size_bytes=size,
        block=block,
        category=category,
        allocated_bytes=-1,
        **columns,
    )


def free(start_ns: int, size: int, block: int) -> Event:
    return make_event(Kind.FREE, start_ns=start_ns, size_bytes=size, block=block, allocated_bytes=-1)


def test_the_peak_is_told_apart_by_category() -> None:
    trace = make_trace(
        alloc(0, 100, 1, "parameters"), alloc(1, 30, 2, "activations"), free(2, 30, 2), alloc(3, 50, 3, "cache")
    )
    (use,) = memory_use(trace) or ()
    assert (use.peak_bytes, use.at_ns) == (150, 3)
    assert use.by_category == {"parameters": 100, "cache": 50}
    assert use.category_peak_bytes == {"parameters": 100, "activations": 30, "cache": 50}


def test_an_allocation_without_a_category_counts_as_other() -> None:
    (use,) = memory_use(make_trace(alloc(0, 8, 1), alloc(1, 4, 2, "cache"))) or ()
    assert use.by_category == {"other": 8, "cache": 4}


def test_the_peak_is_told_apart_by_line() -> None:
    stacks = [(Frame("model.py", 3, "f"),), (Frame("model.py", 9, "g"),)]
    trace = make_trace(
        alloc(0, 5, 1, "cache", stack=0), alloc(1, 7, 2, stack=1), alloc(2, 5, 3, stack=0), stacks=stacks
    )
    (use,) = memory_use(trace) or ()
    assert use.by_place == {"model.py:3": 10, "model.py:9": 7}


def test_without_stacks_there_is_no_reading_of_places() -> None:
    (use,) = memory_use(make_trace(alloc(0, 5, 1, "cache"))) or ()
    assert use.by_place is None


def test_without_blocks_there_is_no_reading() -> None:
    assert memory_use(make_trace(make_event(Kind.ALLOC, size_bytes=4))) is None


def test_a_block_used_again_belongs_to_its_newest_allocation() -> None:
    trace = make_trace(alloc(0, 10, 1, "cache"), free(1, 10, 1), alloc(2, 20, 1, "gradients"), free(3, 20, 1))
    (use,) = memory_use(trace) or ()
    assert (use.peak_bytes, use.by_category) == (20, {"gradients": 20})


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, int, str]]:
    """(what, size, block, category): blocks are given back at random; one allocator, one event per moment."""
    alive: dict[int, tuple[int, str]] = {}
    steps = []
    for block in range(draw(st.integers(1, 40))):
        if alive and draw(st.booleans()):
            gone = draw(st.sampled_from(sorted(alive)))
            size, category = alive.pop(gone)
            steps.append(("free", size, gone, category))
        size = draw(st.integers(1, 1000))
        category = draw(st.sampled_from(["parameters", "cache", "activations"]))
        alive[block] = (size, category)
        steps.append(("alloc", size, block, category))
    return steps


class Allocator:
    """The plainest allocator there is."""

    def __init__(self) -> None:
        self.alive: dict[int, tuple[int, str]] = {}
        self.peak = 0
        self.at_peak: dict[str, int] = {}

    def change(self, what: str, size: int, block: int, category: str) -> int:
        if what == "alloc":
            self.alive[block] = (size, category)
        else:
            del self.alive[block]
        level = sum(each for each, _ in self.alive.values())
        if level > self.peak:
            self.peak = level
            self.at_peak = {}
            for each, name in self.alive.values():
                self.at_peak[name] = self.at_peak.get(name, 0) + each
        return level


@given(histories())
@settings(max_examples=100, deadline=None)
def test_any_history_replays_as_in_a_plain_allocator(history: list[tuple[str, int, int, str]]) -> None:
    plain = Allocator()
    events = []
    for moment, (what, size, block, category) in enumerate(history):
        level = plain.change(what, size, block, category)
        kind = Kind.ALLOC if what == "alloc" else Kind.FREE
        extra = {"category": category} if what == "alloc" else {}
        events.append(
            make_event(kind, start_ns=moment, size_bytes=size, block=block, allocated_bytes=level, **extra)
        )
    trace = make_trace(*events)
    (core,) = memory(trace)
    (use,) = memory_use(trace) or ()
    assert (core.peak_bytes, core.start_bytes, core.end_bytes) == (plain.peak, 0, level)
    assert (use.peak_bytes, use.by_category) == (plain.peak, plain.at_peak)
