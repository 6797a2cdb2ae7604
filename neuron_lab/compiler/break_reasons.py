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


def _disabled(text: BreakText) -> tuple[str, str]:
    found = re.search(r"<(?:function|bound method) ([\w.<>]+)", text.explanation)
    name = f"`{found[1].rsplit('.', 1)[-1]}`" if found else "a function"
    return (
        f"{name} is kept out of graphs by `torch.compiler.disable`",
        "call it outside the compiled code, or take the decorator away when it is not needed any more",
    )


def _method(text: BreakText) -> tuple[str, str]:
    found = re.search(r"method `([^`]+)` of class `([^`]+)`", text.explanation)
    name = f"`{found[2]}.{found[1]}`" if found else "this method"
    return f"{name} cannot be put into a graph", "call it outside the compiled code"


def _delayed(text: BreakText) -> tuple[str, str]:
    _, _, why = text.explanation.partition("Reason: ")
    first = why.split("\n", 1)[0].split(". ", 1)[0].strip().rstrip(".")
    call = _quoted(text, "this call")
    return (
        f"{call} cannot be put into a graph" + (f" ({first})" if first else ""),
        "call it outside the compiled code",
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
    "gb0098": _disabled,
    "gb0099": _disabled,
    "gb0156": _method,
    "gb0148": _delayed,
    "gb4297": _fixed(
        "the code asks with `torch._dynamo.skip_frame()` to leave the whole function uncompiled",
        "remove the call when it is not wanted any more",
    ),
    "gb0107": _fixed(
        "`Tensor.random_` is not put into graphs", "use `torch.randint`, or draw outside the compiled code"
    ),
    "gb0110": _fixed(
        "`Tensor.uniform_` with the keyword `from` is not put into graphs", "pass the bounds by position"
    ),
    "gb0108": _fixed(
        "`.retain_grad()` of a tensor made inside does not work in a graph",
        "return the tensor and ask for its gradient outside the compiled code",
    ),
    "gb4198": _fixed("`copy.deepcopy` of a tensor cannot be put into a graph", "use `.clone()`"),
    "gb0104": _fixed("the code reads a tensor's `grad_fn`", "read it outside the compiled code"),
    "gb0045": _fixed(
        "`Tensor.is_inference()` cannot be asked in a graph", "ask before the compiled code and pass the answer"
    ),
    "gb0046": _fixed(
        "`torch.is_inference_mode_enabled()` cannot be asked in a graph",
        "ask before the compiled code and pass the answer",
    ),
    "gb8977": _fixed("a class is defined inside the compiled code", "define it outside"),
    "gb0075": _fixed("a class is defined inside the compiled code", "define it outside"),
    "gb0277": _fixed(
        "sparse tensors are not put into graphs",
        "convert to dense first, or keep them outside the compiled code",
    ),
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
    "gb0088": _fixed(
        "an exception is raised here, by the code or because Dynamo cannot follow it",
        "handle the case before the compiled code",
    ),
    "gb0066": _fixed(
        "it is inside a `with` block that cannot be left half-way, so the whole function runs uncompiled",
        "move the `with` block out of the compiled code",
    ),
    "gb7000": _fixed(
        "it is inside a loop, where a graph cannot be resumed, so the whole function runs uncompiled",
        "remove the cause of the break from the loop",
    ),
}
