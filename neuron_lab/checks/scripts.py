"""Checks a script: a fresh Python process runs it on the emulated device, this one reads what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from neuron_lab.checks import outcome
from neuron_lab.checks.forked import GRACE_S, how_it_ended
from neuron_lab.checks.outcome import Outcome
from neuron_lab.checks.report import CheckReport, report_of
from neuron_lab.errors import UsageError


def check_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    instance: str | None = None,
    timeout_s: float | None = None,
) -> CheckReport:
    """Run `script` with its arguments and report. Its output appears as it is printed.

    Raises UsageError when there is no such file, or the time limit is not positive.
    """
    path = Path(script)
    if not path.is_file():
        raise UsageError(f"no script {str(script)!r}")
    check_timeout(timeout_s)
    with tempfile.TemporaryDirectory(prefix="neuron_lab-check-") as name:
        folder = Path(name)
        limit = "" if timeout_s is None else repr(timeout_s)
        command = [sys.executable, "-m", "neuron_lab.checks.run_script", name, limit, instance or "", str(path)]
        code = _run([*command, *arguments], timeout_s)
        how = outcome.read(folder) or Outcome("lost", how_it_ended(code))
        return report_of(path.name, folder, how, os.environ)


def check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"the time limit must be more than 0 seconds, got {timeout_s!r}")


def _run(command: list[str], timeout_s: float | None) -> int:
    """The exit status; negative for a signal. An interrupt goes to the script, whose report is then written."""
    with subprocess.Popen(command) as process:
        try:
            return process.wait(None if timeout_s is None else timeout_s + GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait()
