"""Which notebook cell a file name belongs to.

IPython compiles each cell under a made-up file name and remembers the execution count for it. The map is
private to IPython (`CachingCompiler._filename_map`); without it places keep their file names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def cell_of(shell: Any) -> Callable[[str], str | None]:
    """A function from a code object's file name to `In [n]`, or None when it is no cell of this shell."""

    def label(filename: str) -> str | None:
        counts = getattr(shell.compile, "_filename_map", {})
        return f"In [{counts[filename]}]" if filename in counts else None

    return label
