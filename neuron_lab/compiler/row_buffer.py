"""Holds a producer's events until the recorder drains them, so that the producing thread never waits for the
recorder.

For rare events (compilations, steps): one Python object each.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from neuron_lab.trace.events import GraphSpec, Kind
from neuron_lab.trace.recorder import Sink


class RowBuffer:
    """Rows in the order they were added; adding and draining may happen in different threads."""

    def __init__(self) -> None:
        self._rows: deque[tuple[Kind, dict[str, Any]]] = deque()

    def add(self, kind: Kind, **columns: Any) -> None:
        """One row. A `graph` column is a GraphSpec or None."""
        self._rows.append((kind, {"duration_ns": 0, "track": threading.get_native_id(), **columns}))

    def clear(self) -> None:
        """Forget what was never drained."""
        self._rows.clear()

    def drain(self, sink: Sink) -> None:
        """Hand all rows to the sink."""
        while self._rows:
            kind, columns = self._rows.popleft()
            if "graph" in columns:
                columns["graph"] = _graph_id(columns["graph"], sink)
            sink.extend(kind, {name: [value] for name, value in columns.items()})


def _graph_id(graph: GraphSpec | None, sink: Sink) -> int:
    return -1 if graph is None else sink.graph(graph)
