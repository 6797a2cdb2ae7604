"""In the child process: run something under a profile, and leave a trace and an outcome behind however it ends.

A thread watches the time. When it is over, the thread ends the profile, writes what was recorded with the line
the run was at, and ends the process; so a run that hangs in a call that never returns still leaves a report.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from neuron_lab.checks.outcome import TRACE_FILE, Outcome, Status
from neuron_lab.compiler import places
from neuron_lab.compiler.observer import OBSERVER
from neuron_lab.session import ProfileSession, profile
from neuron_lab.session.armed import CellOf

ADVISED_MODULES = ("transformers", "accelerate", "diffusers", "trl", "peft")


class WatchedRun:
    """One run. `timeout_s` None: as long as it takes."""

    def __init__(
        self, folder: Path, name: str, timeout_s: float | None = None, cell_of: CellOf | None = None
    ) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._session: ProfileSession = profile(name, cell_of=cell_of)
        self._cell_of = cell_of
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._main = threading.get_ident()

    def run(self, body: Callable[[], Any]) -> Outcome:
        """Run the body; its exceptions become the outcome."""
        self._session.start()
        if self._timeout_s is not None:
            threading.Thread(target=self._watch, name="neuron_lab-watch", daemon=True).start()
        try:
            body()
        except SystemExit as left:
            code = left.code
            return self._end("finished" if code in (None, 0) else "exited", left, f"exit status {code}")
        except KeyboardInterrupt as error:
            return self._end("interrupted", error, "KeyboardInterrupt")
        except BaseException as error:
            return self._end("raised", error, f"{type(error).__name__}: {error}")
        return self._end("finished", None, "")

    def _watch(self) -> None:
        if self._ended.wait(self._timeout_s):
            return
        place = self._where(_frames(sys._current_frames().get(self._main)))
        self._write("timeout", None, f"still running after {self._timeout_s:g} s", place, "")
        os._exit(0)

    def _end(self, status: Status, error: BaseException | None, detail: str) -> Outcome:
        if error is None or status in ("finished", "exited"):
            return self._write(status, None, detail if status == "exited" else "", "", "")
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        text = "".join(traceback.format_exception(type(error), error, _users_part(error.__traceback__)))
        return self._write(status, error, detail, self._where(frames), text)

    def _write(
        self, status: Status, error: BaseException | None, detail: str, place: str, text: str
    ) -> Outcome:
        with self._writing:  # the watching thread and the run may end in the same moment; the first one counts
            outcome = Outcome(
                status,
                detail,
                place,
                text,
                tuple(OBSERVER.notices),
                tuple(m for m in ADVISED_MODULES if m in sys.modules),
            )
            if not self._ended.is_set():
                self._session.stop(error).save(self._folder / TRACE_FILE)
                outcome.write(self._folder)
                self._ended.set()
            return outcome

    def _where(self, frames: list[tuple[str, int]]) -> str:
        users = [places.StackLine(file, line, "", "") for file, line in frames]
        place = places.innermost(users, self._cell_of)
        return place.cell or place.place


def _users_part(frames: types.TracebackType | None) -> types.TracebackType | None:
    """From the first frame that is the user's on: how the run was started says nothing."""
    rest = frames
    while rest is not None and not places.is_users(rest.tb_frame.f_code.co_filename):
        rest = rest.tb_next
    return rest or frames


def _frames(frame: types.FrameType | None) -> list[tuple[str, int]]:
    """Outermost first."""
    return [(each.f_code.co_filename, each.f_lineno) for each in _outwards(frame)][::-1]


def _outwards(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
