"""Refits the assumed constants to readings of a real device: a profile with measured kernels, or nccom-test
output.

Every fit needs a number of readings; a constant with fewer keeps its assumption and is named in `kept`. The
range of a fitted constant covers nine tenths of its readings, so that intervals stay honest about scatter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

import numpy as np

from neuron_lab.analysis.modelled import chip_of
from neuron_lab.analysis.two_ends import Array
from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import DEFAULT, Assumption, Assumptions
from neuron_lab.hardware.chips import Chip
from neuron_lab.hardware.collectives import route
from neuron_lab.hardware.cost import best_times
from neuron_lab.hardware.instances import instance
from neuron_lab.hardware.work import work_of
from neuron_lab.trace.events import UNFINISHED, Clock, Kind
from neuron_lab.trace.table import Table, Trace

FEWEST = 8
LOW, HIGH = 5, 95  # percentiles
AMPLE_NS = 20_000  # shares are read from kernels long enough to hide start latencies


@dataclass(frozen=True)
class Calibration:
    """`assumptions` with the fitted ones replaced; `readings` counts what each rests on."""

    assumptions: Assumptions
    calibrated_on: str
    readings: Mapping[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> tuple[str, ...]:
        """Constants that stay assumed."""
        return tuple(each.name for each in fields(Assumptions) if each.name not in self.readings)

    def __str__(self) -> str:
        rows = self.assumptions.rows()
        lines = [f"{name}: {rows[name]} ({count} readings)" for name, count in self.readings.items()]
        kept = f"still assumed: {', '.join(self.kept)}" if self.kept else ""
        return "\n".join([f"calibrated on {self.calibrated_on}", *lines, kept]).rstrip()


def calibrate_trace(trace: Trace, base: Assumptions = DEFAULT, on: str | None = None) -> Calibration:
    """From kernels, collectives and compilations on the measured clock.

    Raises UsageError when the trace has none: emulated times say nothing about the device.
    """
    kernels, collectives = _measured(trace, Kind.KERNEL), _measured(trace, Kind.COLLECTIVE)
    if not len(kernels) and not len(collectives):
        raise UsageError(
            "calibrate() needs times measured on a device and this profile has none; take it on a Trainium "
            "instance, or give the text that nccom-test prints"
        )
    date = on or datetime.fromtimestamp(trace.header.origin_unix_ns / 1e9, UTC).date().isoformat()
    found: dict[str, Array] = {"launch_ns": _launches(kernels), **_shares(trace, kernels)}
    found["all_reduce_ns"] = _collective_latencies(collectives)
    found |= _compile_times(trace)
    return _fitted(found, base, date)


def calibrate_collectives(
    text: str, *, ranks: int, instance_name: str, base: Assumptions = DEFAULT, on: str
) -> Calibration:
    """From what nccom-test prints for an all-reduce over `ranks` ranks inside one machine of
    `instance_name`."""
    sizes, times_ns = nccom_rows(text)
    if len(sizes) < FEWEST:
        raise UsageError(
            f"{len(sizes)} rows of sizes and times found in this text; {FEWEST} are needed: run nccom-test "
            "over sizes from 1 KiB to 64 MiB or more"
        )
    fixed_ns, slope = _line(sizes, times_ns)
    residual = times_ns - slope * sizes
    small = residual[slope * sizes < fixed_ns] if fixed_ns > 0 else residual
    found = {"all_reduce_ns": small if len(small) else np.array([fixed_ns])}
    counts = {"all_reduce_ns": len(sizes)}
    share = _link_share(sizes, times_ns, fixed_ns, ranks, instance_name)
    if len(share):
        found["link_share"] = share
        counts["link_share"] = len(sizes)
    return _fitted(found, base, on, counts)


def nccom_rows(text: str) -> tuple[Array, Array]:
    """Sizes in bytes and times in nanoseconds, by the headings of the table that the text contains."""
    columns: dict[str, int] = {}
    rows = []
    for line in text.splitlines():
        words = line.replace("|", " ").split()
        if any(word.lower().startswith("size(b)") for word in words):
            heads = [word.lower() for word in words]
            size = next(place for place, head in enumerate(heads) if head.startswith("size(b)"))
            time = next((place for place, head in enumerate(heads) if _is_time(head)), None)
            columns = {"size": size, "time": time} if time is not None else {}
        elif columns and len(words) > columns["time"] and re.fullmatch(r"\d+", words[columns["size"]]):
            rows.append((float(words[columns["size"]]), float(words[columns["time"]]) * 1e3))
    table = np.array(rows).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _is_time(head: str) -> bool:
    """`time(us)` of older releases, `time:avg(us)` of newer ones."""
    return head.startswith("time") and head.endswith("(us)") and ("avg" in head or ":" not in head)


def _measured(trace: Trace, kind: Kind) -> Table:
    table = trace.table(kind)
    if not len(table):
        return table
    return table.where(table.matches("clock", Clock.MEASURED) & (table.column("duration_ns") != UNFINISHED))


def _launches(kernels: Table) -> Array:
    """From start to start on a core that stood idle in between: there the host's launches set the pace."""
    found = []
    for core in np.unique(kernels.column("core")).tolist():
        mine = kernels.where(kernels.column("core") == core)
        start, length = mine.column("start_ns"), mine.column("duration_ns")
        gaps = np.diff(start)
        found.append(
            gaps[(gaps > 1.01 * length[:-1] + 100) & (gaps < 10 * np.median(gaps))] if len(gaps) else gaps
        )
    return np.concatenate(found) if found else np.empty(0)


def _shares(trace: Trace, kernels: Table) -> dict[str, Array]:
    """Documented time over measured time, by what limits the kernel."""
    chip, _ = chip_of(trace.header)
    found: dict[str, list[float]] = {"tensor_share": [], "engine_share": [], "memory_share": []}
    if chip is None:
        return {}
    lnc = trace.header.lnc or chip.default_lnc
    limits = [_limit(trace, index, chip, lnc) for index in range(len(trace.signatures))]
    pairs = zip(kernels.column("signature").tolist(), kernels.column("duration_ns").tolist(), strict=True)
    for signature, duration in pairs:
        if 0 <= signature < len(limits) and duration >= AMPLE_NS:
            name, best_ns = limits[signature]
            if name:
                found[name].append(min(1.0, best_ns / duration))
    return {name: np.array(values) for name, values in found.items()}


_CONSTANT = {
    "tensor": "tensor_share",
    "vector": "engine_share",
    "scalar": "engine_share",
    "gpsimd": "engine_share",
    "hbm": "memory_share",
    "dma": "memory_share",
}


def _limit(trace: Trace, index: int, chip: Chip, lnc: int) -> tuple[str, float]:
    signature = trace.signatures[index]
    if signature.graph >= 0 or not signature.compiles:
        return "", 0.0
    best = best_times(work_of(signature.op, signature.inputs, signature.outputs, signature.static), chip, lnc)
    return _CONSTANT.get(best.bound(), ""), best.overlapped()


def _collective_latencies(collectives: Table) -> Array:
    """What remains of each all-reduce at size zero, waits for other ranks taken off."""
    chosen = np.array(
        ["reduce" in name and "scatter" not in name for name in collectives.strings("name")], bool
    )
    table = collectives.where(chosen) if len(collectives) else collectives
    waits = np.maximum(table.column("wait_ns"), 0)
    times, sizes = table.column("duration_ns") - waits, table.column("size_bytes")
    known = (sizes >= 0) & (times > 0)
    sizes, times = sizes[known].astype(float), times[known].astype(float)
    if len(sizes) < FEWEST:
        return np.empty(0)
    fixed_ns, slope = _line(sizes, times) if np.ptp(sizes) else (float(np.median(times)), 0.0)
    residual = times - slope * sizes
    return residual[slope * sizes <= max(fixed_ns, 1.0)]


def _compile_times(trace: Trace) -> dict[str, Array]:
    """A line through compile seconds over graph nodes, from a device's own profile only."""
    table = trace.table(Kind.COMPILE)
    if trace.header.device != "hardware" or len(table) < FEWEST:
        return {}
    known = (table.column("duration_ns") > 0) & (table.column("node_count") > 0)
    seconds, nodes = table.column("duration_ns")[known] / 1e9, table.column("node_count")[known].astype(float)
    if len(seconds) < FEWEST or not np.ptp(nodes):
        return {}
    fixed, each = _line(nodes, seconds)
    return {"compile_s": seconds - each * nodes, "compile_node_s": (seconds - fixed) / nodes}


def _line(x: Array, y: Array) -> tuple[float, float]:
    """Intercept and slope with relative errors alike: a small transfer counts as much as a large one."""
    weight = 1 / y
    design = np.stack([weight, x * weight], axis=1)
    (fixed, slope), *_ = np.linalg.lstsq(design, np.ones(len(y)), rcond=None)
    return float(fixed), float(slope)


def _link_share(sizes: Array, times_ns: Array, fixed_ns: float, ranks: int, instance_name: str) -> Array:
    """Where between the worst and the best link rate the large transfers lie."""
    machine = instance(instance_name)
    if machine.link is None:
        return np.empty(0)
    large = times_ns > 5 * fixed_ns
    rate = machine.link.rate()
    shares = []
    for size, time_ns in zip(sizes[large].tolist(), times_ns[large].tolist(), strict=True):
        sent = route("all_reduce", size, ranks, machine.link.algorithm(size)).sent_bytes
        reached = sent / (time_ns - fixed_ns)
        shares.append(min(1.0, max(0.0, (reached - rate.low) / (rate.high - rate.low))))
    return np.array(shares)


def _fitted(
    found: Mapping[str, Array], base: Assumptions, date: str, counts: Mapping[str, int] | None = None
) -> Calibration:
    changes: dict[str, Assumption] = {}
    readings: dict[str, int] = {}
    for name, values in found.items():
        count = (counts or {}).get(name, len(values))
        if count < FEWEST or not len(values):
            continue
        low, value, high = np.percentile(values, [LOW, 50, HIGH]).tolist()
        old = base.rows()[name]
        low, value, high = (max(0.0, each) for each in (low, value, high))
        changes[name] = Assumption(value, low, high, old.unit, old.reason, date)
        readings[name] = count
    return Calibration(base.replace(**changes), date, readings)


def today() -> str:
    return datetime.now(UTC).date().isoformat()
