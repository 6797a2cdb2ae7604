"""What the compile observer costs: compiling with it over compiling without, and compiled calls afterwards."""

from __future__ import annotations

import time

import torch

from benchmarks.paired import paired_ratio
from neuron_lab.compiler.observer import CompileObserver
from neuron_lab.trace.events import TraceHeader
from neuron_lab.trace.recorder import Recorder

PAIRS = 7
CALLS = 2_000
TARGET = 1.06


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        torch._dynamo.graph_break()
        return y.relu() @ y.T


def main() -> None:
    torch.set_num_threads(1)
    model, sizes = Layer(), [torch.ones(n, 16) for n in (2, 3, 4)]
    recorder, observer = Recorder(), CompileObserver()

    def compile_anew() -> None:
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="aot_eager", dynamic=False)
        for x in sizes:
            compiled(x)

    def observed() -> None:
        recorder.add_source(observer)
        recording = recorder.open()
        compile_anew()
        recording.close(TraceHeader())
        recorder.remove_source(observer)

    ratio = paired_ratio(observed, compile_anew, pairs=PAIRS, clock=time.process_time)
    print(f"3 shapes, 2 graphs each, a break: observed / plain, processor time: {ratio}; target <= {TARGET}")

    compiled = torch.compile(lambda x: x + 1, backend="aot_eager")
    x = torch.ones(16)
    compiled(x)

    def call() -> None:
        for _ in range(CALLS):
            compiled(x)

    recorder.add_source(observer)

    def call_observed() -> None:
        recording = recorder.open()
        call()
        recording.close(TraceHeader())

    ratio = paired_ratio(call_observed, call, pairs=PAIRS, clock=time.process_time)
    print(f"{CALLS:,} compiled calls in steady state, observed / plain, processor time: {ratio}")


if __name__ == "__main__":
    main()
