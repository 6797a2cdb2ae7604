"""Turns an FX graph of ATen operators into one flat Python function that takes and clears a list of arguments.

Operators are called through their bound dispatcher entry, without attribute look-ups; every value is dropped
right after its last use, so a graph holds no more memory than it must. This module knows nothing of devices.
"""

from __future__ import annotations

import linecache
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx

GraphFunction = Callable[[list[Any]], tuple[Any, ...]]

_LITERALS = (int, bool, str, type(None), type(...))


def generate(module: fx.GraphModule, title: str) -> GraphFunction:
    """The function of a graph module's graph. Errors inside show the function's lines under `title`."""
    writer = _Writer(module)
    source = writer.write(module.graph)
    file = f"<neuron graph {title}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), writer.globals)
    function: GraphFunction = writer.globals["graph"]
    return function


class _Writer:
    def __init__(self, module: fx.GraphModule) -> None:
        self.globals: dict[str, Any] = {}
        self._module = module
        self._names: dict[fx.Node, str] = {}
        self._global_names: dict[int, str] = {}

    def write(self, graph: fx.Graph) -> str:
        last_uses = _last_uses(graph)
        parameters = [node for node in graph.nodes if node.op == "placeholder"]
        for index, node in enumerate(parameters):
            self._names[node] = f"a{index}"
        lines = ["def graph(arguments):"]
        if parameters:
            lines.append(f"    {', '.join(self._names[node] for node in parameters)}, = arguments")
        lines.append("    arguments.clear()")
        unused = [node for node in parameters if not node.users]
        lines += self._drop(unused)
        for node in graph.nodes:
            if node.op == "placeholder":
                continue
            lines.append(f"    {self._statement(node)}")
            lines += self._drop(last_uses.get(node, []))
        return "\n".join(lines) + "\n"

    def _drop(self, nodes: list[fx.Node]) -> list[str]:
        names = [self._names[node] for node in nodes if node in self._names]
        return [f"    del {', '.join(names)}"] if names else []

    def _statement(self, node: fx.Node) -> str:
        if node.op == "output":
            return f"return {self._text(tuple(node.args[0]))}"
        if node.op == "get_attr":
            self._names[node] = self._global(operator.attrgetter(str(node.target))(self._module), "c")
            return "pass"
        if node.op != "call_function":
            raise NotImplementedError(
                f"a graph of ATen operators has no {node.op} nodes, but {node.format_node()}"
            )
        function = self._global(_callable(node), "f")
        arguments = [self._text(value) for value in node.args]
        arguments += [f"{key}={self._text(value)}" for key, value in node.kwargs.items()]
        call = f"{function}({', '.join(arguments)})"
        if not node.users:
            return call
        self._names[node] = f"v{len(self._names)}"
        return f"{self._names[node]} = {call}"

    def _text(self, value: Any) -> str:
        from torch import fx

        if isinstance(value, fx.Node):
            return self._names[value]
        if type(value) in (list, fx.immutable_collections.immutable_list):
            return f"[{', '.join(self._text(item) for item in value)}]"
        if type(value) is tuple:
            return f"({''.join(self._text(item) + ', ' for item in value)})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        if type(value) in _LITERALS or (type(value) is float and math.isfinite(value)):
            return repr(value)
        return self._global(value, "c")

    def _global(self, value: Any, prefix: str) -> str:
        name = self._global_names.get(id(value))
        if name is None:
            name = self._global_names[id(value)] = f"{prefix}{len(self.globals)}"
            self.globals[name] = value  # kept alive here, so its id stays its own
        return name


def _callable(node: fx.Node) -> Any:
    """An overload's own dispatcher entry saves a Python call per operator; anything else stays as it is."""
    return getattr(node.target, "_op", node.target)


def _last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """For each node the values that nothing after it reads. Constants (get_attr) stay."""
    seen: set[fx.Node] = set()
    last: dict[fx.Node, list[fx.Node]] = {}
    for node in reversed(graph.nodes):
        if node.op == "output":
            seen.update(node.all_input_nodes)
            continue
        for argument in dict.fromkeys(node.all_input_nodes):
            if argument not in seen and argument.op != "get_attr":
                seen.add(argument)
                last.setdefault(node, []).append(argument)
    return last
