"""The frame of every instruction: checks before it computes, bookkeeping and the record after.

Recording is one tuple appended to a list, and only while `core.log` is a list.
"""

from __future__ import annotations

from typing import Any

from neuron_lab.nki import api
from neuron_lab.nki.places import caller_frame, kernel_place, place_text
from neuron_lab.nki.refusal import NkiValidationError, over_limit, refusal
from neuron_lab.nki.run import Core, Recorded, Stopped, current
from neuron_lab.nki.storage import HBM, Access, MemoryRegion, Overwritten, Storage
from neuron_lab.nki.target import PARTITIONS
from neuron_lab.nki.tensor import NKIObject, NkiTensor

_REGIONS = {
    "hbm": HBM,
    "sbuf": (MemoryRegion.sbuf,),
    "psum": (MemoryRegion.psum,),
}
_CHIPS = {2: "trn1", 3: "trn2", 4: "trn3"}


class NkiInstruction(NKIObject):
    """What an instruction returns: a handle to order others after it."""

    __slots__ = ("core", "number")

    def __init__(self, handle: tuple[Core, int]) -> None:
        self.core, self.number = handle

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Start only after these are done."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise refusal(
                    "depends_on", f"{producer!r} is no instruction", cure="pass what an instruction returned"
                )
            self.core.edges.append((producer.number, self.number))
        return self


class Opcode:
    """One instruction kind with its documented memories and first generation."""

    __slots__ = ("buffers", "is_dma", "least_generation", "name")

    def __init__(self, name: str) -> None:
        facts = api.instruction_facts(name)
        self.name = name
        self.least_generation = api.least_generation(facts)
        self.is_dma = facts.get("engines", [""])[0] == "dma"
        self.buffers = {
            operand: tuple(region for part in memories.split("|") for region in _REGIONS[part])
            for operand, memories in facts.get("buffers", {}).items()
        }

    def begin(self, **operands: Any) -> Core:
        """Check generation, memories and placement of the named tensors; returns the core."""
        core = current()
        if core.launch.stopped:
            raise Stopped
        if core.target.generation < self.least_generation:
            raise self.refuse(
                f"needs NeuronCore-v{self.least_generation} ({_CHIPS[self.least_generation]}), "
                f"the target is {core.target.chip}",
                "choose another instruction, or set NEURON_PLATFORM_TARGET_OVERRIDE",
                value=core.target.generation,
                limit=self.least_generation,
            )
        for label, tensor in operands.items():
            if tensor.__class__ is not NkiTensor:
                raise self.refuse(f"{label} is {type(tensor).__name__}, expected a tensor", "pass a tensor")
            if tensor.buffer not in self.buffers.get(label, _ANYWHERE):
                raise self._wrong_memory(label, tensor)
            if not self.is_dma:
                self._check_placement(label, tensor)
        return core

    def _wrong_memory(self, label: str, tensor: NkiTensor) -> NkiValidationError:
        allowed = " or ".join(sorted({region.value for region in self.buffers[label]}))
        return self.refuse(
            f"{label} is in {tensor.buffer.value}, it must be in {allowed}",
            "copy it there first",
            value=tensor.buffer.value,
            limit=allowed,
        )

    def _check_placement(self, label: str, tensor: NkiTensor) -> None:
        """An operand occupies consecutive partitions from an allowed start (architecture guide)."""
        count, start = tensor.shape[0], tensor.partition
        if start == 0 or tensor.buffer in HBM or label.endswith("scale"):  # packed scales start at 4, 8 or 12
            return
        step = PARTITIONS if count > 64 else 64 if count > 32 else 32
        if start % step:
            allowed = "0" if step == PARTITIONS else "0 or 64" if step == 64 else "0, 32, 64 or 96"
            raise self.refuse(
                f"{label} has {count} partitions from partition {start}; the start must be {allowed}",
                "move the data by DMA, or split it at those partitions",
                value=start,
                limit=allowed,
            )

    def refuse(self, problem: str, cure: str, value: Any = None, limit: Any = None) -> NkiValidationError:
        return refusal(f"nisa.{self.name}", problem, cure=cure, value=value, limit=limit)

    def over(self, what: str, value: int, limit: int, source: str, cure: str) -> NkiValidationError:
        return over_limit(f"nisa.{self.name}", what, value, limit, source, cure)

    def same_rows(self, **operands: NkiTensor) -> None:
        """Equal partitions and elements per partition; ranks may differ."""
        labels = iter(operands.items())
        first_label, first = next(labels)
        for label, other in labels:
            if first.shape == other.shape:
                continue
            if (first.shape[0], first.free_size) != (other.shape[0], other.free_size):
                raise self.refuse(
                    f"{label} is {list(other.shape)} and {first_label} is {list(first.shape)}: partitions and "
                    "elements per partition must be equal",
                    "slice or broadcast one of them",
                    value=other.shape,
                    limit=first.shape,
                )

    def end(
        self,
        core: Core,
        engine: str,
        writes: tuple[Any, ...],
        reads: tuple[Any, ...],
        name: str | None = None,
        extra: Any = None,
    ) -> NkiInstruction:
        """Note use of the storages and record; operands that are no tensors are passed over."""
        number = core.clock
        core.clock = number + 1
        for tensor in reads:
            if tensor.__class__ is NkiTensor:
                _note_read(core, tensor, number)
                if tensor.indirection is not None and tensor.indirection.index.__class__ is NkiTensor:
                    _note_read(core, tensor.indirection.index, number)
        for tensor in writes:
            if tensor.__class__ is NkiTensor:
                _note_write(core, tensor, number)
                if tensor.indirection is not None and tensor.indirection.index.__class__ is NkiTensor:
                    _note_read(core, tensor.indirection.index, number)
        if core.log is not None:
            self._record(core, engine, writes, reads, name, extra)
        return NkiInstruction((core, number))

    def _record(
        self,
        core: Core,
        engine: str,
        writes: tuple[Any, ...],
        reads: tuple[Any, ...],
        name: str | None,
        extra: Any,
    ) -> None:
        frame = caller_frame()
        assert core.log is not None
        core.log.append(
            Recorded(
                self.name,
                engine,
                tuple(t.access() for t in writes if t.__class__ is NkiTensor),
                (*(t.access() for t in reads if t.__class__ is NkiTensor), *_index_accesses(writes, reads)),
                frame.f_code.co_filename,
                frame.f_lineno,
                name,
                extra,
            )
        )


_ANYWHERE = tuple(MemoryRegion)


def _index_accesses(writes: tuple[Any, ...], reads: tuple[Any, ...]) -> tuple[Access, ...]:
    """Indices of indirect operands are read as well; they come last."""
    return tuple(
        t.indirection.index.access()
        for t in (*reads, *writes)
        if t.__class__ is NkiTensor and t.indirection is not None and t.indirection.index.__class__ is NkiTensor
    )


def _note_read(core: Core, tensor: NkiTensor, number: int) -> None:
    storage = tensor.storage
    life = storage.life
    life.last_use = number
    if life.first_use < 0:
        life.first_use = number
    if not storage.version and not storage.given:
        core.find("unwritten read", f"{tensor!r} is read, but nothing has written it")
    if storage.overwritten_by is not None:
        _check_overwritten(storage, tensor)


def _note_write(core: Core, tensor: NkiTensor, number: int) -> None:
    storage = tensor.storage
    life = storage.life
    life.last_use = number
    if life.first_use < 0:
        life.first_use = number
    storage.version += 1
    if tensor.indirection is None and not storage.on_chip and not storage.given:
        storage.written_views.add(tensor.key)
    if storage.neighbours:
        _overwrite_neighbours(storage, tensor)


def _overwrite_neighbours(storage: Storage, tensor: NkiTensor) -> None:
    """Placed tensors share bytes: writing one destroys what another holds there."""
    box = _absolute(storage, tensor)
    own = storage.overwritten_by
    if own is not None and _covers(box, own.box):
        storage.overwritten_by = None
    for reference in storage.neighbours:
        other = reference()
        if other is not None and other.version and _overlap(box, _placed(other)):
            address = storage.address or (0, 0)
            lost = _common(box, _placed(other))
            other.overwritten_by = Overwritten(storage.life.label, address, lost, kernel_place())


Box = tuple[int, int, int, int]  # partitions [a, b), bytes [c, d)


def _absolute(storage: Storage, tensor: NkiTensor) -> Box:
    access = tensor.access()
    shift = storage.address[1] if storage.address else 0
    end = access.partition + access.partitions
    return (access.partition, end, access.start_byte + shift, access.stop_byte + shift)


def _placed(storage: Storage) -> Box:
    partition, start = storage.address or (0, 0)
    return (partition, partition + storage.partitions, start, start + storage.partition_bytes)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _common(a: Box, b: Box) -> Box:
    return (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), min(a[3], b[3]))


def _covers(a: Box, b: Box) -> bool:
    return a[0] <= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] >= b[3]


def placed_overlap(a: Storage, b: Storage) -> bool:
    """Whether two placed allocations of one memory share bytes."""
    return a.buffer is b.buffer and _overlap(_placed(a), _placed(b))


def _check_overwritten(storage: Storage, tensor: NkiTensor) -> None:
    lost = storage.overwritten_by
    if lost is None or not _overlap(_absolute(storage, tensor), lost.box):
        return
    raise refusal(
        "address",
        f"{tensor!r} is read after {lost.label!r} was written over the same bytes at "
        f"{place_text(lost.place)} (addresses {storage.address} and {lost.address})",
        cure="move one of them, or finish using the first before writing the second",
    )
