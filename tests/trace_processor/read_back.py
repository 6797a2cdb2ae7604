"""What an exported file holds, in one form for both trace formats: through trace_processor, or strict JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_processor.oracle import TraceProcessor

SLICES = """
    select slice.id, slice.ts, slice.dur, slice.name, slice.category, slice.arg_set_id, track.name as lane,
        track.id as lane_id, process.name as "group"
    from slice join process_track on slice.track_id = process_track.id join track on track.id = process_track.id
    join process using (upid)
"""
ARGUMENTS = """
    select arg_set_id, key, coalesce(int_value, real_value, string_value) as value
    from args where key glob 'debug.*'
"""


@dataclass(frozen=True)
class Drawn:
    """One slice or instant. `lane_id` tells lanes of equal names apart."""

    group: str
    lane: str
    lane_id: int
    name: str
    start_ns: int
    duration_ns: int
    category: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


@dataclass(frozen=True)
class ReadBack:
    slices: list[Drawn]
    arrows: list[tuple[Drawn, Drawn]]
    counters: list[tuple[str, str, int, float]]  # group, name, time, value

    def named(self, name: str) -> Drawn:
        (found,) = [drawn for drawn in self.slices if drawn.name == name]
        return found

    def of(self, category: str) -> list[Drawn]:
        return [drawn for drawn in self.slices if drawn.category == category]


def read_back(path: Path, processor: TraceProcessor) -> ReadBack:
    return read_perfetto(path, processor) if path.suffix == ".pftrace" else read_chrome(path)


def read_perfetto(path: Path, processor: TraceProcessor) -> ReadBack:
    processor.load(path)
    assert processor.complaints() == []
    arguments: dict[int, dict[str, Any]] = {}
    for row in processor.rows(ARGUMENTS):
        arguments.setdefault(row["arg_set_id"], {})[row["key"].removeprefix("debug.")] = row["value"]
    by_id = {
        row["id"]: Drawn(
            row["group"],
            row["lane"],
            row["lane_id"],
            row["name"],
            row["ts"],
            row["dur"],
            row["category"],
            arguments.get(row["arg_set_id"], {}),
        )
        for row in processor.rows(SLICES)
    }
    flows = processor.rows("select slice_out, slice_in from flow")
    counters = processor.rows(
        "select process.name as g, t.name as n, ts, value from counter join process_counter_track t"
        " on counter.track_id = t.id join process using (upid)"
    )
    assert processor.value("select count(*) from slice") == len(by_id)
    assert processor.value("select count(*) from counter") == len(counters)
    return ReadBack(
        list(by_id.values()),
        [(by_id[flow["slice_out"]], by_id[flow["slice_in"]]) for flow in flows],
        [(row["g"], row["n"], row["ts"], row["value"]) for row in counters],
    )


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read_chrome(path: Path) -> ReadBack:
    """Slices as written; an arrow end belongs to the innermost slice of its lane at its time."""
    events = strict_json(path.read_text(encoding="utf-8"))["traceEvents"]
    groups = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = [
        Drawn(
            groups[e["pid"]],
            lanes[e["pid"], e["tid"]],
            e["tid"],
            e["name"],
            round(e["ts"] * 1000),
            round(e.get("dur", 0) * 1000),
            e["cat"],
            e.get("args", {}),
        )
        for e in events
        if e["ph"] in "Xi"
    ]
    ends: dict[int, dict[str, Drawn]] = {}
    for e in events:
        if e["ph"] in "sf":
            here = [drawn for drawn in slices if drawn.lane_id == e["tid"] and drawn.category != "instant"]
            time_ns = round(e["ts"] * 1000)
            inside = [drawn for drawn in here if drawn.start_ns <= time_ns <= drawn.end_ns]
            ends.setdefault(e["id"], {})[e["ph"]] = max(inside, key=lambda drawn: drawn.start_ns)
    counters = [
        (groups[e["pid"]], e["name"], round(e["ts"] * 1000), next(iter(e["args"].values())))
        for e in events
        if e["ph"] == "C"
    ]
    return ReadBack(slices, [(both["s"], both["f"]) for both in ends.values()], counters)


def crossings(slices: list[Drawn]) -> list[tuple[Drawn, Drawn]]:
    """Pairs on one lane that are neither disjoint nor nested."""
    found = []
    for index, first in enumerate(slices):
        for second in slices[index + 1 :]:
            if first.lane_id != second.lane_id:
                continue
            left, right = sorted((first, second), key=lambda drawn: (drawn.start_ns, -drawn.end_ns))
            if left.start_ns < right.start_ns < left.end_ns < right.end_ns:
                found.append((left, right))
    return found
