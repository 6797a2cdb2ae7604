"""Where in the user's kernel an instruction was written: the innermost frame outside this package."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_own: dict[CodeType, bool] = {}

Place = tuple[str, int]


def _is_own(code: CodeType) -> bool:
    known = _own.get(code)
    if known is None:
        known = _own[code] = code.co_filename.startswith(_PACKAGE)
    return known


def caller_frame() -> FrameType:
    """The innermost frame that is not of this package."""
    frame = sys._getframe(1)
    while _is_own(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def kernel_place() -> Place:
    """(file, line) of the innermost frame that is not of this package."""
    frame = caller_frame()
    return frame.f_code.co_filename, frame.f_lineno


def place_text(place: Place) -> str:
    return f"{place[0]}:{place[1]}"
