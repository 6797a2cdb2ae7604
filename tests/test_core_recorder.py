"""Records of the core: one per event, whole, in every thread, and known signatures told from new ones."""

import threading

import numpy as np
import pytest
import torch

import neuron_lab
from neuron_lab.device import core as names
from neuron_lab.device.core import load_core


@pytest.fixture(scope="module")
def core():
    neuron_lab.activate(mode="emulated")
    return load_core()


@pytest.fixture
def recording(core):
    core.recorder_start()
    yield core
    core.recorder_stop()
    drain(core)


def drain(core):
    dtype = np.dtype([(name, kind) for name, kind in core.recorder_dtype()])
    return np.frombuffer(core.recorder_drain(), dtype=dtype)


def operators(core, records):
    chosen = records[records["kind"] == names.KIND_OPERATOR]
    rows, ops = core.signatures(0), core.ops()
    return [(ops[rows[r["signature"]][0]], rows[r["signature"]], r) for r in chosen]


def test_an_operator_is_one_record_with_its_signature(recording):
    x = torch.ones(5, 3, device="neuron")
    drain(recording)
    x.sum(1, keepdim=True)
    ((name, row, record),) = operators(recording, drain(recording))
    _, inputs, outputs, static, compiles, _ = row
    assert name == "aten::sum.dim_IntList"
    assert inputs == [("float32", (5, 3))]
    assert outputs == [("float32", (5, 1))]
    assert "keepdim=1" in static or "keepdim=True" in static
    assert compiles is True
    assert record["start_ns"] <= record["end_ns"] <= recording.now_ns()
    assert record["core"] == 0
    assert record["thread"] == threading.get_native_id()


def test_only_the_first_use_of_a_signature_is_a_new_kernel(recording):
    x = torch.ones(7, 11, device="neuron")
    drain(recording)
    x.neg()
    x.neg()
    x[:6].neg()
    flags = [int(record["flags"]) for _, _, record in operators(recording, drain(recording))]
    assert flags == [names.FLAG_NEW_KERNEL, 0, names.FLAG_NEW_KERNEL]


def test_a_kernel_met_before_the_recording_is_known(core):
    x = torch.ones(13, 17, device="neuron")
    x.abs()
    core.recorder_start()
    x.abs()
    core.recorder_stop()
    ((_, _, record),) = operators(core, drain(core))
    assert record["flags"] == 0


def test_a_static_argument_is_part_of_the_signature(recording):
    x = torch.ones(4, 4, 3, device="neuron")
    drain(recording)
    x.cumsum(0)
    x.cumsum(1)
    found = operators(recording, drain(recording))
    assert found[0][2]["signature"] != found[1][2]["signature"]


def test_a_new_signature_knows_the_line_that_needed_it(recording):
    x = torch.ones(3, 19, device="neuron")
    drain(recording)
    x.tan()  # the line looked for
    ((_, row, _),) = operators(recording, drain(recording))
    file, line, function = recording.stacks(0)[row[5]][0]
    assert file == __file__
    assert function == "test_a_new_signature_knows_the_line_that_needed_it"
    with open(file) as source:
        assert "# the line looked for" in source.readlines()[line - 1]


def test_stacks_of_every_operator_on_request(core):
    x = torch.ones(3, device="neuron")
    core.recorder_start(stacks=True)
    x.cos()
    x.cos()
    core.recorder_stop()
    lines = [
        core.stacks(0)[int(record["stack"])][0][1]
        for name, _, record in operators(core, drain(core))
        if "cos" in name
    ]
    assert lines[1] == lines[0] + 1


def test_copies_carry_direction_and_bytes(recording):
    x = torch.ones(10).to("neuron")
    x.cpu()
    x.to("neuron:1")
    records = drain(recording)
    copies = records[(records["kind"] >= 1) & (records["kind"] <= 3)]
    assert [(int(r["kind"]), int(r["value0"])) for r in copies] == [
        (names.KIND_COPY_TO_DEVICE, 40),
        (names.KIND_COPY_TO_HOST, 40),
        (names.KIND_COPY_ON_DEVICE, 40),
    ]


def test_allocations_carry_bytes_and_what_is_held_after(recording):
    before = recording.memory_stats(0)["current"]
    x = torch.empty(100, device="neuron")
    del x
    records = drain(recording)
    memory = [(int(r["kind"]), int(r["value0"]), int(r["value1"])) for r in records if r["kind"] in (4, 5)]
    assert memory == [(names.KIND_ALLOC, 400, before + 400), (names.KIND_FREE, 400, before)]


def test_an_operator_that_raises_is_recorded_as_raised(recording):
    x = torch.ones(2, 3, device="neuron")
    drain(recording)
    with pytest.raises(RuntimeError):
        x.mm(x)
    (record,) = drain(recording)
    assert record["flags"] == names.FLAG_RAISED


def test_an_operator_on_the_fallback_list_is_flagged_with_its_bytes(core):
    core.set_fallback_ops(["aten::erfinv"])
    try:
        x = torch.zeros(6, device="neuron")
        core.recorder_start()
        x.erfinv()
        core.recorder_stop()
        ((_, row, record),) = operators(core, drain(core))
        assert record["flags"] == names.FLAG_FALLBACK
        assert record["value0"] == 48  # 24 bytes to the host and 24 back
        assert row[4] is False  # needs no kernel
        assert core.fallback_counts()["aten::erfinv"] == 1
        assert "aten::erfinv" in core.new_fallbacks()
        assert "aten::erfinv" not in core.new_fallbacks()
    finally:
        from neuron_lab.device import op_list

        op_list.install()


def test_a_forbidden_fallback_is_an_error_that_names_the_operator(core):
    core.set_fallback_ops(["aten::erfinv"])
    core.forbid_fallbacks(True)
    try:
        with pytest.raises(RuntimeError, match=r"aten::erfinv has no kernel on the neuron device"):
            torch.zeros(6, device="neuron").erfinv()
    finally:
        core.forbid_fallbacks(False)
        from neuron_lab.device import op_list

        op_list.install()


def test_a_full_ring_drops_the_newest_and_counts_them(core):
    x = torch.ones(2, device="neuron")
    core.recorder_start(capacity=64)
    for _ in range(100):
        x.neg_()
    core.recorder_stop()
    records = drain(core)
    assert len(records) == 64
    assert core.recorder_dropped() == 36
    core.recorder_start()
    core.recorder_stop()
    assert core.recorder_dropped() == 0


def test_nothing_is_recorded_when_off(core):
    core.recorder_stop()
    drain(core)
    torch.ones(2, device="neuron").neg()
    assert len(drain(core)) == 0


def test_no_record_is_lost_or_torn_while_threads_come_and_go(core):
    """Six threads write while this one drains; every record must be whole and every one must arrive."""
    calls, rounds = 1500, 2
    core.recorder_start(capacity=1 << 15)
    records = []

    def work(index):
        x = torch.ones(index + 1, 3, device="neuron")
        for _ in range(calls):
            x.relu_()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6) for _ in range(rounds)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        records.append(drain(core))
    for thread in threads:
        thread.join()
    core.recorder_stop()
    records.append(drain(core))
    everything = np.concatenate(records)
    assert core.recorder_dropped() == 0
    found = operators(core, everything)
    relu = [(row[1][0][1][0], record) for name, row, record in found if name == "aten::relu_"]
    counts = np.bincount([rows for rows, _ in relu])
    assert counts.tolist() == [0] + [calls * rounds] * 6
    assert all(record["end_ns"] >= record["start_ns"] > 0 for _, record in relu)
    correlations = [int(record["correlation"]) for _, _, record in found]
    assert len(set(correlations)) == len(correlations)
    for thread in {int(record["thread"]) for _, record in relu}:
        starts = [int(r["start_ns"]) for _, r in relu if r["thread"] == thread]
        assert starts == sorted(starts)


def test_counters_count_without_a_recording(core):
    before = core.counters()
    x = torch.ones(23, 29, device="neuron")
    x.neg()
    x.neg()
    after = core.counters()
    grown = {name: after[name] - before[name] for name in after}
    assert grown["eager_kernels_distinct"] >= 1
    assert grown["eager_kernel_hits"] >= 1
    assert grown["operators"] >= 3


def test_a_graph_execution_is_one_record_under_its_signature(recording):
    signature = recording.intern_graph("graph_of_this_test", 12)
    assert recording.intern_graph("graph_of_this_test", 12) == signature
    recording.record_graph(signature, 10, 20, 1)
    (record,) = drain(recording)
    assert (record["kind"], record["signature"], record["start_ns"], record["end_ns"], record["core"]) == (
        names.KIND_GRAPH,
        signature,
        10,
        20,
        1,
    )
