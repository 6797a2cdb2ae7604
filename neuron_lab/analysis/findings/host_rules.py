"""Rules about the host: fallbacks, read-backs, copies, timing, steps, compilation."""

from __future__ import annotations

import statistics

import numpy as np

from neuron_lab.analysis.fallbacks import fallbacks
from neuron_lab.analysis.findings.finding import Finding, Subject, first_rows, per_step_spans
from neuron_lab.analysis.modelled import READ_BACK, read_backs
from neuron_lab.analysis.step_counts import StepRows, per_step
from neuron_lab.analysis.two_ends import Array
from neuron_lab.hardware.cost import compile_seconds
from neuron_lab.trace.events import UNFINISHED, Kind

OFTEN = 3
TOKEN = "token"
SMALL_COPY_BYTES = 4096


def fallback_on_the_hot_path(subject: Subject) -> Finding | None:
    """An operator that the host computes in every step, or over and over without steps."""
    table = subject.table(Kind.FALLBACK)
    if not len(table):
        return None
    starts = table.column("start_ns")
    hot = [steps.name for steps in subject.steps if len(steps.start_ns) > 1 and _in_most(steps, starts)]
    if not hot and (subject.steps or len(table) < 10 * OFTEN):
        return None
    worst = fallbacks(subject.trace)[0]
    each = f"every {hot[0]}" if hot else "a loop"
    return Finding(
        "fallback_on_the_hot_path",
        "high",
        f"{worst.op} {worst.reason or 'is computed on the host'} in {each} ({len(table):,} fallbacks)",
        f"replace {worst.op}, or move it out of the loop; each run copies its tensors to the host and back",
        Kind.FALLBACK,
        first_rows(np.ones(len(table), bool)),
        len(table),
        worst.place,
    )


def _in_most(steps: StepRows, starts: Array) -> bool:
    counts = per_step_spans(steps, starts)
    return sum(count > 0 for count in counts) > len(counts) / 2


def read_back_every_step(subject: Subject) -> Finding | None:
    """Every optimizer step asks for a result, so the host cannot run ahead. (Generation has to, per token.)"""
    table = subject.table(Kind.COPY)
    back = table.matches("direction", READ_BACK)
    for steps in subject.steps:
        counts = per_step_spans(steps, table.column("start_ns")[back])
        if "optimizer" in steps.name and len(counts) >= OFTEN and min(counts) >= 1:
            return Finding(
                "read_back_every_step",
                "medium",
                f"every {steps.name} reads {statistics.median(counts):g} results back and waits for the device",
                "read losses every few steps, and keep counters on the device",
                Kind.COPY,
                first_rows(back),
                int(back.sum()),
            )
    return None


def many_small_copies(subject: Subject) -> Finding | None:
    """A hundred copies to the device, most of them of a page or less."""
    table = subject.table(Kind.COPY)
    sizes = table.column("size_bytes")
    small = table.matches("direction", "h2d") & (sizes >= 0) & (sizes <= SMALL_COPY_BYTES)
    if int(small.sum()) < 100:
        return None
    return Finding(
        "many_small_copies",
        "medium",
        f"{int(small.sum()):,} copies to the device move {SMALL_COPY_BYTES} bytes or less each",
        "make scalars and masks on the device, and move batches in one piece",
        Kind.COPY,
        first_rows(small),
        int(small.sum()),
    )


def unsynchronised_timing(subject: Subject) -> Finding | None:
    """A named range launches kernels and ends without waiting: on the device it would time launches alone."""
    marks, operators = subject.table(Kind.MARK), subject.table(Kind.OPERATOR)
    begins, lengths = marks.column("start_ns"), marks.column("duration_ns")
    launched = np.sort(operators.column("start_ns")[subject.timeline.rows])
    waits = np.concatenate([read_backs(subject.trace, rank) for rank in subject.trace.header.ranks])
    names, found = marks.strings("name"), []
    for row, (begin, length) in enumerate(zip(begins.tolist(), lengths.tolist(), strict=True)):
        if length == UNFINISHED or "#" in names[row] or "::" in names[row]:
            continue  # torch names ranges of its own like Optimizer.step#AdamW.step
        inside = launched[(launched >= begin) & (launched < begin + length)]
        if len(inside) and not ((waits > inside[-1]) & (waits <= begin + length)).any():
            found.append(row)
    if not found:
        return None
    return Finding(
        "unsynchronised_timing",
        "medium",
        f"{len(found)} named ranges end before the device does, {names[found[0]]!r} first",
        "call torch.neuron.synchronize() before reading the clock",
        Kind.MARK,
        tuple(found[:20]),
        len(found),
    )


def first_iteration_counted(subject: Subject) -> Finding | None:
    """The first step compiles and the others do not: an average over all steps is not the steady state."""
    new = np.concatenate(
        [subject.table(Kind.EAGER_KERNEL).column("start_ns"), subject.table(Kind.COMPILE).column("start_ns")]
    )
    for steps in subject.steps:
        walls = (steps.end_ns - steps.start_ns).tolist()
        counts = per_step_spans(steps, new)
        if len(walls) < OFTEN or not counts[0] or any(counts[1:]):
            continue
        usual = statistics.median(walls[1:])
        if walls[0] > 2 * usual:
            return Finding(
                "first_iteration_counted",
                "low",
                f"the first {steps.name} took {walls[0] / max(1, usual):.1f} times the others' wall "
                f"time: it compiled",
                "warm up before profiling, or leave the first step out of averages",
                Kind.STEP,
                (0,),
                1,
            )
    return None


def growing_cache(subject: Subject) -> Finding | None:
    """Every generated token needs kernels on floating-point tensors that no token before needed.

    The list of token ids grows too, with any cache; its kernels are few, small and on integers.
    """
    for steps, counted in zip(subject.steps, subject.kernels.steps, strict=True):
        if counted.keeps_compiling and steps.name == TOKEN:
            unseen = _unseen_on_floats(subject, steps)
            if min(unseen[1:]) == 0:
                continue
            per_token = statistics.median(unseen[1:])
            return Finding(
                "growing_cache",
                "high",
                f"every {steps.name} needs {per_token:g} more kernels for shapes not seen before: the cache "
                f"of keys and values keeps growing",
                "use a cache of fixed length: generate(cache_implementation='static'), and padded prompts",
                Kind.EAGER_KERNEL,
                (),
                sum(unseen),
                gain_ns=compile_seconds(sum(unseen[1:]), []).scale(1e9),
            )
    return None


def _unseen_on_floats(subject: Subject, steps: StepRows) -> list[int]:
    """Per step: kernels with a floating-point input whose first use in the profile falls into it."""
    operators, signatures = subject.table(Kind.OPERATOR), subject.trace.signatures
    ids, first = np.unique(operators.column("signature"), return_index=True)
    on_floats = [
        index >= 0
        and signatures[index].compiles
        and signatures[index].graph < 0
        and any(each.dtype.startswith(("float", "bfloat")) for each in signatures[index].inputs)
        for index in ids.tolist()
    ]
    return per_step(steps, operators.column("start_ns")[first[np.array(on_floats, bool)]]).tolist()


def new_kernels_every_step(subject: Subject) -> Finding | None:
    """Every step but a token's needs kernels that no step before needed: a number in an argument changes."""
    for steps in subject.kernels.steps:
        if steps.keeps_compiling and steps.name != TOKEN:
            each = statistics.median(steps.unseen[1:])
            return Finding(
                "new_kernels_every_step",
                "high",
                f"every {steps.name} needs {each:g} kernels that no earlier one used: an argument or "
                f"a shape changes",
                "pass changing numbers as tensors (optimizers: capturable=True or fused=True), pad "
                "batches to one size",
                Kind.EAGER_KERNEL,
                (),
                sum(steps.unseen),
                gain_ns=compile_seconds(sum(steps.unseen[1:]), []).scale(1e9),
            )
    return None


def recompile_limit(subject: Subject) -> Finding | None:
    """The compiler gave up on a function, which has run eagerly since."""
    health = subject.health
    if not health.limit_reached:
        return None
    first = health.uncompiled[0]
    return Finding(
        "recompile_limit",
        "high",
        f"{health.uncompiled_call_count:,} calls of {first.name or 'a function'} ran uncompiled: "
        f"recompile limit",
        f"keep {first.variable or 'its inputs'} constant, or pad to few sizes",
        Kind.RECOMPILE,
        first_rows(subject.table(Kind.RECOMPILE).column("limit_reached").astype(bool)),
        health.uncompiled_call_count,
        first.cell or first.place,
    )


def repeated_recompiles(subject: Subject) -> Finding | None:
    """One variable makes one function compile again and again."""
    again = [each for each in subject.health.recompiles if each.count >= OFTEN]
    if not again:
        return None
    worst = max(again, key=lambda each: each.count)
    return Finding(
        "repeated_recompiles",
        "high",
        f"{worst.name or 'a function'} was compiled again {worst.count} times because "
        f"{worst.variable or 'an input'} changed",
        f"pad {worst.variable or 'the input'} to few sizes, or pass it as a tensor",
        Kind.RECOMPILE,
        (),
        worst.count,
        worst.cell or worst.place,
        compile_seconds(worst.count, []).scale(1e9),
    )


def many_graph_breaks(subject: Subject) -> Finding | None:
    """Graph breaks cut a compiled function into pieces; many places mean many launches per call."""
    health = subject.health
    if health.break_places < OFTEN:
        return None
    first = health.breaks[0]
    return Finding(
        "many_graph_breaks",
        "medium",
        f"{health.break_places} places break the graph ({health.break_count} breaks)",
        f"begin with the most frequent: {first.reason}",
        Kind.GRAPH_BREAK,
        first_rows(np.ones(health.break_count, bool)),
        health.break_count,
        first.cell or first.place,
    )


def records_dropped(subject: Subject) -> Finding | None:
    """The recorder lost events, so counts and times are too low."""
    lost = sum(subject.trace.header.dropped.values())
    if not lost:
        return None
    return Finding(
        "records_dropped",
        "medium",
        f"{lost:,} events were lost while recording: every count and time is too low",
        "profile fewer steps, or without stacks",
        count=lost,
    )


def costed_by_a_guess(subject: Subject) -> Finding | None:
    """A tenth of the kernels have no cost rule."""
    guessed = sum(subject.timeline.unknown_ops.values())
    if not guessed or guessed < 0.1 * len(subject.timeline):
        return None
    name = next(iter(subject.timeline.unknown_ops))
    return Finding(
        "costed_by_a_guess",
        "low",
        f"{guessed:,} of {len(subject.timeline):,} kernels have no cost rule ({name} first): the model guesses",
        "read modelled times with care; calibrate with a profile of real hardware",
        Kind.OPERATOR,
        (),
        guessed,
    )
