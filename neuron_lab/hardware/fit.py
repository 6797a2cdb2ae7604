"""Does a model fit: bytes per core by category, against one HBM stack, for an instance, batch and length.

Parameters, gradients, optimizer state and cache are counted exactly from dimensions. Activations are an
interval: at best each layer keeps its input (recomputation), at worst everything backward needs, without the
scores of attention. What the compiler and the runtime take is assumed (`RESERVED`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from neuron_lab.errors import UsageError
from neuron_lab.hardware.instances import INSTANCES, Instance
from neuron_lab.hardware.interval import Interval, total
from neuron_lab.hardware.transformer import Decoder
from neuron_lab.hardware.work import item_bytes

RESERVED = Interval(0.02, 0.12)  # of a core's memory: graphs, scratchpads, collectives' buffers; assumed
ACTIVATIONS_KEPT = 17  # tensors of [tokens, hidden] per layer that backward reads (assumed, without scores)
LOGITS_BYTES = 4  # float32, once


@dataclass(frozen=True)
class Plan:
    """How a model is run. `ranks` share every layer; `optimizer` adds so many bytes per parameter."""

    ranks: int = 1
    batch: int = 1
    length: int = 2048
    dtype: str = "bfloat16"
    training: bool = False
    optimizer_bytes: int = 12  # Adam with a float32 copy and two float32 moments
    replicas: int = 1  # share the optimizer state (ZeRO-1)


@dataclass(frozen=True)
class Need:
    """Bytes per core. `fits` is "yes", "no", or "perhaps" when the limit lies inside the interval."""

    instance: str
    lnc: int
    limit_bytes: int
    by_category: dict[str, Interval]

    @property
    def total_bytes(self) -> Interval:
        return total(self.by_category.values())

    @property
    def fits(self) -> str:
        if self.total_bytes.high <= self.limit_bytes:
            return "yes"
        return "perhaps" if self.total_bytes.low <= self.limit_bytes else "no"

    def __str__(self) -> str:
        need = self.total_bytes.scale(2**-30)
        limit = self.limit_bytes / 2**30
        where = f"{self.instance}, LNC {self.lnc}"
        return f"{where}: {need.low:.1f}–{need.high:.1f} of {limit:.0f} GiB per core, fits: {self.fits}"


def does_it_fit(model: Decoder, plan: Plan, instance: Instance, lnc: int | None = None) -> Need:
    """On one core of the instance. Raises UsageError when the plan needs more cores than the machine has."""
    grouping = instance.lnc(lnc)
    if plan.ranks > instance.cores(grouping):
        raise UsageError(
            f"{plan.ranks} ranks do not fit {instance.name}, which has {instance.cores(grouping)} cores "
            f"at LNC {grouping}"
        )
    sharing = max(
        1, sum(instance.pool_of_core(core, grouping) == 0 for core in range(instance.cores(grouping)))
    )
    limit = instance.hbm_per_core_bytes(grouping) // sharing
    needs = {**_weights(model, plan), **_state(model, plan), **_tokens(model, plan)}
    needs["reserved"] = RESERVED.scale(limit)
    return Need(instance.name, grouping, limit, needs)


def where_it_fits(model: Decoder, plan: Plan) -> tuple[Need, ...]:
    """On every known instance that has enough cores."""
    return tuple(does_it_fit(model, plan, each) for each in INSTANCES.values() if each.cores() >= plan.ranks)


def _exactly(size_bytes: float) -> Interval:
    return Interval(size_bytes, size_bytes)


def _weights(model: Decoder, plan: Plan) -> dict[str, Interval]:
    share = ceil(model.parameters / plan.ranks) * item_bytes(plan.dtype)
    found = {"parameters": _exactly(share)}
    if plan.training:
        found["gradients"] = _exactly(share)
    return found


def _state(model: Decoder, plan: Plan) -> dict[str, Interval]:
    if not plan.training:
        return {}
    return {"optimizer": _exactly(ceil(model.parameters / plan.ranks / plan.replicas) * plan.optimizer_bytes)}


def _tokens(model: Decoder, plan: Plan) -> dict[str, Interval]:
    tokens, item = plan.batch * plan.length, item_bytes(plan.dtype)
    logits = tokens * ceil(model.vocabulary / plan.ranks) * LOGITS_BYTES
    if plan.training:
        layer = tokens * model.hidden * item
        kept = Interval(model.layers * layer, model.layers * layer * (1 + (ACTIVATIONS_KEPT - 1) / plan.ranks))
        return {"activations": kept + Interval(0, logits)}
    heads = max(1, ceil(model.kv_heads / plan.ranks))
    cache = 2 * model.layers * heads * model.head_width * item * tokens
    working = 4 * tokens * model.hidden * item
    return {"cache": _exactly(cache), "activations": Interval(0, working + logits)}
