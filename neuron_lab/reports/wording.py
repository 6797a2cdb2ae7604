"""Signatures, places and quantities in words, the same in every report. Knows no file format."""

from __future__ import annotations

from neuron_lab.hardware.interval import Interval
from neuron_lab.trace.events import Frame, Signature, TensorSpec
from neuron_lab.trace.table import Trace

NO_READING = "no reading"


def tensor_text(tensor: TensorSpec) -> str:
    """`float32[2,3]`."""
    return f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"


def signature_text(signature: Signature) -> str:
    """`float32[2,3], float32[3,4] -> float32[2,4]`, then the static arguments."""
    inputs = ", ".join(map(tensor_text, signature.inputs))
    outputs = ", ".join(map(tensor_text, signature.outputs))
    shapes = f"{inputs} -> {outputs}" if outputs else inputs
    return f"{shapes}; {signature.static}" if signature.static else shapes


def signature_texts(trace: Trace) -> list[str]:
    return [signature_text(signature) for signature in trace.signatures]


def frame_text(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} in {frame.function}"


def place_texts(trace: Trace) -> list[str]:
    """The innermost frame of every stack."""
    return [frame_text(stack[0]) if stack else "" for stack in trace.stacks]


def bytes_text(size_bytes: float | None) -> str:
    """Binary multiples, as device memory is counted: `24.0 GiB`."""
    if size_bytes is None:
        return NO_READING
    if abs(size_bytes) < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size_bytes /= 1024
        if abs(size_bytes) < 1024 or unit == "GiB":
            break
    return f"{size_bytes:.1f} {unit}"


def time_text(duration_ns: float | None) -> str:
    """Three significant figures with the unit that fits: `12.3 ms`."""
    if duration_ns is None:
        return NO_READING
    for unit, length in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(duration_ns) >= length * 0.9995:
            return f"{_three_figures(duration_ns / length)} {unit}"
    return f"{_three_figures(duration_ns)} ns"


def count_text(count: float | None) -> str:
    if count is None:
        return NO_READING
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.1f}"


def time_interval_text(interval_ns: Interval) -> str:
    """Both ends, each with its unit: `3.10 ms to 45.0 ms`."""
    return f"{time_text(interval_ns.low)} to {time_text(interval_ns.high)}"


def share_text(share: Interval) -> str:
    return f"{_percent(share.low)} to {_percent(share.high)}"


def plural(count: int, noun: str) -> str:
    return f"{count_text(count)} {noun}" + ("" if count == 1 else "s")


def printable(text: str) -> str:
    """Any text on one line of a terminal: what does not print is shown as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _percent(share: float) -> str:
    """What is more than nothing does not round to 0 %."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _three_figures(value: float) -> str:
    if abs(value) >= 99.95 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
