"""Says in one plain sentence why Dynamo compiled the same code again, and what to change.

A recompile happens when a guard of every earlier version fails: a size, dtype or Python value differs from
the one the version was made for. Neuron graphs have static shapes, so each new shape costs a compilation.
"""

from __future__ import annotations

from neuron_lab.compiler.trace_records import GuardFailure

_LIBRARY_STATE = ("___check_global_state", "GLOBAL_STATE")
_SETTINGS = {
    "grad_mode": ("gradient mode", "make every call inside, or every call outside, `torch.no_grad()`"),
    "autocast": ("autocast", "make every call inside, or every call outside, `torch.autocast`"),
    "default_dtype": ("the default dtype", "set it once, before the first call"),
    "num_threads": ("the number of threads", "set it once, before the first call"),
}
_NOT_TENSORS = ("object", "length", "key", "identity", "setting")


def plain_reason(failure: GuardFailure, new: str, limit: int | None = None) -> str:
    """What changed; with `limit`, that Dynamo gave up; then the change to make."""
    parts = [_what_changed(failure, new)]
    if limit is not None:
        parts.append(f"the limit of {limit} compiled versions is reached, so this call ran uncompiled")
    if change := _change(failure):
        parts.append(change)
    return "; ".join(parts)


def _what_changed(failure: GuardFailure, new: str) -> str:
    variable = f"`{failure.variable}`"
    now = new or failure.new
    if failure.what == "setting":
        name, _ = _setting(failure.variable)
        return f"{name} changed since the code was compiled"
    if failure.what == "object":
        return f"{variable} is another object than the one the code was compiled for ({failure.old})"
    if failure.what == "key":
        return f"{variable} is {now} now, and was {failure.old}"
    if failure.what == "identity":
        return f"{_listed(failure.variable)} are the same tensor, and were different ones"
    if failure.what == "shape":
        return f"{variable} has shape {now}, was {failure.old}; neuron compiles one static graph per shape"
    if failure.what == "length":
        return f"{variable} is {now}, was {failure.old}" if now else f"{variable} is no longer {failure.old}"
    if failure.what and failure.index:
        return f"{variable} has {failure.what} {now} in dimension {failure.index}, was {failure.old}"
    if failure.what:
        return f"{variable} has {failure.what} {_bare(now)}, was {_bare(failure.old)}"
    if failure.variable:
        return f"{variable} is {now}, was {failure.old}" if now else f"{variable} is no longer {failure.old}"
    if not failure.text:
        return "no earlier version applied, and Dynamo gave no reason"
    if failure.text.startswith(_LIBRARY_STATE):
        return f"a setting of torch changed (gradient mode, autocast, threads or the like): {failure.text}"
    return f"a condition of the earlier version no longer holds: {failure.text}"


def _bare(value: str) -> str:
    """`requires_grad=0` → `0`."""
    return value.rsplit("=", 1)[-1]


def _change(failure: GuardFailure) -> str:
    if failure.what in ("size", "rank", "shape"):
        return "pad or bucket it to a few fixed shapes"
    if failure.what in _NOT_TENSORS:
        return _change_of_python(failure)
    if failure.what == "stride":
        return "call `.contiguous()` before the compiled code"
    if failure.what:
        return f"give it the same {failure.what} in every call"
    if failure.variable and _is_number(failure.old):
        return f"pass `{failure.variable}` as a tensor, or keep it the same"
    return ""


def _change_of_python(failure: GuardFailure) -> str:
    return {
        "setting": _setting(failure.variable)[1],
        "object": f"make `{failure.variable}` once and pass the same one in every call",
        "length": "keep the number of items the same",
        "key": f"set `{failure.variable}` before the first call, and leave it set",
        "identity": "pass a copy (`.clone()`) for one of them",
    }[failure.what]


def _setting(names: str) -> tuple[str, str]:
    for start, words in _SETTINGS.items():
        if names.startswith(start):
            return words
    return f"torch's setting {names}", "set it once, before the first call"


def _listed(names: str) -> str:
    return " and ".join(f"`{name.strip()}`" for name in names.split(","))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
