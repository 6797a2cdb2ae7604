"""Calibration: constants hidden in generated readings are found again; without readings nothing is claimed."""

import numpy as np
import pytest
from builders import make_event, make_signature, make_trace

import neuron_lab
from neuron_lab.analysis.calibration import calibrate_collectives, calibrate_trace, nccom_rows
from neuron_lab.analysis.modelled import model_timeline
from neuron_lab.errors import UsageError
from neuron_lab.hardware.assumptions import DEFAULT
from neuron_lab.hardware.collectives import route
from neuron_lab.hardware.instances import instance
from neuron_lab.trace.builder import TraceBuilder
from neuron_lab.trace.events import Kind, Signature, TraceHeader
from neuron_lab.trace.table import Trace

LARGE = make_signature(inputs=((4096, 4096),) * 2, outputs=((4096, 4096),), dtype="bfloat16")  # 869 875 ns
COPY = make_signature("aten::clone", ((8192, 8192),), ((8192, 8192),), dtype="bfloat16")  # 357 914 ns
SMALL = make_signature(inputs=((1, 64), (64, 64)), outputs=((1, 64),), dtype="bfloat16")
HEADER = TraceHeader(
    device="hardware", instance="trn2.3xlarge", chip="trn2", lnc=2, origin_unix_ns=1_800_000_000 * 10**9
)


def noisy(draw: np.random.Generator, value: float, count: int) -> np.ndarray:
    return value * (1 + draw.normal(0, 0.03, count))


def hardware(seed: int = 0, count: int = 200) -> Trace:
    """A device whose launches take 11 µs, products reach 0.72 of the peak, copies 0.55 of HBM."""
    draw = np.random.default_rng(seed)
    builder = TraceBuilder()
    start = 0.0
    hidden: list[tuple[Signature, float, float]] = [
        (SMALL, 1_000, 11_000),
        (LARGE, 869_875 / 0.72, 0),
        (COPY, 357_914 / 0.55, 0),
    ]
    for signature, length, launch in hidden:
        lengths = noisy(draw, length, count)
        gaps = (
            noisy(draw, launch, count) if launch else lengths
        )  # a busy core starts when the kernel before ends
        starts = start + np.cumsum(gaps) - gaps
        columns = {
            "name": signature.op,
            "start_ns": starts.astype(np.int64),
            "duration_ns": lengths.astype(np.int64),
        }
        builder.extend(
            Kind.KERNEL, {**columns, "signature": builder.signature(signature), "core": 0, "clock": "measured"}
        )
        start = float(starts[-1] + 10 * lengths[-1])
    sizes = np.tile(2 ** np.arange(10, 26), 4)
    times = noisy(draw, 1, len(sizes)) * (37_000 + sizes / 40)
    waits = draw.integers(0, 5_000, len(sizes))
    columns = {"name": "all_reduce", "start_ns": np.arange(len(sizes)), "size_bytes": sizes, "wait_ns": waits}
    builder.extend(
        Kind.COLLECTIVE,
        {**columns, "duration_ns": (times + waits).astype(np.int64), "core": 0, "clock": "measured"},
    )
    nodes = np.arange(10, 110)
    seconds = noisy(draw, 1, len(nodes)) * (8 + 0.2 * nodes)
    builder.extend(
        Kind.COMPILE,
        {"name": "f", "start_ns": nodes, "duration_ns": (seconds * 1e9).astype(np.int64), "node_count": nodes},
    )
    return builder.freeze(HEADER)


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("launch_ns", 11_000),
        ("tensor_share", 0.72),
        ("memory_share", 0.55),
        ("all_reduce_ns", 37_000),
        ("compile_s", 8),
        ("compile_node_s", 0.2),
    ],
)
def test_hidden_constants_are_recovered(name: str, hidden: float) -> None:
    fitted = calibrate_trace(hardware()).assumptions.rows()[name]
    assert fitted.value == pytest.approx(hidden, rel=0.06)
    assert fitted.low <= hidden <= fitted.high


def test_fitted_figures_say_when_they_were_calibrated() -> None:
    fitted = calibrate_trace(hardware())
    assert fitted.calibrated_on == "2027-01-15"
    assert "calibrated on 2027-01-15" in str(fitted.assumptions.launch_ns)
    assert "assumed" in str(fitted.assumptions.engine_share)


def test_what_had_no_readings_stays_assumed_and_is_named() -> None:
    fitted = calibrate_trace(hardware())
    assert "engine_share" in fitted.kept
    assert fitted.assumptions.engine_share == DEFAULT.engine_share


def test_a_calibrated_model_has_narrower_intervals_around_the_hidden_device() -> None:
    fitted = calibrate_trace(hardware()).assumptions
    trace = make_trace(
        *[make_event(start_ns=n, signature=SMALL) for n in range(100)], instance="trn2.3xlarge", lnc=2
    )
    before, after = model_timeline(trace).span_ns, model_timeline(trace, fitted).span_ns
    assert before is not None
    assert after is not None
    assert after.high / after.low < before.high / before.low / 4
    assert after.contains(100 * 11_000)


def test_emulated_times_are_refused() -> None:
    with pytest.raises(UsageError, match="needs times measured on a device"):
        calibrate_trace(make_trace(make_event(), make_event(Kind.KERNEL)))


HEAD = "    size(B)    count(elems)     type    time:avg(us)    algbw(GB/s)    busbw(GB/s)"


def nccom(ranks: int = 32, fixed_us: float = 71, rate: float = 110) -> str:
    """What a machine prints whose ring sends `rate` bytes per ns."""
    draw = np.random.default_rng(3)
    lines = ["nccom-test allr", HEAD]
    for power in range(10, 29):
        size = 2**power
        time_us = (fixed_us + route("all_reduce", size, ranks, "ring").sent_bytes / rate / 1e3) * (
            1 + draw.normal(0, 0.02)
        )
        lines.append(f"    {size}    {size // 4}    fp32    {time_us:.2f}    1.0    1.9")
    return "\n".join([*lines, "Avg bus bandwidth: 1.0GB/s"])


def test_collective_constants_are_recovered_from_nccom_test() -> None:
    fitted = calibrate_collectives(
        nccom(), ranks=32, instance_name="trn1.32xlarge", on="2026-01-02"
    ).assumptions
    assert fitted.all_reduce_ns.value == pytest.approx(71_000, rel=0.05)
    link = instance("trn1.32xlarge").link
    assert link is not None
    rate = link.rate()
    assert rate.low + fitted.link_share.value * (rate.high - rate.low) == pytest.approx(110, rel=0.05)


def test_older_headings_are_read_too() -> None:
    sizes, times = nccom_rows("size(B) count(elems) type time(us) algbw(GB/s)\n 1024 256 fp32 12.5 0.1")
    assert (sizes.tolist(), times.tolist()) == ([1024], [12_500])


def test_text_without_a_table_is_refused() -> None:
    with pytest.raises(UsageError, match="0 rows of sizes and times"):
        calibrate_collectives("no devices found", ranks=2, instance_name="trn1.32xlarge", on="")


def test_the_package_offers_calibrate_for_both(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert neuron_lab.calibrate(hardware()).readings["launch_ns"] > 100
    path = tmp_path / "allr.txt"
    path.write_text(nccom())
    fitted = neuron_lab.calibrate(path, ranks=32, instance="trn1.32xlarge", on="2026-01-02")
    assert (fitted.calibrated_on, fitted.readings["all_reduce_ns"]) == ("2026-01-02", 19)


def test_nccom_text_needs_its_machine() -> None:
    with pytest.raises(UsageError, match="give ranks= and instance="):
        neuron_lab.calibrate(nccom())
