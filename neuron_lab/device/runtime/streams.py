"""Streams and events.

Single-stream mode is the default, as on the real device: every stream is the default stream (id 0) unless
`NEURON_RT_ENABLE_HOST_CC=1` when it is created.
"""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any

import torch

from neuron_lab.device.registration import NAME, device_type_number
from neuron_lab.device.runtime.devices import _exchange_device, current_device
from neuron_lab.device.runtime.indices import DeviceLike, device_index


def _single_stream_mode() -> bool:
    return os.environ.get("NEURON_RT_ENABLE_HOST_CC") != "1"


class NeuronStream(torch.Stream):
    """A stream of a core: `NeuronStream(device=None, priority=0)`, or the three id fields together."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **fields: int) -> NeuronStream:
        if fields:
            return super().__new__(cls, **fields)
        index = device_index(device)
        if _single_stream_mode():
            return super().__new__(cls, stream_id=0, device_index=index, device_type=device_type_number())
        return super().__new__(cls, device=torch.device(NAME, index), priority=priority)


class NeuronEvent(torch.Event):
    """An event whose `record` returns itself, which sharded training stores. Times are of the host's clock."""

    timed: bool
    recorded_on: torch.device | None
    recorded_ns: int  # time.monotonic_ns() of the last record

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, **rest: Any) -> NeuronEvent:
        event = super().__new__(cls, torch.device(NAME), enable_timing=enable_timing, blocking=blocking)
        event.timed = bool(enable_timing)
        event.recorded_on = None
        event.recorded_ns = 0
        return event

    def record(self, stream: torch.Stream | None = None) -> NeuronEvent:
        stream = current_stream() if stream is None else stream
        super().record(stream)
        self.recorded_on = stream.device
        self.recorded_ns = time.monotonic_ns()
        return self

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds between the two `record` calls."""
        end = _checked_end(self, end_event)
        self.synchronize()
        end.synchronize()
        return (end.recorded_ns - self.recorded_ns) / 1e6


def _checked_end(start: NeuronEvent, end: torch.Event) -> NeuronEvent:
    if not isinstance(end, NeuronEvent):
        raise RuntimeError("Expected a Neuron event")
    if not start.timed:
        raise RuntimeError("Event was not created with timing enabled")
    if not end.timed:
        raise RuntimeError("End event was not created with timing enabled")
    if start.recorded_on is None:
        raise RuntimeError("Event has not been recorded")
    if end.recorded_on is None:
        raise RuntimeError("End event has not been recorded")
    if start.recorded_on != end.recorded_on:
        raise RuntimeError("Events must be on the same device")
    return end


def Stream(*, device: DeviceLike = None, priority: int = 0, **fields: int) -> NeuronStream:  # noqa: N802
    """A function that takes keywords only, as `torch.neuron.Stream` is on the real device."""
    return NeuronStream(device, priority, **fields)


def Event(*, enable_timing: bool = False, blocking: bool = False) -> NeuronEvent:  # noqa: N802
    return NeuronEvent(enable_timing=enable_timing, blocking=blocking)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    return torch.accelerator.current_stream(device_index(device))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    return NeuronStream(stream_id=0, device_index=device_index(device), device_type=device_type_number())


def set_stream(stream: torch.Stream | None) -> None:
    """Make `stream` and its device current; None changes nothing."""
    if stream is not None:
        _check_stream(stream)
        torch.accelerator.set_stream(stream)


class StreamContext:
    """`with torch.neuron.stream(s): …`; then the previous stream and device come back. None does nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        if stream is not None:
            _check_stream(stream)
        self.stream = stream
        self.previous_device = -1
        self.previous_stream: torch.Stream | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self.previous_device = current_device()
            self.previous_stream = current_stream(self.stream.device)
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.stream is not None:
            set_stream(self.previous_stream)
            _exchange_device(self.previous_device)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)


def wait_stream(stream: torch.Stream) -> None:
    """The current stream waits for `stream`."""
    current_stream().wait_stream(stream)


def wait_event(event: torch.Event) -> None:
    current_stream().wait_event(event)


def record_event(event: NeuronEvent | None = None) -> NeuronEvent:
    return (NeuronEvent() if event is None else event).record(current_stream())


def query() -> bool:
    """Whether the current stream has nothing left to do."""
    return bool(current_stream().query())


def _check_stream(stream: torch.Stream) -> None:
    if not isinstance(stream, torch.Stream):
        raise RuntimeError("Expected a Neuron stream")
    if stream.device.type != NAME:
        raise RuntimeError(f"Expected Neuron device, got: {stream.device.type}")
