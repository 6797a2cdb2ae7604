"""How often comparing two real runs of the same loop raises a false alarm, and whether it sees 5 % more.

Runs alternate, so that both sides of a pair see the same machine. The slowdown is planted into a recorded
trace: every call of one operator lasts 5 % longer.
"""

from __future__ import annotations

import torch

import neuron_lab
from neuron_lab.analysis.compare import compare
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace

PAIRS = 30
STEPS = 40
GROUP = 6
SLOWED = "aten::mm"


def slowed(trace: Trace, factor: float) -> Trace:
    table = trace.table(Kind.OPERATOR)
    lengths = table.column("duration_ns").copy()
    chosen = table.matches("name", SLOWED) & (lengths > 0)
    lengths[chosen] = (lengths[chosen] * factor).astype(lengths.dtype)
    changed = table.with_columns({"duration_ns": lengths}, table.vocabulary)
    return Trace(
        trace.header, {**trace.tables, Kind.OPERATOR: changed}, trace.signatures, trace.graphs, trace.stacks
    )


def main() -> None:
    neuron_lab.activate()
    layers = torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512)
    model = torch.nn.Sequential(*layers).to("neuron")
    batch = torch.randn(64, 512).to("neuron")

    def run() -> Trace:
        with neuron_lab.profile("loop") as session:
            for _ in range(STEPS):
                model(batch).square().mean().backward()
        return session.profile.trace

    run()
    pairs = [(run(), run()) for _ in range(PAIRS)]
    alarms = sum(bool(compare(*pair).findings) for pair in pairs)
    seen = sum(_sees(before, slowed(after, 1.05)) for before, after in pairs)
    print(
        f"{PAIRS} pairs of identical runs, {STEPS} steps each: {alarms} with a finding, measured; target <= 5 %"
    )
    print(f"the same pairs with {SLOWED} 5 % slower: found in {seen} of {PAIRS}, measured")
    groups = [pairs[begin : begin + GROUP] for begin in range(0, PAIRS, GROUP)]
    sides = [([before for before, _ in group], [after for _, after in group]) for group in groups]
    alarms = sum(bool(compare(*both).findings) for both in sides)
    seen = sum(_sees(before, [slowed(each, 1.05) for each in after]) for before, after in sides)
    what = f"{len(sides)} comparisons of {GROUP} runs with {GROUP}"
    print(f"{what}: {alarms} with a finding; with {SLOWED} 5 % slower {seen} see it, measured")


def _sees(before: Trace | list[Trace], after: Trace | list[Trace]) -> bool:
    return any(delta.op == SLOWED for delta in compare(before, after).findings)


if __name__ == "__main__":
    main()
