"""A gate for tests: pytest -p neuron_lab.checks.gate

    @pytest.mark.neuron_budget(graphs=1, breaks=0, recompiles=0, eager_kernels=20, fallbacks=[], hbm=0.9)
    def test_decode(): ...

A marked test runs under a profile, with nothing compiled before; it fails when it exceeds its budget, and shows
the causes. Budgets for all marked tests stand in pyproject.toml, and a mark's own values win:

    [tool.neuron_lab.budget]
    breaks = 0

The counts are properties in JUnit files; `--neuron-markdown FILE` writes them as a table for a pull request.
Tests without the mark are left alone, and nothing is imported for them.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from neuron_lab.checks.budget import Budget
    from neuron_lab.session import Profile

MARK = "neuron_budget"
PROPERTY = "neuron_"
COLUMNS = ("graphs", "breaks", "recompiles", "eager_kernels", "fallbacks", "peak_bytes")
MOST_CAUSES = 5
_BUDGET: pytest.StashKey[Budget] = pytest.StashKey()
_ROWS: pytest.StashKey[list[tuple[str, ...]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("neuron_lab")
    group.addoption(
        "--neuron-markdown", metavar="FILE", help="write the counts of neuron_budget tests as a table"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(graphs, breaks, recompiles, eager_kernels, fallbacks, hbm): the most this test may need on "
        "the neuron device",
    )
    if config.getoption("neuron_markdown") and not hasattr(config, "workerinput"):
        rows = config.stash[_ROWS] = []
        config.pluginmanager.register(_Table(rows))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker(MARK)) is not None]
    if not marked:
        return
    from neuron_lab.checks.budget import budget_of
    from neuron_lab.errors import UsageError

    try:
        defaults = _defaults(config)
        for item, mark in marked:
            if mark.args:
                raise UsageError(f"{item.nodeid}: {MARK} takes keywords alone, as in {MARK}(breaks=0)")
            item.stash[_BUDGET] = budget_of({**defaults, **mark.kwargs}, item.nodeid)
    except UsageError as mistake:
        raise pytest.UsageError(str(mistake)) from mistake


def _defaults(config: pytest.Config) -> dict[str, Any]:
    import tomllib

    from neuron_lab.checks.budget import budget_of
    from neuron_lab.errors import UsageError

    path = config.rootpath / "pyproject.toml"
    if not path.is_file():
        return {}
    table = (
        tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("neuron_lab", {}).get("budget", {})
    )
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.neuron_lab.budget must be a table, got {table!r}")
    budget_of(table, f"{path}: tool.neuron_lab.budget")
    return dict(table)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    budget = item.stash.get(_BUDGET, None)
    if budget is None:
        return (yield)
    import neuron_lab

    ours = neuron_lab.device_info().kind == "off"
    if ours:
        neuron_lab.activate()
    try:
        _forget_what_is_compiled()
        session = neuron_lab.profile(item.name).start()
        try:
            value = yield
        finally:
            profile = session.stop()
            _note(item, profile)
    finally:
        if ours:
            neuron_lab.deactivate()
    _compare(profile, budget)
    return value


def _forget_what_is_compiled() -> None:
    """Counts must not depend on which tests ran before."""
    import torch

    from neuron_lab.compiler.backend import forget_compiled

    torch._dynamo.reset()
    forget_compiled()


def _note(item: pytest.Item, profile: Profile) -> None:
    from neuron_lab.checks.budget import counts_of

    counts = counts_of(profile.totals())
    for name in COLUMNS:
        value = getattr(counts, name)
        text = " ".join(value) if name == "fallbacks" else "no reading" if value is None else str(value)
        item.user_properties.append((PROPERTY + name, text))


def _compare(profile: Profile, budget: Budget) -> None:
    from neuron_lab.checks.budget import counts_of, excesses
    from neuron_lab.checks.causes import causes

    over = list(excesses(counts_of(profile.totals()), budget))
    if not over:
        return
    found = [str(cause).replace("\n", "\n    ") for cause in causes(profile.trace, profile.totals())]
    shown = [f"  {number}. {text}" for number, text in enumerate(found[:MOST_CAUSES], 1)]
    more = [f"  and {len(found) - MOST_CAUSES} more"] if len(found) > MOST_CAUSES else []
    lines = [f"over the neuron budget ({budget})", *(f"  {line}" for line in over)]
    pytest.fail("\n".join([*lines, *(["costliest causes:"] if shown else []), *shown, *more]), pytrace=False)


class _Table:
    """Collects the counts where reports arrive, so that it works with several test processes too."""

    def __init__(self, rows: list[tuple[str, ...]]) -> None:
        self._rows = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        counts = {name: str(value) for name, value in report.user_properties}
        if report.when == "call" and PROPERTY + COLUMNS[0] in counts:
            cells = [counts.get(PROPERTY + name, "") or "none" for name in COLUMNS]
            self._rows.append((report.nodeid, *cells, report.outcome))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        path = Path(session.config.getoption("neuron_markdown"))
        path.write_text(markdown(self._rows), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        terminalreporter.write_line(
            f"neuron budgets: {len(self._rows)} in {config.getoption('neuron_markdown')}"
        )


def markdown(rows: list[tuple[str, ...]]) -> str:
    """A table in GitHub's Markdown. Cells cannot end it, whatever a test is called."""
    header = ("test", *(name.replace("_", " ") for name in COLUMNS), "result")
    lines = [_row(header), _row(("---",) * len(header)), *(_row(row) for row in rows)]
    return "### Neuron budgets\n\n" + "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
