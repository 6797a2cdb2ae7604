"""How fast a trace becomes a file, and how large: the native writer beside `json.dumps` of Chrome JSON events.

Both write the same slices, each with one arrow and no details, to memory. The JSON side gets its event
dictionaries ready made, so it is timed without the cost of building them. Times are measured on this machine.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.paired import paired_ratio, seconds
from neuron_lab.reports.chrome import chrome_chunks
from neuron_lab.reports.drawing import Drawing, EventSet, Sketch, Words
from neuron_lab.reports.export import export
from neuron_lab.reports.perfetto import perfetto_chunks
from neuron_lab.trace.builder import Text, TraceBuilder
from neuron_lab.trace.events import Kind, Signature, TensorSpec, TraceHeader
from neuron_lab.trace.table import Trace

LAUNCHES = 100_000  # each with its kernel
OPERATORS = 64  # distinct names
PAIRS = 7
MOST_BYTES_PER_SLICE = 60


def make_drawing(launches: int) -> Drawing:
    random = np.random.default_rng(0)
    sketch = Sketch()
    group = sketch.group("device")
    names = Words(random.integers(0, OPERATORS, launches), [f"aten::operator_{at}" for at in range(OPERATORS)])
    start_ns = np.arange(launches) * 20_000 + random.integers(0, 5_000, launches)
    length_ns = random.integers(1_000, 14_000, launches)
    flow = np.arange(1, launches + 1, dtype=np.uint64)
    for label, delay_ns, arrow in (("launches", 0, "flow_out"), ("core 0", 300, "flow_in")):
        track = np.full(launches, sketch.track(group, label))
        begin_ns = start_ns + delay_ns
        sketch.add_events(EventSet(label, track, names, begin_ns, begin_ns + length_ns, **{arrow: flow}))
    return sketch.finish()


def make_trace(operators: int) -> Trace:
    """Operators with shapes, so that each also has a modelled launch and kernel."""
    builder = TraceBuilder()
    square = TensorSpec("bfloat16", (576, 576))
    start_ns = np.arange(operators, dtype=np.int64) * 12_000
    builder.extend(
        Kind.OPERATOR,
        {
            "name": Text(np.zeros(operators, np.int32), ["aten::mm"]),
            "start_ns": start_ns,
            "duration_ns": 9_000,
            "signature": builder.signature(Signature("aten::mm", (square, square), (square,))),
            "core": 0,
            "track": 1,
        },
    )
    header = TraceHeader(device="emulated", instance="trn2.3xlarge", chip="trn2", lnc=2, cores=4)
    return builder.freeze(header)


def main() -> None:
    drawing = make_drawing(LAUNCHES)
    slices = drawing.slice_count
    events = json.loads(b"".join(chrome_chunks(drawing)))["traceEvents"]
    sizes = {
        "native": sum(map(len, perfetto_chunks(drawing))),
        "json.dumps": len(json.dumps(events)),
    }
    print(f"{slices:,} slices, each with one arrow and no details")
    for name, size_bytes in sizes.items():
        print(f"  {name}: {size_bytes / slices:.1f} bytes per slice")
    ratio = paired_ratio(
        lambda: sum(map(len, perfetto_chunks(drawing))), lambda: json.dumps(events), pairs=PAIRS
    )
    print(f"  native writer to json.dumps: {ratio}")
    print(f"  native writer: {slices / ratio.first_s / 1e6:.2f} M slices/s; ", end="")
    print(f"json.dumps: {slices / ratio.second_s / 1e6:.2f} M slices/s (measured)")

    trace = make_trace(LAUNCHES)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".pftrace", ".json"):
            path = Path(folder) / f"trace{suffix}"
            took_s = min(seconds(lambda path=path: export(trace, path)) for _ in range(3))  # type: ignore[misc]
            size_mb = path.stat().st_size / 1e6
            print(f"  whole export of {LAUNCHES:,} operators to {suffix}: ", end="")
            print(f"{took_s:.2f} s, {size_mb:.1f} MB (measured)")
    assert sizes["native"] / slices <= MOST_BYTES_PER_SLICE


if __name__ == "__main__":
    main()
