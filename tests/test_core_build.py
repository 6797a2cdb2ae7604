"""Building the core: keyed by what it was built for, once, with errors that say what to install."""

import dataclasses

import pytest

from neuron_lab.device import build, core_command
from neuron_lab.errors import CoreBuildError


def test_the_cache_follows_its_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("NEURON_LAB_CACHE", str(tmp_path))
    assert build.planned_build().library.is_relative_to(tmp_path / "core")


@pytest.mark.parametrize("change", ["source", "torch"])
def test_the_key_changes_with_sources_and_torch(monkeypatch, tmp_path, change):
    before = build.planned_build().key
    if change == "source":
        (tmp_path / "a.cpp").write_text("int x;")
        monkeypatch.setattr(build, "SOURCES_DIR", tmp_path)
    else:
        monkeypatch.setattr(build.torch, "__version__", "2.14.0+cpu")
    assert build.planned_build().key != before


def test_a_missing_compiler_is_named_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("NEURON_LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CoreBuildError, match=r"no C\+\+ compiler was found.*apt install g\+\+"):
        build.ensure_built()


def test_a_failed_compilation_shows_its_last_lines_and_the_log(monkeypatch, tmp_path):
    sources = tmp_path / "csrc"
    sources.mkdir()
    (sources / "broken.cpp").write_text("this is not C++\n")
    monkeypatch.setenv("NEURON_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "SOURCES_DIR", sources)
    monkeypatch.setattr(build, "_TORCH_HEADERS", sources / "torch_headers.h")
    (sources / "torch_headers.h").write_text("")
    with pytest.raises(CoreBuildError) as raised:
        build.ensure_built()
    assert "broken.cpp" in str(raised.value)
    log = build.planned_build().log
    assert str(log) in str(raised.value)
    assert "error" in log.read_text()
    assert not build.planned_build().exists


def test_an_unwritable_cache_names_the_variable(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("NEURON_LAB_CACHE", str(blocked))
    with pytest.raises(CoreBuildError, match="set NEURON_LAB_CACHE"):
        build.ensure_built()


def test_info_says_where_the_library_is_and_whether_it_exists(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NEURON_LAB_CACHE", str(tmp_path))
    assert core_command.run(["info"]) == 0
    planned = build.planned_build()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"library   {planned.library} (not built yet)"
    assert lines[1] == f"key       {planned.key}"


def test_a_build_that_exists_is_used_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("NEURON_LAB_CACHE", str(tmp_path))
    planned = build.planned_build()
    planned.directory.mkdir(parents=True)
    planned.library.write_bytes(b"built before")
    assert dataclasses.astuple(build.ensure_built()) == dataclasses.astuple(planned)
    assert planned.library.read_bytes() == b"built before"
