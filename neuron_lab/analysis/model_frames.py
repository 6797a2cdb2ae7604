"""The tables of modelled answers: where the span goes, engines, roofline, findings, memory by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuron_lab.analysis.engine_slices import engine_slices
from neuron_lab.analysis.engine_times import engine_table
from neuron_lab.analysis.findings import findings
from neuron_lab.analysis.memory_use import memory_use
from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.analysis.roofline import roofline
from neuron_lab.analysis.utilisation import CAUSES, utilisation
from neuron_lab.hardware.cost import ENGINES
from neuron_lab.trace.events import UNFINISHED, Kind
from neuron_lab.trace.table import Trace

if TYPE_CHECKING:
    import pandas

_CAUSE_COLUMNS = " ".join(f"waiting_{cause}_ns" for cause in CAUSES)
_ENGINE_COLUMNS = " ".join(f"engine_{engine}_ns" for engine in ENGINES)


def _table(columns: str, rows: list[dict[str, Any]]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(rows, columns=columns.split())


def utilisation_frame(trace: Trace) -> pandas.DataFrame:
    """Per core and end of the model: computing, waiting by cause and idle sum to the span; engines may
    overlap."""
    rows = [
        {
            "rank": use.core.rank,
            "core": use.core.core,
            "end": use.end,
            "span_ns": use.span_ns,
            "computing_ns": use.computing_ns,
            **{f"waiting_{cause}_ns": time_ns for cause, time_ns in use.waiting_ns.items()},
            "idle_ns": use.idle_ns,
            **{f"engine_{engine}_ns": time_ns for engine, time_ns in use.engine_ns.items()},
        }
        for use in utilisation(trace).cores
    ]
    return _table(f"rank core end span_ns computing_ns {_CAUSE_COLUMNS} idle_ns {_ENGINE_COLUMNS}", rows)


def engine_slices_frame(trace: Trace) -> pandas.DataFrame:
    """Every engine of every kernel on the modelled timeline (low schedule), with the dtype that sets its
    rate."""
    import pandas

    timeline = model_timeline(trace)
    engines = engine_table(trace, timeline)
    found = engine_slices(timeline, engines)
    signature = timeline.signature[found.kernel].tolist()
    return pandas.DataFrame(
        {
            "op": [trace.signatures[index].op for index in signature],
            "engine": found.engine_names(),
            "dtype": [engines.dtype[index] for index in signature],
            "rank": timeline.rank[found.kernel],
            "core": timeline.core[found.kernel],
            "modelled_start_ns": found.start_ns,
            "modelled_low_ns": found.low_ns,
            "modelled_high_ns": found.high_ns,
        }
    )


def roofline_frame(trace: Trace) -> pandas.DataFrame:
    """One point per operator and per step: flops per byte, modelled rate, and the roof above it."""
    timeline = model_timeline(trace)
    rows = [
        {
            "scope": point.scope,
            "name": point.name,
            "kernels": point.kernels,
            "flops": point.flops,
            "size_bytes": point.size_bytes,
            "flops_per_byte": point.intensity,
            "modelled_low_ns": point.time_ns.low,
            "modelled_high_ns": point.time_ns.high,
            "reached_low_tflops": point.reached.low if point.reached else None,
            "reached_high_tflops": point.reached.high if point.reached else None,
            "ceiling_tflops": point.ceiling,
        }
        for point in roofline(trace, timeline, engine_table(trace, timeline))
    ]
    columns = (
        "scope name kernels flops size_bytes flops_per_byte modelled_low_ns modelled_high_ns "
        "reached_low_tflops reached_high_tflops ceiling_tflops"
    )
    return _table(columns, rows)


def findings_frame(trace: Trace) -> pandas.DataFrame:
    """What stands out, most severe first; gains are modelled, empty where nothing is."""
    rows = [
        {
            "severity": each.severity,
            "rule": each.rule,
            "title": each.title,
            "cure": each.cure,
            "place": each.place,
            "count": each.count,
            "kind": str(each.kind),
            "rows": list(each.rows),
            "gain_low_ns": each.gain_ns.low if each.gain_ns else None,
            "gain_high_ns": each.gain_ns.high if each.gain_ns else None,
        }
        for each in findings(trace)
    ]
    return _table("severity rule title cure place count kind rows gain_low_ns gain_high_ns", rows)


def memory_use_frame(trace: Trace) -> pandas.DataFrame:
    """Bytes alive at each core's peak by category; empty when the trace does not tell categories."""
    rows = [
        {
            "rank": use.rank,
            "core": use.core,
            "category": name,
            "size_bytes": use.by_category.get(name, 0),
            "category_peak_bytes": peak,
        }
        for use in memory_use(trace) or ()
        for name, peak in use.category_peak_bytes.items()
    ]
    return _table("rank core category size_bytes category_peak_bytes", rows)


def collectives_frame(trace: Trace) -> pandas.DataFrame:
    """Recorded collectives; the bandwidth is empty where nothing was timed or no size was read."""
    table = trace.table(Kind.COLLECTIVE)
    sizes, lengths = table.column("size_bytes").tolist(), table.column("duration_ns").tolist()
    rows = [
        {
            "name": name,
            "group": group,
            "clock": clock,
            "rank": rank,
            "start_ns": start,
            "duration_ns": length if length != UNFINISHED else None,
            "size_bytes": size if size >= 0 else None,
            "bandwidth_gb_per_s": size / length if size >= 0 and length > 0 else None,
            "wait_ns": wait if wait >= 0 else None,
        }
        for name, group, clock, rank, start, length, size, wait in zip(
            table.strings("name"),
            table.strings("group"),
            table.strings("clock"),
            table.column("rank").tolist(),
            table.column("start_ns").tolist(),
            lengths,
            sizes,
            table.column("wait_ns").tolist(),
            strict=True,
        )
    ]
    return _table("name group clock rank start_ns duration_ns size_bytes bandwidth_gb_per_s wait_ns", rows)
