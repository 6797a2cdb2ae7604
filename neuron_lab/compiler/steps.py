"""Marks generated tokens and optimizer steps while armed, so that readers can count things per step.

A step runs from the previous mark of its thread to its own: token 0 from the call of `generate`, later tokens
from the token before; an optimizer step from the step before, the first one from the start of the profile. The
hooks are torch's own for optimizers; for tokens one method of transformers' GenerationMixin, called once per
token, is wrapped while armed, and only when transformers has been imported by somebody else.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from neuron_lab.compiler.row_buffer import RowBuffer
from neuron_lab.device.post_import import when_imported
from neuron_lab.trace.events import Kind
from neuron_lab.trace.recorder import RECORDER, Recorder, Sink, now_ns

TOKEN = "token"
OPTIMIZER_STEP = "optimizer step"

_GENERATION_MODULE = "transformers.generation.utils"
_GENERATE, _PER_TOKEN = "generate", "_update_model_kwargs_for_generation"


class StepMarks:
    """A trace source; see the module's text."""

    def __init__(self, recorder: Recorder = RECORDER) -> None:
        self._recorder = recorder
        self._rows = RowBuffer()
        self._armed = False
        self._optimizer_steps = 0
        self._last_step_ns = 0
        self._tokens = threading.local()
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to mark steps."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._rows.clear()
        self._armed = True
        self._optimizer_steps = 0
        self._last_step_ns = 0
        self._undo.append(register_optimizer_step_post_hook(self._after_optimizer_step).remove)
        self._undo.append(when_imported(_GENERATION_MODULE, self._wrap_generation))

    def stop(self) -> None:
        """Restore every hooked method; marks made so far wait for one more `drain`."""
        self._armed = False
        while self._undo:
            self._undo.pop()()

    def drain(self, sink: Sink) -> dict[str, int]:
        """Hand over the marks. Nothing is ever dropped."""
        self._rows.drain(sink)
        return {}

    def _mark(self, name: str, index: int, start_ns: int) -> int:
        end_ns = now_ns()
        start_ns = max(
            start_ns, self._recorder.newest_start_ns
        )  # a profile sees no event from before its start
        if self._armed:
            self._rows.add(Kind.STEP, name=name, start_ns=start_ns, duration_ns=end_ns - start_ns, index=index)
        return end_ns

    def _after_optimizer_step(self, *_: Any) -> None:
        self._last_step_ns = self._mark(OPTIMIZER_STEP, self._optimizer_steps, self._last_step_ns)
        self._optimizer_steps += 1

    def _wrap_generation(self, module: ModuleType) -> None:
        mixin = module.GenerationMixin
        self._wrap(mixin, _GENERATE, before=self._generation_begins)
        self._wrap(mixin, _PER_TOKEN, before=self._token_made)

    def _wrap(self, owner: type, name: str, before: Callable[[], None]) -> None:
        original = vars(owner).get(name)
        if original is None:
            return  # another version of transformers: no token marks, everything else as usual

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            before()
            return original(*args, **kwargs)

        setattr(owner, name, wrapper)
        self._undo.append(lambda: _restore(owner, name, wrapper, original))

    def _generation_begins(self) -> None:
        self._tokens.last_ns, self._tokens.index = now_ns(), 0

    def _token_made(self) -> None:
        index = getattr(self._tokens, "index", 0)
        self._tokens.last_ns = self._mark(TOKEN, index, getattr(self._tokens, "last_ns", 0))
        self._tokens.index = index + 1


def _restore(owner: type, name: str, wrapper: object, original: object) -> None:
    """Unless somebody wrapped it again meanwhile: theirs would be lost, and ours is silent when disarmed."""
    if vars(owner).get(name) is wrapper:
        setattr(owner, name, original)


STEPS = StepMarks()
"""The process's step marks: profiles are process-wide."""
