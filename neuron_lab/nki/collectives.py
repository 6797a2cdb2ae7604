"""`nki.collectives`: exchange between simulated ranks (`simulate_ranks`); one rank is a group of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neuron_lab.nki import alu, casts
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.instruction import NkiInstruction, Opcode
from neuron_lab.nki.meetings import meet
from neuron_lab.nki.registers import VirtualRegister, integer
from neuron_lab.nki.run import Core, current
from neuron_lab.nki.storage import HBM, SBUF
from neuron_lab.nki.tensor import NKIObject, NkiTensor
from neuron_lab.nki.values import read, write

Tensors = Sequence[NkiTensor]
Groups = Sequence[Sequence[int]]
_REDUCE = ("add", "minimum", "maximum")
_SEND_COUNT, _SEND_DISPL, _RECV_COUNT, _RECV_DISPL = range(4)  # rows of the metadata of the `_v` forms


class ReplicaGroup(NKIObject):
    """Which ranks exchange with one another."""

    def __init__(self, groups: Groups) -> None:
        self.groups = tuple(tuple(int(rank) for rank in group) for group in groups)

    def of(self, rank: int, operation: str, opcode: Opcode) -> tuple[int, ...]:
        for group in self.groups:
            if rank in group:
                return group
        raise opcode.refuse(
            f"rank {rank} is in no group of {self.groups}", "name every rank once", rank, self.groups
        )


class _Collective:
    """One collective: checks, the meeting of the group, and the record."""

    def __init__(self, name: str, hbm_only: bool = False) -> None:
        self.opcode = Opcode(name)
        self.name = name
        self.hbm_only = hbm_only

    def group(self, core: Core, replica_group: Any) -> tuple[int, ...]:
        made = replica_group if isinstance(replica_group, ReplicaGroup) else ReplicaGroup(replica_group)
        members = made.of(core.rank, self.name, self.opcode)
        outside = [rank for rank in members if rank >= core.launch.ranks]
        if outside:
            raise self.opcode.refuse(
                f"rank {outside[0]} of {members}, but this launch has {core.launch.ranks}",
                "launch with simulate_ranks and one argument tuple per rank",
                value=outside[0],
                limit=core.launch.ranks - 1,
            )
        return members

    def check(self, srcs: Tensors, dsts: Tensors) -> None:
        if len(srcs) != len(dsts):
            raise self.opcode.refuse(f"{len(srcs)} sources and {len(dsts)} destinations", "pair them")
        memories = {tensor.buffer in HBM for tensor in (*srcs, *dsts)}
        if len(memories) > 1 or any(t.buffer not in HBM and t.buffer is not SBUF for t in (*srcs, *dsts)):
            raise self.opcode.refuse("tensors in different memories", "use all HBM or all SBUF")
        if memories == {False} and (len(srcs) > 1 or self.hbm_only):
            raise self.opcode.refuse(f"{len(srcs)} tensors in SBUF", "use HBM tensors")

    def exchange(self, core: Core, group: Sequence[int], given: Any) -> dict[int, Any]:
        """What every rank of the group gave, by rank."""
        members = [rank * core.launch.lnc + core.program for rank in group]
        met = meet(
            core, (self.name, tuple(group), core.program), members, given, f"nccl.{self.name} of {group}"
        )
        return {number // core.launch.lnc: value for number, value in met.items()}

    def end(self, core: Core, srcs: Tensors, dsts: Tensors, name: str | None, group: Any) -> NkiInstruction:
        return self.opcode.end(core, "cc", tuple(dsts), tuple(srcs), name, {"ranks": len(group)})


_ALL_REDUCE = _Collective("all_reduce")
_ALL_GATHER = _Collective("all_gather")
_ALL_GATHER_V = _Collective("all_gather_v")
_REDUCE_SCATTER = _Collective("reduce_scatter")
_ALL_TO_ALL = _Collective("all_to_all", hbm_only=True)
_ALL_TO_ALL_V = _Collective("all_to_all_v", hbm_only=True)
_PERMUTE = _Collective("collective_permute", hbm_only=True)
_RING = _Collective("collective_permute_implicit")
_RING_REDUCE = _Collective("collective_permute_implicit_reduce")


def _copies(tensors: Tensors) -> list[Array]:
    return [read(tensor).copy() for tensor in tensors]


def _reduced(parts: Sequence[Array], op: str) -> Array:
    """Float32 in rank order, or the integers themselves."""
    ufunc = alu.ARITHMETIC[op]
    total: Any = parts[0] if parts[0].dtype.kind in "iu" else casts.to_float32(parts[0])
    for part in parts[1:]:
        total = ufunc(total, part if part.dtype.kind in "iu" else casts.to_float32(part))
    return np.asarray(total)


def _fits(collective: _Collective, dst: NkiTensor, size: int) -> None:
    if dst.size != size:
        raise collective.opcode.refuse(
            f"a destination has {dst.size} elements, the result {size}", "give it that size", dst.size, size
        )


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Every rank gets the reduction of the group's sources."""
    core = _ALL_REDUCE.opcode.begin()
    _ALL_REDUCE.check(srcs, dsts)
    reducer = alu.op_name(op, "nccl.all_reduce", _REDUCE)
    group = _ALL_REDUCE.group(core, replica_group)
    given = _ALL_REDUCE.exchange(core, group, _copies(srcs))
    for k, dst in enumerate(dsts):
        total = _reduced([given[rank][k] for rank in group], reducer)
        _fits(_ALL_REDUCE, dst, total.size)
        write(dst, total)
    return _ALL_REDUCE.end(core, srcs, dsts, name, group)


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Every rank gets the group's sources one after another along an axis."""
    core = _ALL_GATHER.opcode.begin()
    _ALL_GATHER.check(srcs, dsts)
    _dim(_ALL_GATHER, collective_dim, (0,) if srcs[0].buffer in HBM else (0, 1))
    group = _ALL_GATHER.group(core, replica_group)
    given = _ALL_GATHER.exchange(core, group, _copies(srcs))
    for k, dst in enumerate(dsts):
        joined = np.concatenate([given[rank][k] for rank in group], axis=collective_dim)
        _fits(_ALL_GATHER, dst, joined.size)
        write(dst, joined)
    return _ALL_GATHER.end(core, srcs, dsts, name, group)


def _dim(collective: _Collective, dim: int, allowed: tuple[int, ...]) -> None:
    if dim not in allowed:
        raise collective.opcode.refuse(f"collective_dim={dim}", f"use {allowed}", dim, allowed)


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Rank r of the group keeps block r of the reduction."""
    core = _REDUCE_SCATTER.opcode.begin()
    _REDUCE_SCATTER.check(srcs, dsts)
    _dim(_REDUCE_SCATTER, collective_dim, (0,))
    reducer = alu.op_name(op, "nccl.reduce_scatter", _REDUCE)
    group = _REDUCE_SCATTER.group(core, replica_group)
    given = _REDUCE_SCATTER.exchange(core, group, _copies(srcs))
    for k, dst in enumerate(dsts):
        total = _reduced([given[rank][k] for rank in group], reducer)
        write(dst, _block(_REDUCE_SCATTER, total, group.index(core.rank), len(group), dst))
    return _REDUCE_SCATTER.end(core, srcs, dsts, name, group)


def _block(collective: _Collective, values: Array, number: int, count: int, dst: NkiTensor) -> Array:
    if values.shape[0] % count:
        raise collective.opcode.refuse(
            f"axis 0 has {values.shape[0]} rows for {count} ranks", "make it a multiple", values.shape[0], count
        )
    rows = values.shape[0] // count
    block = values[number * rows : (number + 1) * rows]
    _fits(collective, dst, block.size)
    return block


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Block j of rank i becomes block i of rank j."""
    core = _ALL_TO_ALL.opcode.begin()
    _ALL_TO_ALL.check(srcs, dsts)
    _dim(_ALL_TO_ALL, collective_dim, (0,))
    group = _ALL_TO_ALL.group(core, replica_group)
    given = _ALL_TO_ALL.exchange(core, group, _copies(srcs))
    own = group.index(core.rank)
    for k, dst in enumerate(dsts):
        parts = [np.split(given[rank][k], len(group))[own] for rank in group]
        joined = np.concatenate(parts)
        _fits(_ALL_TO_ALL, dst, joined.size)
        write(dst, joined)
    return _ALL_TO_ALL.end(core, srcs, dsts, name, group)


def _metadata(tensor: NkiTensor, ranks: int) -> Array:
    """(rows, ranks) integers: counts and displacements in elements."""
    values = read(tensor)
    return values.reshape(-1, ranks).astype(np.int64)


def _flat_with(
    collective: _Collective,
    core: Core,
    srcs: Tensors,
    dsts: Tensors,
    group: tuple[int, ...],
    metadata_tensor: NkiTensor,
    received: Callable[[Array, int], tuple[int, int]],
    target: Callable[[int, NkiTensor], int],
    known: bool,
) -> None:
    """Exchange flat chunks: `received(sender's metadata, own index)` is (start, count) in its source."""
    metadata = _metadata(metadata_tensor, len(group))
    given = collective.exchange(core, group, (_copies(srcs), metadata))
    own = group.index(core.rank)
    for k, dst in enumerate(dsts):
        result = read(dst).copy().reshape(-1)
        for sender, rank in enumerate(group):
            source, rows = given[rank]
            start, count = received(rows, own)
            at = target(sender, dst)
            result[at : at + count] = source[k].reshape(-1)[start : start + count]
            metadata[_RECV_COUNT, sender] = count
        write(dst, result)
    if not known:
        write(metadata_tensor, metadata)
        collective.opcode.end(core, "cc", (metadata_tensor,), ())


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Chunks of different lengths to every rank, each into the slot of its sender."""
    core = _ALL_GATHER_V.opcode.begin()
    _ALL_GATHER_V.check(srcs, dsts)
    if has_rdispls:
        raise _ALL_GATHER_V.opcode.refuse("has_rdispls=True is not supported", "leave it out")
    group = _ALL_GATHER_V.group(core, replica_group)
    _flat_with(
        _ALL_GATHER_V,
        core,
        srcs,
        dsts,
        group,
        metadata_tensor,
        lambda rows, own: (int(rows[_SEND_DISPL, 0]), int(rows[_SEND_COUNT, 0])),
        lambda sender, dst: sender * (dst.size // len(group)),
        recv_counts_known,
    )
    return _ALL_GATHER_V.end(core, srcs, dsts, name, group)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: Any,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """A chunk of its own length from every rank to every rank."""
    core = _ALL_TO_ALL_V.opcode.begin()
    _ALL_TO_ALL_V.check(srcs, dsts)
    group = _ALL_TO_ALL_V.group(core, replica_group)
    places = _metadata(metadata_tensor, len(group))
    _flat_with(
        _ALL_TO_ALL_V,
        core,
        srcs,
        dsts,
        group,
        metadata_tensor,
        lambda rows, own: (int(rows[_SEND_DISPL, own]), int(rows[_SEND_COUNT, own])),
        lambda sender, dst: (
            int(places[_RECV_DISPL, sender]) if has_rdispls else sender * (dst.size // len(group))
        ),
        recv_counts_known,
    )
    return _ALL_TO_ALL_V.end(core, srcs, dsts, name, group)


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each pair (source, target) sends one tensor."""
    core = _PERMUTE.opcode.begin()
    _PERMUTE.check(srcs, dsts)
    if len(srcs) != 1:
        raise _PERMUTE.opcode.refuse(f"{len(srcs)} tensors", "pass one", len(srcs), 1)
    everyone = tuple(range(core.launch.ranks))
    given = _PERMUTE.exchange(core, everyone, _copies(srcs))
    for source, target in source_target_pairs:
        if target == core.rank:
            write(dsts[0], given[source][0])
    return _PERMUTE.end(core, srcs, dsts, name, everyone)


def _neighbours(core: Core, group: tuple[int, ...]) -> int:
    """The rank before this one in the ring."""
    return group[(group.index(core.rank) - 1) % len(group)]


def _channels(collective: _Collective, channel_ids: Sequence[int], count: int) -> None:
    if list(channel_ids) != list(range(len(channel_ids))) or len(channel_ids) != count:
        raise collective.opcode.refuse(
            f"channel_ids={list(channel_ids)} for {count} channels", "number them from 0 without gaps"
        )
    if count > 4:
        raise collective.opcode.over("number of channels", count, 4, "whole-node groups", "use fewer channels")


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: Any,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """One step around the ring: send to the successor, receive from the predecessor."""
    core = _RING.opcode.begin()
    _channels(_RING, channel_ids, len(srcs_by_channel))
    group = _RING.group(core, replica_group)
    given = _RING.exchange(core, group, [_copies(srcs) for srcs in srcs_by_channel])
    for channel, dsts in enumerate(dsts_by_channel):
        for dst, values in zip(dsts, given[_neighbours(core, group)][channel], strict=True):
            write(dst, values)
    return _RING.end(core, _joined(srcs_by_channel), _joined(dsts_by_channel), name, group)


def _joined(channels: Sequence[Tensors]) -> list[NkiTensor]:
    return [tensor for tensors in channels for tensor in tensors]


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Tensors],
    srcs1_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: Any,
    op: Any,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """As the ring step, sending op(srcs0, srcs1)."""
    core = _RING_REDUCE.opcode.begin()
    reducer = alu.op_name(op, "nccl.collective_permute_implicit_reduce", _REDUCE)
    _channels(_RING_REDUCE, channel_ids, len(srcs0_by_channel))
    group = _RING_REDUCE.group(core, replica_group)
    sent = [
        [_reduced([read(a), read(b)], reducer) for a, b in zip(first, second, strict=True)]
        for first, second in zip(srcs0_by_channel, srcs1_by_channel, strict=True)
    ]
    given = _RING_REDUCE.exchange(core, group, sent)
    for channel, dsts in enumerate(dsts_by_channel):
        for dst, values in zip(dsts, given[_neighbours(core, group)][channel], strict=True):
            write(dst, values)
    sources = [*_joined(srcs0_by_channel), *_joined(srcs1_by_channel)]
    return _RING_REDUCE.end(core, sources, _joined(dsts_by_channel), name, group)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: Any, replica_group: Any, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """Whose data this rank processes at ring step `iteration_id`: its own at 0, then its predecessors'."""
    core = current()
    group = _RING.group(core, replica_group)
    return VirtualRegister(group[(group.index(core.rank) - integer(iteration_id)) % len(group)])


def rank_id(name: str | None = None) -> VirtualRegister:
    """The own rank."""
    return VirtualRegister(current().rank)
