"""`neuron_lab.check`: a model or a function with examples, in a copy of this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuron_lab.checks.examples import body_of, calls_of, checked_target
from neuron_lab.checks.forked import AFTER_BACKWARD, OUTPUT_FILE, run_forked
from neuron_lab.checks.report import CheckReport, report_of
from neuron_lab.checks.scripts import check_timeout
from neuron_lab.errors import UsageError
from neuron_lab.session.armed import CellOf


def check(
    target: Any,
    examples: Any = None,
    *,
    compile: bool = True,
    instance: str | None = None,
    timeout_s: float | None = None,
    cell_of: CellOf | None = None,
) -> CheckReport:
    """Would this run well on Trainium? Calls it with every example in a child process and reports.

        neuron_lab.check(model, [torch.ones(1, 128), torch.ones(1, 256)])
        neuron_lab.check(model.generate, {"input_ids": ids}, compile=False)

    A list holds one example per call: a tensor, a tuple of arguments, or a dict of named arguments. Module and
    tensors are moved to the device there; nothing of the caller's changes. `compile=False` calls it as it is.
    An exception of the code is in the report, with what was counted until then.

    Raises UsageError for something that cannot be called, no examples, or inside a profile.
    """
    called = checked_target(target)
    calls_of(examples)
    name = getattr(target, "__qualname__", None) or type(target).__name__
    return check_body(
        body_of(called, examples, compile), name, instance=instance, timeout_s=timeout_s, cell_of=cell_of
    )


def check_body(
    body: Callable[[], Any],
    name: str,
    *,
    instance: str | None = None,
    timeout_s: float | None = None,
    cell_of: CellOf | None = None,
) -> CheckReport:
    """The same for a function without arguments, called as it is."""
    check_timeout(timeout_s)
    with tempfile.TemporaryDirectory(prefix="neuron_lab-check-") as folder_name:
        folder = Path(folder_name)
        how = run_forked(body, folder, name=name, instance=instance, timeout_s=timeout_s, cell_of=cell_of)
        if AFTER_BACKWARD in how.detail:
            raise UsageError(
                "this process has computed gradients already, and torch cannot compute them in a copy of it; "
                "check in a fresh kernel before training, or use `neuron-lab check script.py`"
            )
        output = folder / OUTPUT_FILE
        printed = output.read_text(encoding="utf-8") if output.is_file() else ""
        return report_of(name, folder, how, os.environ, printed)
