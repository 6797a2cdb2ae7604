"""The pytest plugin: budgets hold or fail with their causes, in every form the result is written."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from neuron_lab.checks.budget import Budget, Counts, budget_of, excesses
from neuron_lab.checks.gate import markdown
from neuron_lab.errors import UsageError

COUNTS = Counts(
    graphs=2,
    breaks=1,
    recompiles=0,
    eager_kernels=5,
    fallbacks=("aten::a", "aten::b"),
    peak_bytes=95,
    limit_bytes=100,
)

TESTS = """
import pytest, torch

def compiled(function, *sizes):
    run = torch.compile(function, backend="neuron")
    for size in sizes:
        run(torch.ones(size, device="neuron"))

def noisy(x):
    y = x + 1
    print("seen")
    return y * 2

@pytest.mark.neuron_budget(graphs=1, breaks=0, recompiles=0, fallbacks=[], hbm=0.9)
def test_within():
    compiled(lambda x: x + 1, 4)

@pytest.mark.neuron_budget(graphs=1, breaks=0, recompiles=0, fallbacks=[], hbm=0.9)
def test_within_again_although_compiled_before():
    compiled(lambda x: x + 1, 4)

@pytest.mark.neuron_budget(graphs=1)
def test_over():
    compiled(noisy, 4)

@pytest.mark.neuron_budget(breaks=1)
def test_its_own_value_wins():
    compiled(noisy, 4)

@pytest.mark.neuron_budget(fallbacks=["aten::special_entr"])
def test_an_allowed_fallback():
    torch.special.entr(torch.ones(3, device="neuron"))

@pytest.mark.neuron_budget(breaks=0)
def test_its_own_failure_comes_first():
    compiled(noisy, 4)
    assert False, "mine"

def test_without_a_mark():
    assert True
"""


def run_pytest(
    folder: Path, tests: str, *options: str, configuration: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "test_budgets.py").write_text(tests)
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n" + configuration)
    command = [sys.executable, "-m", "pytest", "-p", "neuron_lab.checks.gate", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)


def test_budgets_hold_or_fail_with_their_causes(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        TESTS,
        "--strict-markers",
        "--junitxml=out.xml",
        "--neuron-markdown=out.md",
        configuration="[tool.neuron_lab.budget]\nbreaks = 0\n",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "out.xml").iter("testcase")}
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"test_over", "test_its_own_failure_comes_first"}
    over = cases["test_over"].find("failure").get("message")
    assert "over the neuron budget (graphs=1, breaks=0)" in over
    assert "graphs: 2, budget 1" in over
    assert "breaks: 1, budget 0" in over
    assert f"{tmp_path / 'test_budgets.py'}:11  print(" in over
    assert "mine" in cases["test_its_own_failure_comes_first"].find("failure").get("message")
    properties = {each.get("name"): each.get("value") for each in cases["test_over"].iter("property")}
    assert (properties["neuron_graphs"], properties["neuron_breaks"]) == ("2", "1")
    assert list(cases["test_without_a_mark"].iter("property")) == []
    rows = (tmp_path / "out.md").read_text().splitlines()
    assert (
        rows[2] == "| test | graphs | breaks | recompiles | eager kernels | fallbacks | peak bytes | result |"
    )
    assert len(rows) == 4 + 6
    assert rows[6].startswith("| test_budgets.py::test_over | 2 | 1 | 0 | ")
    assert rows[6].endswith("| failed |")


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("graphs=-1", "graphs takes a count, got -1"),
        ("speed=3", "unknown budget 'speed'; valid: graphs, breaks, recompiles, eager_kernels, fallbacks, hbm"),
        ("1", "takes keywords alone"),
    ],
)
def test_a_mistake_in_a_mark_stops_the_collection(tmp_path: Path, mark: str, message: str) -> None:
    tests = f"import pytest\n@pytest.mark.neuron_budget({mark})\ndef test_it(): pass\n"
    done = run_pytest(tmp_path, tests)
    assert done.returncode == 4
    assert "test_budgets.py::test_it" in done.stderr
    assert message in done.stderr


def test_without_marks_nothing_is_imported(tmp_path: Path) -> None:
    tests = (
        "import sys\ndef test_it(): assert not {'torch', 'numpy', 'neuron_lab.session'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path, tests)
    assert done.returncode == 0, done.stdout


def test_each_limit_has_its_own_line() -> None:
    tight = Budget(graphs=1, breaks=0, recompiles=0, eager_kernels=5, fallbacks=("aten::a",), hbm=0.9)
    assert list(excesses(COUNTS, tight)) == [
        "graphs: 2, budget 1",
        "breaks: 1, budget 0",
        "fallbacks: aten::b; allowed: aten::a",
        "hbm: 95.0% of a core (95 of 100 bytes), budget 90.0%",
    ]


def test_no_budget_is_no_limit() -> None:
    assert list(excesses(COUNTS, Budget())) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fallbacks": "aten::a"}, "fallbacks takes a list of operator names, got 'aten::a'"),
        ({"hbm": 90}, "hbm takes a share of a core's memory above 0 up to 1, got 90"),
        ({"breaks": True}, "breaks takes a count, got True"),
        ({"breaks": 0.5}, "breaks takes a count, got 0.5"),
    ],
)
def test_wrong_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        budget_of(values, "here")
    assert str(caught.value) == f"here: {message}"


def test_a_cell_cannot_end_the_table() -> None:
    assert markdown([("test[a|b\nc]",)]).splitlines()[-1] == r"| test[a\|b c] |"
