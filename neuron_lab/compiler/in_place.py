"""Lets a graph write into an input directly where the user's code did.

AOTAutograd turns `cache.index_copy_(…)` into a new tensor and a copy of all of it back into the input. That
is the right thing to hand to a compiler, but executed as written it copies a static cache twice per token.
Here the pair becomes the in-place operator again when nothing else reads the input.
"""

from __future__ import annotations

from typing import Any

import torch


def write_in_place(graph: torch.fx.Graph) -> int:
    """Rewrite the graph; returns how many copies were saved. The caller recompiles its module."""
    saved = 0
    for copy in [node for node in graph.nodes if node.target is torch.ops.aten.copy_.default]:
        target, made = copy.args[0], copy.args[1]
        operator = _in_place_operator(target, made, copy)
        if operator is not None:
            made.target = operator
            copy.replace_all_uses_with(made)
            graph.erase_node(copy)
            saved += 1
    return saved


def _in_place_operator(target: Any, made: Any, copy: torch.fx.Node) -> Any | None:
    """The in-place form of the operator that made the value, when using it changes nothing else."""
    if not (
        isinstance(made, torch.fx.Node) and made.args and made.args[0] is target and target.op == "placeholder"
    ):
        return None
    read_elsewhere = set(target.users) - {made, copy}
    returned = any(user.op == "output" for user in made.users)
    if read_elsewhere or returned or not _alike(target, made) or _appears_again(target, made):
        return None
    return _named_with_underscore(made.target)


def _alike(left: torch.fx.Node, right: torch.fx.Node) -> bool:
    """Same dtype and shape: in place there is no promotion and no broadcasting of the target."""
    a, b = left.meta.get("val"), right.meta.get("val")
    return (
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and a.dtype == b.dtype
        and a.shape == b.shape
    )


def _appears_again(target: torch.fx.Node, made: torch.fx.Node) -> bool:
    """Whether the operator reads its target through another argument too, as in `x + x`."""
    others: list[torch.fx.Node] = []
    torch.fx.map_arg((made.args[1:], made.kwargs), others.append)
    return target in others


def _named_with_underscore(target: Any) -> Any | None:
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    packet = getattr(torch.ops.aten, target._schema.name.removeprefix("aten::") + "_", None)
    candidate = getattr(packet, target._overloadname, None)
    same = candidate is not None and _argument_names(candidate) == _argument_names(target)
    return candidate if same else None


def _argument_names(target: Any) -> list[str]:
    return [argument.name for argument in target._schema.arguments]
