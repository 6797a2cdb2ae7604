"""Says in one plain sentence why the graph broke, and what to change.

Keys are the ids of torch's own catalogue of graph breaks (`graph_break_registry.json`, torch 2.13). A break
that is not in the table below is told with Dynamo's own explanation. The cures are the ones of PyTorch's
documentation of torch.compile, shortened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from neuron_lab.compiler.trace_records import BreakText

Sentence = Callable[[BreakText], tuple[str, str]]

_CODE = re.compile(r"`([^`]+)`")
_PRINTING = ("print",)


def plain_reason(parts: Sequence[BreakText]) -> str:
    """One sentence: what stopped the graph, then the change to make. The last part is what counted."""
    if not parts:
        return "the graph broke here, and Dynamo gave no reason"
    reason, change = _explain(parts[-1])
    if len(parts) > 1:
        cause, change = _explain(parts[0])
        reason = f"{cause}; {reason}"
    return f"{reason}; {change}" if change else reason


def _explain(text: BreakText) -> tuple[str, str]:
    sentence = _SENTENCES.get(text.break_id)
    return sentence(text) if sentence is not None else _dynamos_own(text)


def _dynamos_own(text: BreakText) -> tuple[str, str]:
    first = text.explanation.split("\n", 1)[0].strip().rstrip(".")
    return (f"{text.kind}: {first}" if first and text.kind else text.kind or first or "no reason given"), ""


def _quoted(text: BreakText, default: str) -> str:
    found = _CODE.search(text.explanation)
    return f"`{found[1]}`" if found else default


def _builtin(text: BreakText) -> tuple[str, str]:
    name = _quoted(text, "a built-in function")
    if name.strip("`") in _PRINTING:
        return (
            f"{name} writes to the screen, which a graph cannot do",
            "remove it, or run it only when `torch.compiler.is_compiling()` is False",
        )
    return (
        f"the built-in {name} cannot be put into a graph with these arguments",
        "move the call out of the compiled code",
    )


def _context_name(text: BreakText, key: str) -> str:
    found = re.search(rf"{key}: ([^,]+)", text.context)
    return f"`{found[1].strip('`')}`" if found else "a function"


def _skipped(text: BreakText) -> tuple[str, str]:
    name = _context_name(text, "qualname")
    return (
        f"{name} is marked as not to be compiled",
        "call it outside the compiled code, or make it one graph node with `torch.library.custom_op`",
    )


def _logging(text: BreakText) -> tuple[str, str]:
    name = _context_name(text, "method")
    return (
        f"{name} writes a log message, which a graph cannot do",
        "remove it, or add the method to `torch._dynamo.config.ignore_logging_functions`",
    )


def _asked(text: BreakText) -> tuple[str, str]:
    return (
        "the code asks for a break with `torch._dynamo.graph_break()`",
        "remove the call when it is not wanted any more",
    )


def _fixed(reason: str, change: str) -> Sentence:
    return lambda text: (reason, change)


_SENTENCES: dict[str, Sentence] = {
    "gb0059": _builtin,
    "gb0007": _skipped,
    "gb0008": _skipped,
    "gb0009": _skipped,
    "gb0025": _asked,
    "gb0291": _logging,
    "gb0170": _fixed(
        "an `if` or `while` depends on a tensor's value, which is not known while compiling",
        "use `torch.where`, or `torch.cond` for large branches",
    ),
    "gb0035": _fixed(
        "an `if` or `while` depends on a value that is not known while compiling",
        "use `torch.where`, or decide before the compiled code",
    ),
    "gb0034": _fixed(
        "an `assert` depends on a tensor's value, which is not known while compiling",
        "use `torch._assert_async`, or check outside the compiled code",
    ),
    "gb0124": _fixed(
        "`.item()` (also `int()`, `float()` or `bool()` of a tensor) needs the value on the host",
        "keep the number as a tensor, or take it outside the compiled code",
    ),
    "gb0033": _fixed(
        "an operator returns a Python number that depends on a tensor's value",
        "keep the number as a tensor, or compute it outside the compiled code",
    ),
    "gb0036": _fixed(
        "an operator's output shape depends on a tensor's values (as in `nonzero` or boolean indexing)",
        "use an operator with a fixed shape, such as `torch.where` with three arguments",
    ),
    "gb0037": _fixed(
        "an operator's output shape depends on a tensor's values",
        "use an operator with a fixed shape, such as `torch.where` with three arguments",
    ),
    "gb0109": _fixed("`.tolist()` needs the values on the host", "take the list outside the compiled code"),
    "gb0105": _fixed(
        "`.numpy()` needs the values on the host", "use torch operators, or convert outside the compiled code"
    ),
    "gb0294": _fixed(
        "this numpy function has no torch equivalent",
        "use torch operators, or call it outside the compiled code",
    ),
    "gb0003": _fixed(
        "a generator function cannot be compiled by itself", "compile the function that consumes it"
    ),
    "gb0014": _fixed(
        "RNN, GRU and LSTM modules are not put into graphs", "keep them outside the compiled code"
    ),
    "gb0015": _fixed(
        "sparse tensors are not put into graphs",
        "convert to dense first, or keep them outside the compiled code",
    ),
    "gb0123": _fixed(
        "`.backward()` inside compiled code",
        "compile only the forward pass and the loss; the backward pass is compiled with it",
    ),
    "gb0125": _fixed("`.requires_grad_()` inside compiled code", "call it before the compiled code"),
    "gb0142": _fixed(
        "this context manager is not supported in a graph", "put the `with` around the compiled call"
    ),
    "gb0179": _fixed("`copy.deepcopy` cannot be put into a graph", "copy before the compiled code"),
    "gb0088": _fixed("the code raises an exception here", "handle the case before the compiled code"),
    "gb0066": _fixed(
        "it is inside a `with` block that cannot be left half-way, so the whole function runs uncompiled",
        "move the `with` block out of the compiled code",
    ),
    "gb7000": _fixed(
        "it is inside a loop, where a graph cannot be resumed, so the whole function runs uncompiled",
        "remove the cause of the break from the loop",
    ),
}
