"""Runs one compiled graph: aliases in, operators on the CPU without dispatch to the device, device tensors out.

AOTAutograd hands in a graph of ATen operators with static shapes. The real device runs it as one executable,
so one execution is one record. Numbers are those of eager mode: the same operators in the same order, random
ones drawing from the same generator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import torch
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from neuron_lab.compiler import device_tensors, graph_code
from neuron_lab.compiler.cpu_forms import CPU_FORMS, has_cpu_kernel
from neuron_lab.compiler.in_place import write_in_place
from neuron_lab.device import graphs as device_graphs
from neuron_lab.device.core import load_core
from neuron_lab.trace.events import GraphSpec
from neuron_lab.trace.recorder import now_ns

# Namespaces whose operators come with torch and have CPU kernels. Any other operator is a user's: it is called
# with device tensors, as in eager mode.
_TORCH_NAMESPACES = frozenset(
    {"aten", "prims", "prim", "inductor", "rngprims", "quantized", "quantized_decomposed"}
)
# Views that are not marked as views.
_SHARES_STORAGE = frozenset({"aten::_unsafe_view", "aten::_reshape_alias"})
# Calls of users' operators that write to their arguments.
_FUNCTIONALIZED = frozenset({"auto_functionalized", "auto_functionalized_v2"})


_NO_AUTOCOPY = "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY"  # the real backend's own switch


class _Run:
    """What users' operators inside one execution of a graph need to know and keep alive."""

    def __init__(self, core: int, aliases: list[Any], inputs: list[Any]) -> None:
        self.core = core
        # An alias is kept beside its original, so that no later tensor can have its id.
        self.originals = {id(alias): (alias, value) for alias, value in zip(aliases, inputs, strict=True)}
        self.results: list[Any] = []  # device tensors whose aliases the graph uses


_runs: ContextVar[_Run] = ContextVar("neuron_graph_run")


class GraphRunner:
    """Callable with one list of arguments, which it clears (AOTAutograd's boxed convention)."""

    def __init__(self, module: torch.fx.GraphModule, spec: GraphSpec, *, results_follow_trace: bool) -> None:
        """`results_follow_trace`: results traced as CPU tensors stay there; else all are on the device."""
        self._boxed_call = True  # on the instance: AOTAutograd wraps it and copies only instance attributes
        self.spec = spec
        self._signature_id = device_graphs.intern(spec)
        self._core = load_core()
        write_in_place(module.graph)
        results: list[Any] = list(_output(module.graph).args[0])
        places = {node: index for index, node in enumerate(_placeholders(module.graph))}
        self._returned_inputs = [(i, places[node]) for i, node in enumerate(results) if node in places]
        self._viewed_inputs = sorted({places[node] for node in _viewed(results) if node in places})
        self._cpu_results = _traced_on_cpu(results) if results_follow_trace else []
        parameters = [node.meta.get("val") for node in _placeholders(module.graph)]
        self._cpu_arguments = [index for index, value in enumerate(parameters) if _is_on_cpu(value)]
        self._wraps_operators = prepare(module)
        self._function = graph_code.generate(module, spec.name)

    def __call__(self, arguments: list[Any]) -> tuple[Any, ...]:
        begin_ns = now_ns()
        core = device_tensors.core_of(arguments)
        inputs = list(arguments)
        arguments.clear()
        for index in self._cpu_arguments:
            inputs[index] = _on_device(inputs[index], core, index)
        kept = {index: inputs[index] for index in self._viewed_inputs}
        aliases = device_tensors.cpu_aliases(inputs)
        run = _Run(core, aliases, inputs) if self._wraps_operators else None
        inputs.clear()
        with torch._C._AutoDispatchBelowAutograd(), torch._C._DisableAutocast(), torch.no_grad():
            results = list(self._run(aliases, run))
        final = [(index, results[index]) for index in self._cpu_results]
        final += [(index, kept[place]) for index, place in self._returned_inputs]
        for index, _ in final:
            results[index] = None
        results = device_tensors.device_tensors(results, core)
        for index, value in final:
            results[index] = value
        self._core.record_graph(self._signature_id, begin_ns, now_ns(), core)
        return tuple(results)

    def _run(self, aliases: list[Any], run: _Run | None) -> tuple[Any, ...]:
        if run is None:
            return self._function(aliases)
        token = _runs.set(run)
        try:
            return self._function(aliases)
        finally:
            _runs.reset(token)


def prepare(module: torch.fx.GraphModule) -> bool:
    """Make a graph and those inside it fit to run over CPU aliases; True when operators need device tensors.

    Constants move to the CPU, and such operators (the users' own, above all) are wrapped.
    """
    found = False
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.args = map_aggregate(node.args, _constant)
            node.kwargs = map_aggregate(node.kwargs, _constant)
            if node.target in CPU_FORMS:
                node.target = CPU_FORMS[node.target]
            elif needs_device_tensors(node.target):
                found, node.target = True, with_device_tensors(node.target)
    for name, value in [*vars(module).items(), *module.named_buffers(recurse=False)]:
        if device_tensors.is_device(value):
            setattr(module, name, device_tensors.on_cpu(value))
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            found |= prepare(child)
    module.recompile()
    return found


def needs_device_tensors(target: Any) -> bool:
    """Whether an operator is a user's, whose inside the compiler cannot know, or only the device has it."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() in _FUNCTIONALIZED
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target.namespace not in _TORCH_NAMESPACES or not has_cpu_kernel(target)


def with_device_tensors(target: Callable[..., Any]) -> Callable[..., Any]:
    """The operator, callable with aliases: it sees device tensors, and its results become aliases again."""

    def call(*args: Any, **kwargs: Any) -> Any:
        run = _runs.get()
        leaves, spec = pytree.tree_flatten((args, kwargs))
        device_args, device_kwargs = pytree.tree_unflatten([_device_tensor(leaf, run) for leaf in leaves], spec)
        results, result_spec = pytree.tree_flatten(target(*device_args, **device_kwargs))
        run.results += results
        return pytree.tree_unflatten(device_tensors.cpu_aliases(results), result_spec)

    return call


def _device_tensor(value: Any, run: _Run) -> Any:
    """The caller's own tensor for an input's alias; a copy of a value made inside the graph, which lives on."""
    if not isinstance(value, torch.Tensor):
        return value
    known = run.originals.get(id(value))
    return value.to(torch.device(device_tensors.NAME, run.core)) if known is None else known[1]


def _constant(value: Any) -> Any:
    return value if isinstance(value, torch.fx.Node) else device_tensors.on_cpu(value)


def _on_device(value: torch.Tensor, core: int, index: int) -> torch.Tensor:
    """CPU tensors are copied to the device, as the real backend does; in-place changes to them are lost."""
    if not _is_on_cpu(value):
        return value
    if os.environ.get(_NO_AUTOCOPY) == "1":
        raise RuntimeError(
            f"Input tensor at index {index} is on cpu device, expected neuron. "
            "Move tensor to Neuron device first with tensor.to('neuron')"
        )
    return value.detach().to(torch.device(device_tensors.NAME, core))


def _is_on_cpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _output(graph: torch.fx.Graph) -> torch.fx.Node:
    return next(iter(reversed(graph.nodes)))


def _placeholders(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _viewed(results: Iterable[Any]) -> set[torch.fx.Node]:
    """The nodes whose memory the results may share: each result, and what it is a view of."""
    found: set[torch.fx.Node] = set()
    waiting = [node for node in results if isinstance(node, torch.fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes if _shares_storage(node) else []
    return found


def _shares_storage(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is None or node.target.is_view or schema.is_mutable or schema.name in _SHARES_STORAGE


def _traced_on_cpu(results: list[Any]) -> list[int]:
    values = [node.meta.get("val") if isinstance(node, torch.fx.Node) else None for node in results]
    return [index for index, value in enumerate(values) if _is_on_cpu(value)]
