"""Tables agree with the totals, and the page that documents them is current."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import make_event, make_signature, make_trace

from neuron_lab.analysis.frames import frame
from neuron_lab.analysis.totals import totals
from neuron_lab.analysis.utilisation import utilisation
from neuron_lab.hardware.assumptions import DEFAULT, Assumption
from neuron_lab.session.result import Profile
from neuron_lab.trace.events import Kind
from neuron_lab.trace.table import Trace

REPOSITORY = Path(__file__).resolve().parent.parent
SMALL = make_signature(inputs=((1, 64), (64, 64)), outputs=((1, 64),))
LARGE = make_signature(inputs=((2048, 2048),) * 2, outputs=((2048, 2048),))
ADD = make_signature("aten::add.Tensor", ((512, 512),) * 2, ((512, 512),))


def sample() -> Trace:
    events = [
        make_event(Kind.OPERATOR, name=each.op, start_ns=place, duration_ns=7, signature=each, core=place % 2)
        for place, each in enumerate([SMALL, LARGE, ADD, ADD, SMALL])
    ]
    fallbacks = [make_event(Kind.FALLBACK, start_ns=5, size_bytes=64)] * 2
    copies = [make_event(Kind.COPY, start_ns=6, direction="d2h", size_bytes=4)]
    return make_trace(*events, *fallbacks, *copies, instance="trn2.3xlarge", lnc=2, counters={"x": 1.0})


def test_operators_add_up_to_the_totals() -> None:
    found, table = totals(sample()), frame(sample(), "ops")
    assert table["count"].sum() == found.operator_count
    assert table["wall_ns"].sum() == sum(each.wall_ns for each in found.operators)


def test_slices_add_up_to_the_busy_time_of_the_totals() -> None:
    found, table = totals(sample()), frame(sample(), "slices")
    assert table["modelled_low_ns"].sum() == sum(busy.low for busy in found.modelled.busy_ns.values())
    assert table["modelled_high_ns"].sum() == sum(busy.high for busy in found.modelled.busy_ns.values())


def test_fallbacks_add_up_to_the_totals() -> None:
    found, table = totals(sample()), frame(sample(), "fallbacks")
    assert (table["count"].sum(), table["size_bytes"].sum()) == (found.fallback_count, found.fallback_bytes)


def test_utilisation_rows_add_up_to_the_span() -> None:
    found, table = totals(sample()), frame(sample(), "utilisation")
    parts = table[[name for name in table if name.startswith("waiting_")]].sum(axis=1)
    assert (parts + table["computing_ns"] + table["idle_ns"] == table["span_ns"]).all()
    assert found.modelled.span_ns is not None
    assert set(table["span_ns"]) == {found.modelled.span_ns.low, found.modelled.span_ns.high}


def test_roofline_kernels_are_all_kernels() -> None:
    table = frame(sample(), "roofline")
    assert table[table["scope"] == "op"]["kernels"].sum() == len(totals(sample()).modelled)


def test_engine_slices_name_engine_and_dtype() -> None:
    table = frame(sample(), "engine_slices")
    first = table.iloc[0]
    assert (first["op"], first["engine"], first["dtype"]) == ("aten::mm", "tensor", "float32")


def test_memory_without_categories_is_an_empty_table() -> None:
    trace = make_trace(make_event(Kind.ALLOC, size_bytes=8, allocated_bytes=8))
    assert len(frame(trace, "memory_use")) == 0


def test_the_page_of_tables_is_current() -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "scripts/tables.py", "--check"], cwd=REPOSITORY, env=environment)
    assert done.returncode == 0


# -- the same questions asked of a profile


def test_a_profile_answers_what_if() -> None:
    found = Profile(sample()).what_if(dtype="bfloat16")
    assert found.speedup is not None
    assert found.speedup.low >= 1


def test_a_profile_finds_what_the_rules_find() -> None:
    assert [each.rule for each in Profile(sample()).findings()][:1] == ["float32_products"]


def test_a_profile_compares_with_another() -> None:
    found = Profile(sample()).compare(Profile(sample()))
    assert found.untested == ("aten::add.Tensor", "aten::mm")


def test_a_profile_tells_where_its_span_goes() -> None:
    assert Profile(sample()).utilisation() == utilisation(sample())


@pytest.mark.parametrize("name", ["utilisation", "roofline", "engine_slices", "findings"])
def test_without_kernels_modelled_tables_are_empty(name: str) -> None:
    assert len(frame(make_trace(instance="trn2.3xlarge"), name)) == 0


def test_a_collective_of_no_duration_has_no_bandwidth() -> None:
    events = [make_event(Kind.COLLECTIVE, size_bytes=4096, duration_ns=length) for length in (0, 2_000)]
    table = frame(make_trace(*events), "collectives")
    assert table["bandwidth_gb_per_s"].isna().tolist() == [True, False]
    assert table["bandwidth_gb_per_s"].tolist()[1] == 2.048


def test_a_summary_with_calibrated_constants_says_since_when() -> None:
    read = DEFAULT.replace(launch_ns=Assumption(7_000, 6_000, 8_000, "ns", "read", "2026-01-02"))
    assert "calibrated on 2026-01-02" in Profile(sample()).summary(read).text
    assert "calibrated" not in Profile(sample()).summary().text
