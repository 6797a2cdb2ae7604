"""Actions that wait for an import."""

import sys

import pytest

from neuron_lab.device.post_import import when_imported


@pytest.fixture
def fresh_module(tmp_path, monkeypatch):
    (tmp_path / "module_that_waits.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "module_that_waits", raising=False)
    yield "module_that_waits"
    sys.modules.pop("module_that_waits", None)


def test_the_action_runs_once_after_the_module_has_run(fresh_module):
    seen = []
    finders = list(sys.meta_path)
    when_imported(fresh_module, lambda module: seen.append(module.value))
    assert seen == []
    __import__(fresh_module)
    __import__(fresh_module)
    assert seen == [1]
    assert sys.meta_path == finders


def test_the_module_keeps_its_own_loader(fresh_module):
    when_imported(fresh_module, lambda module: None)
    module = __import__(fresh_module)
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__


def test_an_imported_module_is_acted_on_at_once():
    seen = []
    when_imported("sys", seen.append)
    assert seen == [sys]
