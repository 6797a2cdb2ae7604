"""Compiled graphs the device runs as one unit: the core's number for each, and what is in it.

The compiler interns a graph once and gives the number to `core.record_graph` at every execution; the trace
source reads the description back. The core itself keeps only the name and the number of operators.
"""

from __future__ import annotations

from neuron_lab.device.core import load_core
from neuron_lab.trace.events import GraphSpec

_SPECS: dict[int, GraphSpec] = {}


def intern(spec: GraphSpec) -> int:
    """The core's signature id of this graph; the same description always has the same one."""
    signature_id = int(load_core().intern_graph(spec.name, len(spec.nodes)))
    _SPECS[signature_id] = spec
    return signature_id


def spec_of(signature_id: int) -> GraphSpec | None:
    return _SPECS.get(signature_id)
