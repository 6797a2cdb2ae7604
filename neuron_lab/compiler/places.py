"""Where in the user's code something happened: the innermost frame that a user would call their own.

Notebook cells are files with meaningless temporary names; whoever knows the notebook hands in `cell_of`,
which turns such a name into "In [5]". This module knows nothing of notebooks and nothing of the compiler.
"""

from __future__ import annotations

import linecache
import re
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

CellOf = Callable[[str], str | None]

_FRAME_LINE = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')
_MARKER_LINE = re.compile(r"^[\s^~]*$")

# Packages that run or compile the user's code; a frame in one of them is never where the user has to look.
_MACHINERY = (
    "torch",
    "IPython",
    "ipykernel",
    "traitlets",
    "tornado",
    "zmq",
    "jupyter_client",
    "nbclient",
    "pluggy",
    "_pytest",
)
_LIBRARY_DIRECTORIES = tuple({sysconfig.get_paths()[key] for key in ("purelib", "platlib")})
_STANDARD_LIBRARY = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")})
# Code that libraries generate has such file names; other <names> are what the user typed in or executed.
_GENERATED = (
    "<eval_with_key>",
    "<frozen ",
    "<attrs ",
    "<decorator-gen",
    "<__array_function__",
    "<neuron graph",
)
_OWN_DIRECTORY = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of code. `cell` is "In [n], line m" in a notebook, else empty; all empty = not known."""

    place: str = ""
    cell: str = ""
    source: str = ""


UNKNOWN = Place()


@dataclass(frozen=True, slots=True)
class StackLine:
    """One frame of a printed Python stack."""

    file: str
    line: int
    function: str
    source: str


def is_users(file: str) -> bool:
    """Whether a file is the user's own or a library's that the user chose, rather than machinery."""
    if not file or file.startswith("<"):
        return bool(file) and not file.startswith(_GENERATED)
    for directory in _LIBRARY_DIRECTORIES:
        if file.startswith(directory + "/"):
            return file[len(directory) + 1 :].split("/", 1)[0] not in _MACHINERY
    if file.startswith(_OWN_DIRECTORY + "/"):
        return False
    return not file.startswith(tuple(path + "/" for path in _STANDARD_LIBRARY))


def parse_stack(text: str) -> list[StackLine]:
    """The frames of a printed stack, outermost first; lines that are not frames end nothing and are skipped."""
    frames: list[StackLine] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := _FRAME_LINE.match(line):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            source = "" if _FRAME_LINE.match(following) or _MARKER_LINE.match(following) else following.strip()
            frames.append(StackLine(match["file"], int(match["line"]), match["function"] or "", source))
    return frames


def innermost(frames: Sequence[StackLine], cell_of: CellOf | None) -> Place:
    """The place of the innermost frame that is the user's, or UNKNOWN."""
    for frame in reversed(frames):
        if is_users(frame.file):
            return place_at(frame.file, frame.line, cell_of, frame.source)
    return UNKNOWN


def place_at(file: str, line: int, cell_of: CellOf | None, source: str = "") -> Place:
    """The place of a known file and line; the source text is looked up when not given."""
    label = cell_of(file) if cell_of is not None else None
    return Place(
        place=f"{file}:{line}",
        cell=f"{label}, line {line}" if label else "",
        source=source or linecache.getline(file, line).strip(),
    )
