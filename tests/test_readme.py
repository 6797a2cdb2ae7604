"""The README stays true: its tree is the repository's, each file says what it is for, its commands exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

_spec = importlib.util.spec_from_file_location("tree", ROOT / "scripts" / "tree.py")
assert _spec is not None
assert _spec.loader is not None
tree = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tree)


def test_the_tree_in_the_readme_is_the_repository() -> None:
    assert tree.with_tree(README) == README


def test_every_file_in_the_tree_says_what_it_is_for() -> None:
    silent = [str(path.relative_to(ROOT)) for path in tree.tracked_files() if not tree.description(path)]
    assert [name for name in silent if not name.endswith((".csv", ".json", ".png"))] == []


def test_every_make_target_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", README)) <= targets
