"""A `Drawing` as Chrome trace JSON: strict JSON, events of a lane disjoint or nested, times in microseconds.

For viewers that do not read Perfetto's own format; it takes about five times the space. Names are written with
JSON's escapes and come back character for character. A counter without a reading is left out, never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np

from neuron_lab.reports.drawing import Argument, CounterSet, Drawing, EventSet, Words

LINES_PER_CHUNK = 10_000


def chrome_chunks(drawing: Drawing) -> Iterator[bytes]:
    """The file's bytes, piece by piece."""
    facts = {**drawing.attributes, "cut": drawing.cut}
    yield b'{"displayTimeUnit":"ns","otherData":' + _json(facts).encode() + b',"traceEvents":[\n'
    separator = b""
    for chunk in (_named_tracks(drawing), *_in_order(drawing)):
        if chunk:
            yield separator + ",\n".join(chunk).encode()
            separator = b",\n"
    yield b"\n]}\n"


def _json(value: object) -> str:
    """Strict JSON. Text stays UTF-8, as not every viewer decodes escapes; a lone surrogate has to be one."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def _named_tracks(drawing: Drawing) -> list[str]:
    lines = []
    for index, group in enumerate(drawing.groups):
        lines.append(_metadata("process_name", index + 1, 0, name=group.label))
        lines.append(_metadata("process_sort_index", index + 1, 0, sort_index=index))
    for index, track in enumerate(drawing.tracks):
        if track.unit is None:
            lines.append(_metadata("thread_name", track.group + 1, index + 1, name=track.label))
            sort_index = track.order * 1000 + index
            lines.append(_metadata("thread_sort_index", track.group + 1, index + 1, sort_index=sort_index))
    return lines


def _metadata(what: str, pid: int, tid: int, **args: str | int) -> str:
    return _json({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})


def _in_order(drawing: Drawing) -> Iterator[list[str]]:
    """All lines by time, an enclosing slice before its content, in chunks."""
    lines: list[str] = []
    start_ns: list[np.ndarray] = []
    end_ns: list[np.ndarray] = []
    for events in drawing.events:
        lines += _event_lines(drawing, events)
        start_ns.append(events.start_ns)
        end_ns.append(events.start_ns if events.end_ns is None else events.end_ns)
    for counters in drawing.counters:
        lines += _counter_lines(drawing, counters)
        start_ns.append(counters.time_ns[np.isfinite(counters.value)])
        end_ns.append(start_ns[-1])
    if not lines:
        return
    order = np.lexsort((-np.concatenate(end_ns), np.concatenate(start_ns))).tolist()
    for at in range(0, len(order), LINES_PER_CHUNK):
        yield [lines[row] for row in order[at : at + LINES_PER_CHUNK]]


def _event_lines(drawing: Drawing, events: EventSet) -> list[str]:
    """One line per event; its arrow ends follow on the same line, so that they stay beside their slice."""
    where = [f'"pid":{track.group + 1},"tid":{index + 1}' for index, track in enumerate(drawing.tracks)]
    names = _escaped(events.name)
    details = _details(events.arguments, len(events))
    category = _json(events.category)
    starts = _microseconds(events.start_ns)
    places = [where[track] for track in events.track.tolist()]
    if events.end_ns is None:
        heads = ['{"ph":"i","s":"t",' + f'"ts":{start}' for start in starts]
    else:
        lengths = _microseconds(events.end_ns - events.start_ns)
        heads = [
            f'{{"ph":"X","ts":{start},"dur":{length}' for start, length in zip(starts, lengths, strict=True)
        ]
    lines = [
        f'{head},{place},"cat":{category},"name":{name}{detail}}}'
        for head, place, name, detail in zip(heads, places, names, details, strict=True)
    ]
    _append_arrows(lines, events, starts, places)
    return lines


def _append_arrows(lines: list[str], events: EventSet, starts: Sequence[str], places: Sequence[str]) -> None:
    for numbers, phase in ((events.flow_out, '"ph":"s"'), (events.flow_in, '"ph":"f","bp":"e"')):
        if numbers is None:
            continue
        rows = np.flatnonzero(numbers)
        for row, flow in zip(rows.tolist(), numbers[rows].tolist(), strict=True):
            lines[row] += (
                f',\n{{{phase},"id":{flow},"ts":{starts[row]},{places[row]},"cat":"launch","name":"launch"}}'
            )


def _counter_lines(drawing: Drawing, counters: CounterSet) -> list[str]:
    heads = [
        f'"pid":{track.group + 1},"tid":0,"name":{_json(track.label)},"args":{{{_json(track.unit or "value")}:'
        for track in drawing.tracks
    ]
    read = np.flatnonzero(np.isfinite(counters.value))
    columns = (
        _microseconds(counters.time_ns[read]),
        counters.track[read].tolist(),
        counters.value[read].tolist(),
    )
    return [
        f'{{"ph":"C","ts":{time},{heads[track]}{_number(value)}}}}}'
        for time, track, value in zip(*columns, strict=True)
    ]


def _details(arguments: Sequence[Argument], count: int) -> list[str]:
    """`,"args":{…}` per event, with only the details that event has."""
    if not arguments:
        return [""] * count
    parts: list[list[str]] = [[] for _ in range(count)]
    for argument in arguments:
        key = _json(argument.name)
        rows = np.flatnonzero(argument.present)
        for row, value in zip(rows.tolist(), _values(argument, rows), strict=True):
            parts[row].append(f"{key}:{value}")
    return [f',"args":{{{",".join(part)}}}' if part else "" for part in parts]


def _values(argument: Argument, rows: np.ndarray) -> list[str]:
    if isinstance(argument.values, Words):
        return _escaped(Words(argument.values.codes[rows], argument.values.words))
    return [_number(value) for value in argument.values[rows].tolist()]


def _escaped(words: Words) -> list[str]:
    known = {code: _json(words.words[code] if code >= 0 else "") for code in np.unique(words.codes).tolist()}
    return [known[code] for code in words.codes.tolist()]


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return repr(value) if math.isfinite(value) else "null"


def _microseconds(times_ns: np.ndarray) -> list[str]:
    """Three decimals: exact nanoseconds."""
    return [f"{time / 1000:.3f}" for time in times_ns.tolist()]
