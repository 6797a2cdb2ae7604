"""Every private name of TorchDynamo the observer relies on, and a test that they are still there.

Verified with torch 2.13. The structured trace (logger `torch.__trace`) is what TORCH_TRACE writes to files; a
handler on it sees the same records without files, environment variables or output. Nothing here changes
Dynamo's behaviour or configuration. TorchDynamo takes about a second to import, so nothing here imports it:
what is not loaded has not compiled anything yet.

This module knows nothing of events or of the words shown to users.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

TRACE_LOGGER = "torch.__trace"

# Record types of the structured trace: the first key of `record.metadata`, or the name of an artifact.
COMPILE_START = "dynamo_start"
COMPILE_METRICS = "compilation_metrics"
ARTIFACT = "artifact"
GRAPH_BREAK_ARTIFACT = "dynamo_graph_break_reason"
RECOMPILE_ARTIFACT = "recompile_reasons"

BREAK_CATEGORIES = ("graph_break", "unimplemented")  # data-dependent branches are counted under the second
LIMIT_MESSAGE = "Dynamo recompile limit exceeded"
NESTED_BREAK_MARKER = "*** While handling this graph break, another graph break occurred: ***"
RESUME_PREFIX = "torch_dynamo_resume_in_"

_REASONS_FUNCTION = "get_and_maybe_log_recompilation_reasons"
_COMPILE_FUNCTION = "_compile"  # of convert_frame


def is_loaded() -> bool:
    """Whether TorchDynamo is imported far enough to have compiled anything."""
    return "torch._dynamo.convert_frame" in sys.modules


def _module(name: str) -> Any:
    return sys.modules.get(f"torch._dynamo.{name}")


def break_counters() -> dict[str, int]:
    """Dynamo's own count of graph breaks by message, without those that report a reached limit."""
    counters = getattr(_module("utils"), "counters", None)  # missing while another thread imports the module
    if counters is None:
        return {}
    totals: dict[str, int] = {}
    for category in BREAK_CATEGORIES:
        for message, count in list(counters.get(category, {}).items()):
            if not message.startswith(LIMIT_MESSAGE):
                totals[message] = totals.get(message, 0) + int(count)
    return totals


def recompile_limit() -> int | None:
    """Dynamo's limit of compiled versions per code object, or None when it cannot be read."""
    config = _module("config")
    limit = getattr(config, "recompile_limit", None)
    return limit if isinstance(limit, int) else None


def dynamic_shapes_requested() -> bool:
    """True while a function marked `dynamic=True` is compiled: Dynamo then assumes no static shape."""
    config = _module("config")
    return config is not None and config.assume_static_by_default is False


def current_compile_id() -> str:
    """`frame/version` of the compilation this thread is in, or an empty string."""
    guards = sys.modules.get("torch._guards")
    current = guards.CompileContext.current_compile_id() if guards is not None else None
    if current is None:
        return ""
    return compile_id_text({"frame_id": current.frame_id, "frame_compile_id": current.frame_compile_id})


def compile_id_text(metadata: Mapping[str, Any]) -> str:
    """`frame/version` as Dynamo writes it; versions above 0 are recompiles. Empty when the record has none."""
    frame, version = metadata.get("frame_id"), metadata.get("frame_compile_id")
    return "" if frame is None or version is None else f"{frame}/{version}"


def compiling_frame() -> tuple[types.CodeType, Mapping[str, Any]] | None:
    """Code and locals of the user's frame this thread is compiling, or None."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == _COMPILE_FUNCTION and "torch/_dynamo" in frame.f_code.co_filename:
            code, names = frame.f_locals.get("code"), frame.f_locals.get("locals")
            if isinstance(code, types.CodeType) and isinstance(names, Mapping):
                return code, names
        frame = frame.f_back
    return None


def record_type(metadata: Mapping[str, Any]) -> str:
    """The type of a structured trace record, or the artifact's name for artifacts."""
    first = next(iter(metadata), "")
    return str(metadata[ARTIFACT].get("name", "")) if first == ARTIFACT else first


def recompiling_frame() -> Any | None:
    """The user's frame whose guards just failed (f_code, f_locals), while the record is being written.

    The record names only the value an earlier version was compiled for; the new value is in this frame.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == _REASONS_FUNCTION:
            return frame.f_locals.get("frame")
        frame = frame.f_back
    return None


def compiled_versions(code: types.CodeType) -> list[Any]:
    """Dynamo's cache entries for a code object; each has a `guard_manager` with `check(locals)`."""
    eval_frame = _module("eval_frame")
    return [] if eval_frame is None else list(eval_frame._debug_get_cache_entry_list(code))


class CompiledCallHook:
    """Calls `on_call(function, args, kwargs)` at each call of something made by torch.compile, until removed.

    Dynamo asks `eval_frame._callback_from_stance` once per such call. After the recompile limit is reached it
    gives no other sign of a call, so this is the only way to count those that then run uncompiled.
    """

    def __init__(self, on_call: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], None]) -> None:
        self._on_call = on_call
        self._original: Callable[..., Any] | None = None

    def install(self) -> bool:
        """Start calling; False when Dynamo has no such function any more."""
        eval_frame = _module("eval_frame")
        if self._original is not None or not hasattr(eval_frame, "_callback_from_stance"):
            return self._original is not None
        self._original = original = eval_frame._callback_from_stance

        def callback_from_stance(callback: Any) -> Any:
            caller = sys._getframe(1)
            if caller.f_code.co_name == "compile_wrapper" and callback not in (None, False):
                values = caller.f_locals
                self._on_call(values["fn"], values["args"], values["kwargs"])
            return original(callback)

        self._replacement = callback_from_stance
        eval_frame._callback_from_stance = callback_from_stance
        return True

    def remove(self) -> None:
        """Put Dynamo's own function back."""
        eval_frame = _module("eval_frame")
        if self._original is not None and eval_frame._callback_from_stance is self._replacement:
            eval_frame._callback_from_stance = self._original
        self._original = None


def _constants(code: types.CodeType) -> Iterator[object]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _constants(constant)
        elif isinstance(constant, tuple):
            yield from constant
        else:
            yield constant


def _writes(function: Any, name: str) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and name in _constants(code)


def self_test() -> list[str]:
    """What this torch no longer offers, one sentence each; empty when all is there. Compiles nothing."""
    logging_internals = sys.modules.get("torch._logging._internal")
    symbolic, guards, frames = _module("symbolic_convert"), _module("guards"), _module("convert_frame")
    translator = getattr(symbolic, "InstructionTranslatorBase", None)
    checks = {
        "the structured trace logger": getattr(getattr(logging_internals, "trace_log", None), "name", "")
        == TRACE_LOGGER,
        "the record of graph breaks": _writes(
            getattr(translator, "log_graph_break", None), GRAPH_BREAK_ARTIFACT
        ),
        "the record of recompiles": _writes(getattr(guards, _REASONS_FUNCTION, None), RECOMPILE_ARTIFACT),
        "the record of compile starts": frames is not None and _module_writes(frames, COMPILE_START),
        "the break counters": hasattr(_module("utils"), "counters"),
    }
    return [f"torch {_torch_version()} no longer has {what}" for what, present in checks.items() if not present]


def _module_writes(module: Any, name: str) -> bool:
    functions = (value for value in vars(module).values() if isinstance(value, types.FunctionType))
    return any(_writes(function, name) for function in functions)


def _torch_version() -> str:
    return str(getattr(sys.modules.get("torch"), "__version__", "?"))
