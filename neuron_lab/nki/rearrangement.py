"""`NkiTensor.rearrange`: axes by name, groups as nested tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from neuron_lab.nki import layout
from neuron_lab.nki.layout import Layout, LayoutError


def rearranged(
    old: Layout, source: Sequence[Any], target: Sequence[Any], fixed_sizes: Mapping[str, int]
) -> Layout:
    """Split what the source groups, bring the names in the target's order, join what the target groups."""
    if len(source) != len(old.shape):
        raise LayoutError(f"pattern {tuple(source)} names {len(source)} axes of {len(old.shape)}")
    apart = old
    names: list[str] = []
    for item in source:
        group = _group(item)
        sizes = [fixed_sizes.get(name, -1) for name in group]
        if len(group) > 1:
            apart = layout.split(apart, len(names), sizes)
        elif sizes[0] not in {-1, apart.shape[len(names)]}:
            raise LayoutError(f"{group[0]} is {apart.shape[len(names)]}, not {sizes[0]}")
        names += group
    wanted = [name for item in target for name in _group(item)]
    if sorted(wanted) != sorted(names) or len(set(names)) != len(names):
        raise LayoutError(f"patterns {tuple(source)} and {tuple(target)} do not name the same axes once each")
    together = layout.permuted(apart, [names.index(name) for name in wanted])
    for position, item in enumerate(target):
        last = position + len(_group(item)) - 1
        if last > position:
            together = layout.merged(together, position, last)
    return together


def _group(item: Any) -> list[str]:
    return [item] if isinstance(item, str) else list(item)
