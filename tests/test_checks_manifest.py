"""The manifest names what a run compiles, and the difference to another run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders import make_event, make_trace

from neuron_lab.checks.manifest import Entry, Manifest, difference, load_manifest, manifest_of
from neuron_lab.errors import OutputError, TraceError
from neuron_lab.trace.events import Frame, GraphSpec, Kind, Signature, TensorSpec

SPEC = (TensorSpec("float32", (2, 3)),)
ADD = Signature("aten::add.Tensor", SPEC, SPEC, "alpha=1")
VIEW = Signature("aten::view", SPEC, SPEC, compiles=False)


def entry(name: str) -> Entry:
    return Entry("kernel", name, "float32[2]")


def manifest(*names: str, instance: str = "trn2.3xlarge") -> Manifest:
    return Manifest(instance, 2, tuple(entry(name) for name in names))


def test_kernels_and_graphs_once_each_with_their_places() -> None:
    sin = Signature("aten::sin", SPEC, SPEC, stack=0)
    graph = GraphSpec("Net #4", (ADD,))
    trace = make_trace(
        make_event(Kind.OPERATOR, name="aten::sin", signature=sin),
        make_event(Kind.OPERATOR, name="aten::sin", signature=sin),
        make_event(Kind.OPERATOR, name="aten::view", signature=VIEW),
        make_event(Kind.COMPILE, name="Net #4", graph=graph, place="train.py:7", node_count=1),
        stacks=[(Frame("train.py", 9, "step"),)],
        instance="trn2.3xlarge",
        lnc=2,
    )
    found = manifest_of(trace)
    assert [(each.kind, each.name, each.place) for each in found.entries] == [
        ("graph", "Net", "train.py:7"),
        ("kernel", "aten::sin", "train.py:9"),
    ]
    assert found.entries[0].key.endswith(" of 1 nodes")
    assert found.entries[1].key == "float32[2,3] -> float32[2,3]"


def test_a_graphs_key_depends_on_its_nodes_and_not_on_its_number() -> None:
    def key(name: str, *nodes: Signature) -> str:
        trace = make_trace(
            make_event(Kind.COMPILE, name=name, graph=GraphSpec(name, nodes), node_count=len(nodes))
        )
        return manifest_of(trace).entries[0].key

    assert key("Net #1", ADD) == key("Net #2", ADD)
    assert key("Net #1", ADD) != key("Net #1", ADD, ADD)


def test_what_was_not_predicted_and_what_was_not_needed() -> None:
    found = difference(manifest("a", "b"), manifest("b", "c"))
    assert (found.missed, found.unused) == ((entry("c"),), (entry("a"),))
    assert str(found).splitlines() == [
        "1 of 2 were predicted, 1 predicted ones were not needed",
        "  not predicted: kernel c float32[2]",
        "  not needed: kernel a float32[2]",
    ]


def test_another_machine_uses_nothing_of_it() -> None:
    found = difference(manifest("a"), manifest("a", instance="trn2.48xlarge"))
    assert str(found).startswith(
        "predicted for trn2.3xlarge at LNC 2, run on trn2.48xlarge at LNC 2: everything"
    )


def test_a_saved_manifest_reads_back(tmp_path: Path) -> None:
    path = manifest("a", "ü").save(tmp_path / "m.json")
    assert load_manifest(path) == manifest("a", "ü")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 4  # one line per entry


def test_an_empty_manifest_reads_back(tmp_path: Path) -> None:
    assert load_manifest(manifest().save(tmp_path / "m.json")) == manifest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a warm-up manifest"),
        ("[1]", "it does not say so"),
        (json.dumps({"format": "neuron_lab warm-up manifest", "version": 9}), "of version 9, this reads 1"),
        (json.dumps({"format": "neuron_lab warm-up manifest", "version": 1}), "not a complete manifest"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(TraceError, match=message):
        load_manifest(tmp_path / "m.json")


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none"):
        load_manifest(tmp_path / "none.json")
    with pytest.raises(OutputError, match="cannot be written"):
        manifest().save(tmp_path / "no folder" / "m.json")


def test_the_command_writes_one_and_holds_the_next_run_against_it(tmp_path: Path) -> None:
    script, written = tmp_path / "job.py", tmp_path / "m.json"
    script.write_text(
        "import sys, torch\nx = torch.ones(int(sys.argv[1]), device='neuron')\n"
        "torch.compile(lambda x: x * 2, backend='neuron')(x)\nx.sin()\n"
    )
    command = [sys.executable, "-m", "neuron_lab", "check"]
    first = subprocess.run(
        [*command, "--manifest", str(written), str(script), "4"], capture_output=True, text=True
    )
    assert first.returncode == 0, first.stdout + first.stderr
    sin = next(each for each in load_manifest(written).entries if each.name == "aten::sin")
    assert (sin.key, sin.place) == ("float32[4] -> float32[4]", f"{script}:4")
    assert [each.kind for each in load_manifest(written).entries].count("graph") == 1
    second = subprocess.run(
        [*command, "--expect", str(written), str(script), "5"], capture_output=True, text=True
    )
    assert f"  not predicted: kernel aten::sin float32[5] -> float32[5], first at {script}:4" in second.stdout
    assert "  not needed: kernel aten::sin float32[4] -> float32[4]" in second.stdout
