"""Write the tree in README.md: every file with the first half line of what it says about itself.

`python scripts/tree.py` rewrites it, `python scripts/tree.py --check` only compares (the test does the same). A
file's own first line is the one place where its purpose is written, so the tree cannot drift from the code.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- tree -->", "<!-- /tree -->"
WIDTH = 84  # characters of a description before it is cut at a word
SHOWN = ("neuron_lab", "notebooks", "tests", "benchmarks", "scripts", "binder", "extension")
SAID_ELSEWHERE = {  # files that cannot carry a first line of their own
    "api.json": "the kernel language's functions: signatures, limits, costs, from its documentation",
    "op_support.csv": "which operators run on the device, per the April 2026 registrations",
    "py.typed": "marks the package as typed",
    "Makefile": "setup, demo, lab, test, lint, bench, core",
    "pyproject.toml": "build, dependencies, every tool's settings",
}


def tree() -> str:
    lines: list[str] = []
    depth_seen: tuple[str, ...] = ()
    for path in tracked_files():
        parts = path.relative_to(ROOT).parts
        for depth, folder in enumerate(parts[:-1]):
            if depth_seen[: depth + 1] != parts[: depth + 1]:
                lines.append(f"{'  ' * depth}{folder}/")
        depth_seen = parts[:-1]
        name = f"{'  ' * (len(parts) - 1)}{parts[-1]}"
        lines.append(f"{name:<36} {description(path)}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```"


def tracked_files() -> list[Path]:
    """Files git knows below the shown folders; empty `__init__.py` files say nothing and are left out."""
    listed = subprocess.run(
        ["git", "ls-files", *SHOWN], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    return [path for path in paths if path.exists() and path.stat().st_size > 0]


def description(path: Path) -> str:
    if path.name in SAID_ELSEWHERE:
        return SAID_ELSEWHERE[path.name]
    said = first_line(path)
    if not said and path.with_suffix(".h").exists():
        return f"implements {path.stem}.h"
    return shorten(said)


def first_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".py", ".pyi"}:
        return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
    if path.suffix == ".ipynb":
        first = json.loads(text)["cells"][0]["source"]
        return "".join(first).splitlines()[0].lstrip("# ")
    for line in text.splitlines()[:12]:
        said = re.match(r"\s*(?://+|#(?!!|include|pragma|define|ifndef)|/\*+|\*)\s*(.*?)\s*(?:\*/)?$", line)
        if said and said.group(1):
            return said.group(1)
    return ""


def shorten(text: str) -> str:
    """The first sentence, cut at a word when it is longer than half a line."""
    sentence = re.split(r"(?<=[a-z0-9)`])[.] ", text.strip())[0].rstrip(".:;")
    if len(sentence) <= WIDTH:
        return sentence
    return sentence[: WIDTH - 2].rsplit(" ", 1)[0].rstrip(",") + " …"


def with_tree(readme: str) -> str:
    before, rest = readme.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{tree()}\n{END}{rest.split(END, 1)[1]}"


def main(arguments: list[str]) -> int:
    current = README.read_text(encoding="utf-8")
    wanted = with_tree(current)
    if current == wanted:
        return 0
    if "--check" in arguments:
        print("the tree in README.md is not the repository's; run `python scripts/tree.py`", file=sys.stderr)
        return 1
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
