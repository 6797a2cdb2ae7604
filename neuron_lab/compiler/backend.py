"""The `neuron` backend of torch.compile: `torch.compile(model, backend="neuron")`.

Dynamo hands over a graph; AOTAutograd makes of it an ATen graph for inference, or one for the forward and one
for the backward pass; each becomes a `GraphRunner`. Shapes are static (see `shape_versions`). As the real
backend does, it accepts and ignores modes and unknown options, refuses `dynamic=True`, copies CPU inputs to
the device and returns device tensors (TorchNeuron source of April 2026; Neuron SDK 2.33 documentation). It
compiles no host code: results are eager mode's.
"""

from __future__ import annotations

import itertools
import logging
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from neuron_lab.compiler import dynamo_internals, graphs, places
from neuron_lab.compiler.graph_runner import GraphRunner
from neuron_lab.compiler.observer import OBSERVER, readable_name
from neuron_lab.compiler.shape_versions import Compiled, ShapeChange, ShapeVersions
from neuron_lab.errors import UsageError
from neuron_lab.trace.events import GraphSpec, Signature
from neuron_lab.trace.recorder import now_ns

_numbers = itertools.count(1)  # graphs compiled by this process, to tell them apart by name
_compiled: dict[tuple[str, tuple[Signature, ...]], GraphSpec] = {}


def neuron_backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **_: Any,
) -> Compiled:
    """Compile one of Dynamo's graphs. Keywords are those torch.compile passes on."""
    if mode not in (None, "default"):
        logging.getLogger().warning(
            "Neuron backend does not support mode='%s', falling back to default mode.", mode
        )
    if options is not None and not isinstance(options, dict):
        raise UsageError(
            f"torch.compile(backend='neuron') takes options as a dict, not {type(options).__name__}"
        )
    origin = _Origin(module, (options or {}).get("model_name"))
    symbolic = _symbolic_dimensions(module)
    if not symbolic:
        return _compile_static(module, example_inputs, origin)
    if dynamo_internals.dynamic_shapes_requested():
        raise RuntimeError(_dynamic_shapes_message(symbolic, origin.place))
    origin.deferred = True
    graphs.remember(origin.compile_id, graphs.Made(deferred=True))
    return ShapeVersions(
        _argument_names(module),
        lambda inputs: _compile_static(module, inputs, origin, now_ns()),
        lambda change: _report_shape(change, origin),
    )


class _Origin:
    """Where a graph comes from: Dynamo's compilation, the user's code and the name to show."""

    def __init__(self, module: torch.fx.GraphModule, model_name: str | None) -> None:
        self.deferred = False  # compiled per shape, when first called
        self.new_graphs = 0  # compiled since the last report
        self.compile_id = dynamo_internals.current_compile_id()
        texts = (node.meta.get("stack_trace") or "" for node in module.graph.nodes)
        frames = [frame for text in texts for frame in places.parse_stack(text)]
        users = [frame for frame in frames if places.is_users(frame.file)]
        self.place = places.innermost(users[:1], OBSERVER.cell_of)
        frame = dynamo_internals.compiling_frame()
        self.name = model_name or (_frame_name(*frame) if frame is not None else "graph")


def _frame_name(code: types.CodeType, names: Mapping[str, Any]) -> str:
    """The class of the module whose method is compiled, also through a decorator; else the function's name."""
    positional = names.get("args")
    for owner in (names.get("self"), positional[0] if isinstance(positional, tuple) and positional else None):
        if isinstance(owner, torch.nn.Module):
            return type(owner).__name__
    return readable_name(code.co_name)


def _compile_static(
    module: torch.fx.GraphModule, inputs: Sequence[Any], origin: _Origin, begin_ns: int = 0
) -> Compiled:
    """`begin_ns`: when Dynamo is not the one who measures how long it takes."""
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(
        fw_compiler=_compiler(origin, "forward", begin_ns, results_follow_trace=False),
        bw_compiler=_compiler(origin, "backward", 0, results_follow_trace=True),
        inference_compiler=_compiler(origin, "", begin_ns, results_follow_trace=False),
        keep_inference_input_mutations=True,
    )
    compiled: Compiled = compiler(module, inputs)
    return compiled


def _compiler(
    origin: _Origin, part: str, begin_ns: int, *, results_follow_trace: bool
) -> Callable[..., GraphRunner]:
    def compile_graph(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> GraphRunner:
        start_ns = begin_ns or now_ns()
        spec, new = _known_or_new(f"{origin.name} {part}".strip(), module.graph)
        origin.new_graphs += new
        runner = GraphRunner(module, spec, results_follow_trace=results_follow_trace)
        in_dynamo = part != "backward" and bool(dynamo_internals.current_compile_id())
        reported_by_dynamo = in_dynamo and graphs.remember(origin.compile_id, graphs.Made(spec))
        if not reported_by_dynamo and (new or not origin.deferred):
            OBSERVER.report_graph(spec, origin.compile_id, origin.place, start_ns)
        return runner

    return compile_graph


def forget_compiled() -> None:
    """Count graphs compiled before as new again, for who wants to know what a fresh process would compile."""
    _compiled.clear()


def _known_or_new(title: str, graph: torch.fx.Graph) -> tuple[GraphSpec, bool]:
    """The description, numbered. An equal graph of the same code is the same executable, as in a cache."""
    nodes = graphs.describe(title, graph).nodes
    known = _compiled.get((title, nodes))
    if known is not None:
        return known, False
    spec = _compiled[title, nodes] = GraphSpec(f"{title} #{next(_numbers)}", nodes)
    return spec, True


def _report_shape(change: ShapeChange | None, origin: _Origin) -> None:
    """Only when something was compiled: a shape from before Dynamo made it symbolic has its graph already."""
    compiled, origin.new_graphs = origin.new_graphs, 0
    if change is not None and compiled:
        OBSERVER.report_new_shape(origin.name, change, origin.compile_id, origin.place)


def _symbolic_dimensions(module: torch.fx.GraphModule) -> list[str]:
    """`x: dimension 0 (s77)` for each symbolic dimension of the graph's inputs, and the symbolic integers."""
    found: list[str] = []
    sizes: set[str] = set()
    numbers: dict[str, str] = {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value") if node.op == "placeholder" else None
        name = _user_name(node.name)
        if isinstance(value, torch.Tensor):
            dimensions = [(d, size) for d, size in enumerate(value.shape) if isinstance(size, torch.SymInt)]
            found += [f"{name}: dimension {dimension} ({size})" for dimension, size in dimensions]
            sizes.update(str(size) for _, size in dimensions)
        elif isinstance(value, torch.SymInt) and str(value) not in sizes:
            numbers[str(value)] = f"{name} ({value})"
    return found + [text for symbol, text in numbers.items() if symbol not in sizes]


def _dynamic_shapes_message(symbolic: list[str], place: places.Place) -> str:
    where = place.cell or place.place
    return (
        "Dynamic shapes detected in the model, but torch-neuronx requires static shapes. "
        f"Found {len(symbolic)} dynamic dimension(s): [{', '.join(symbolic)}]"
        + (f" in the code at {where}" if where else "")
        + ". Leave out dynamic=True: each new shape is then compiled once. "
        "Padding or bucketing the inputs keeps the number of shapes small."
    )


def _argument_names(module: torch.fx.GraphModule) -> list[str]:
    return [_user_name(node.name) for node in module.graph.nodes if node.op == "placeholder"]


def _user_name(name: str) -> str:
    """Dynamo names the user's `x` `l_x_`."""
    return name.removeprefix("l_").removesuffix("_") if name.startswith("l_") else name


neuron_backend.__name__ = "neuron"
