"""Exports of what the emulated device really recorded, each program in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh_process import run
from trace_processor.oracle import TraceProcessor, engine_folder, node_program
from trace_processor.read_back import Drawn, crossings, read_back, strict_json

PROFILED = """
import sys, neuron_lab, torch
neuron_lab.activate()
x = torch.ones(8, 8, device="neuron")
session = neuron_lab.profile("run", stacks=True)
try:
    with session:
        BODY
except RuntimeError:
    pass
profile = session.profile
for path in PATHS:
    print(profile.export(path))
table = profile.trace.table("operator")
print(len(table), profile.trace.header.duration_ns, sum(profile.trace.header.dropped.values()))
"""


def profiled(body: str, *paths: Path) -> list[str]:
    """Run the body under a profile, export it, and return what was printed."""
    return run(PROFILED.replace("BODY", body).replace("PATHS", repr([str(path) for path in paths])))


def operators(drawn: list[Drawn]) -> list[Drawn]:
    return sorted((each for each in drawn if each.category == "operator"), key=lambda each: each.start_ns)


def test_tr_4_an_operator_that_raised_is_marked_incomplete(tmp_path: Path) -> None:
    body = "x + 1; x * 2; torch.linalg.cholesky(-x)"
    said = profiled(body, tmp_path / "run.json")
    found = operators(read_back(tmp_path / "run.json", None).slices)  # type: ignore[arg-type]
    count, duration_ns, _ = map(int, said[-1].split())
    assert len(found) == count
    finished = [each for each in found if "incomplete" not in each.arguments]
    assert [each.name for each in finished[:2]] == ["aten::add.Tensor", "aten::mul.Tensor"]
    assert [each.arguments.get("incomplete") for each in found[-1:]] == [1]
    assert all(each.duration_ns >= 0 and each.end_ns <= duration_ns for each in found)


@pytest.mark.slow
def test_the_exported_file_agrees_with_the_trace_in_a_real_trace_processor(tmp_path: Path) -> None:
    body = "[torch.relu(x @ x).sum() for _ in range(50)]; torch.sort(x); x.cpu()"
    said = profiled(body, tmp_path / "run.pftrace", tmp_path / "run.json")
    node, folder = node_program(), engine_folder()
    assert node is not None
    assert folder is not None
    with TraceProcessor(node, folder) as processor:
        native = read_back(tmp_path / "run.pftrace", processor)
        processor.load(tmp_path / "run.json")
        assert processor.complaints() == []
        assert processor.value("select count(*) from slice") == len(native.slices)
    chrome = read_back(tmp_path / "run.json", processor)
    count = int(said[-1].split()[0])
    assert len(operators(native.slices)) == len(operators(chrome.slices)) == count
    assert len(native.arrows) == len(chrome.arrows) >= 150
    assert len(native.counters) == len(chrome.counters) > 0
    assert crossings(native.slices) == crossings(chrome.slices) == []


@pytest.mark.slow
def test_tr_7_a_loop_of_200_000_operators(tmp_path: Path) -> None:
    """Documented limits: 100 MB for .json, 250 MB for .pftrace; what is left out is counted."""
    chrome, native = tmp_path / "long.json", tmp_path / "long.pftrace"
    said = profiled("[x.add_(1) for _ in range(200_000)]", native, chrome)
    count, _, dropped = map(int, said[-1].split())
    assert (count, dropped) == (200_000, 0)
    assert native.stat().st_size <= 250_000_000
    assert "left out" not in said[0]
    assert chrome.stat().st_size <= 100_000_000
    assert "left out 100,000 operator rows" in said[1]
    assert strict_json(chrome.read_text(encoding="utf-8"))["otherData"]["cut"]["operator"] == 100_000
