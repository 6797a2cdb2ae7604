"""How a checked run ended, as the child process writes it beside its trace and the parent reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Status = Literal["finished", "raised", "exited", "timeout", "interrupted", "lost"]
TRACE_FILE, OUTCOME_FILE = "run.neuron.parquet", "outcome.json"


@dataclass(frozen=True)
class Outcome:
    """`lost`: the process ended without a word, by a signal or by leaving Python; there is no trace then."""

    status: Status
    detail: str = ""  # the exception in one line, the exit status, or the signal
    place: str = ""  # file:line of the user's code: where it raised, or where it still was
    traceback: str = ""
    notices: tuple[str, ...] = ()  # what the observer could not do
    modules: tuple[str, ...] = ()  # of those the advice asks about, the ones that were imported

    def write(self, folder: Path) -> None:
        (folder / OUTCOME_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(folder: Path) -> Outcome | None:
    """None when the child wrote nothing."""
    path = folder / OUTCOME_FILE
    if not path.is_file():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(**{**fields, "notices": tuple(fields["notices"]), "modules": tuple(fields["modules"])})
