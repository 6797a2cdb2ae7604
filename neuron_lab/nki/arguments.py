"""Kernel arguments as HBM tensors, and results back in the caller's kind of array.

torch is only used when an argument is a torch tensor, so numpy-only use never imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuron_lab.nki import casts, dtypes
from neuron_lab.nki.dtypes import Array
from neuron_lab.nki.places import Place
from neuron_lab.nki.refusal import refusal
from neuron_lab.nki.run import Launch
from neuron_lab.nki.storage import HBM, MemoryRegion, Storage, around
from neuron_lab.nki.tensor import NkiTensor


@dataclass(slots=True)
class Arguments:
    """Wraps arguments of one launch and remembers what must be written back."""

    launch: Launch
    place: Place
    torch_device: Any = None
    write_back: list[Callable[[], None]] = field(default_factory=list)

    def wrap(self, value: Any, name: str) -> Any:
        """Arrays become tensors, also inside tuples and dicts; everything else passes through."""
        if isinstance(value, np.ndarray):
            return self._numpy(value, name)
        if _is_torch(value):
            return self._torch(value, name)
        if isinstance(value, (tuple, list)):
            return type(value)(self.wrap(item, f"{name}[{k}]") for k, item in enumerate(value))
        if isinstance(value, dict):
            return {key: self.wrap(item, f"{name}[{key!r}]") for key, item in value.items()}
        return value

    def _numpy(self, array: Array, name: str) -> NkiTensor:
        tensor = self._tensor(array, name)
        storage = tensor.storage
        if not np.shares_memory(storage.data, array) and array.flags.writeable:
            self.write_back.append(lambda: _copy_back(storage, array))
        return tensor

    def _torch(self, value: Any, name: str) -> NkiTensor:
        self.torch_device = value.device
        detached = value.detach()
        host = detached.cpu().contiguous()
        array = _torch_as_numpy(host)
        tensor = self._tensor(array, name)
        storage = tensor.storage
        if host.data_ptr() != detached.data_ptr() or not np.shares_memory(storage.data, array):
            self.write_back.append(lambda: _copy_back_torch(storage, array, host, detached))
        return tensor

    def _tensor(self, array: Array, name: str) -> NkiTensor:
        dtype = self._dtype(array, name)
        shape = array.shape or (1,)
        if not array.size:
            raise refusal("argument", f"{name} is empty, shape {shape}", cure="pass at least one element")
        stored = dtypes.stored_as(dtype, self.launch.precise)
        dense = np.ascontiguousarray(array)
        if dense.dtype != stored:
            dense = casts.convert(casts.to_float32(dense), dtype, stored)
        if not dense.flags.writeable:
            dense = dense.copy()
        region = MemoryRegion.shared_hbm if self.launch.lnc > 1 else MemoryRegion.private_hbm
        number = self.launch.next_storage
        self.launch.next_storage += 1
        data = dense.reshape(-1).view(np.uint8)
        storage = around(number, data, tuple(shape), dtype, region, name, self.place, self.launch.precise)
        storage.given = True
        return NkiTensor(shape, dtype, storage)

    def _dtype(self, array: Array, name: str) -> dtypes.DType:
        if array.dtype.kind in "iuf" and array.dtype.itemsize == 8:
            narrow = {"i": "int32", "u": "uint32", "f": "float32"}[array.dtype.kind]
            raise refusal(
                "argument",
                f"{name} is {array.dtype}; the hardware has no 64-bit numbers",
                cure=f"pass it as {narrow}",
                value=str(array.dtype),
                limit="32 bits",
                place=self.place,
            )
        return dtypes.dtype_of(array.dtype)

    def unwrap(self, value: Any, label: str = "result") -> Any:
        """Tensors become arrays of the caller's kind."""
        if isinstance(value, NkiTensor):
            return self._array(value, label)
        if isinstance(value, (tuple, list)):
            return type(value)(self.unwrap(item, f"{label}[{k}]") for k, item in enumerate(value))
        if isinstance(value, dict):
            return {key: self.unwrap(item, f"{label}[{key!r}]") for key, item in value.items()}
        return value

    def _array(self, tensor: NkiTensor, label: str) -> Any:
        if tensor.buffer not in HBM:
            raise refusal(
                "return",
                f"{label} is in {tensor.buffer.value}; results are returned in shared_hbm",
                cure="store it in a tensor of nl.shared_hbm and return that",
                value=tensor.buffer.value,
                limit="shared_hbm",
                place=tensor.storage.place,
            )
        array = tensor.array
        exact = dtypes.STORED[tensor.dtype]
        if array.dtype != exact:
            array = casts.convert(array, tensor.dtype, exact)
        if tensor.storage.given:
            array = array.copy()
        return array if self.torch_device is None else _numpy_as_torch(array).to(self.torch_device)

    def finish(self) -> None:
        """Bring changed inputs back where they could not be shared."""
        for copy in self.write_back:
            copy()


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _copy_back(storage: Storage, array: Array) -> None:
    if storage.version:
        values = storage.flat(storage.dtype).reshape(array.shape)
        array[...] = values.astype(array.dtype)


def _copy_back_torch(storage: Storage, array: Array, host: Any, target: Any) -> None:
    if storage.version:
        if not np.shares_memory(storage.data, array):
            _copy_back(storage, array)
        target.copy_(host)


def _torch_as_numpy(host: Any) -> Array:
    """A numpy array over a CPU tensor; formats numpy does not know go through integers of their size."""
    name = str(host.dtype).removeprefix("torch.")
    name = "bool_" if name == "bool" else name
    if name in dtypes.STORED and host.element_size() < 4 and name not in _NUMPY_KNOWS:
        import torch

        carrier = torch.int16 if host.element_size() == 2 else torch.uint8
        array: Array = host.view(carrier).numpy().view(dtypes.STORED[name])
        return array
    plain: Array = host.numpy()
    return plain


_NUMPY_KNOWS = frozenset({"bool_", "int8", "int16", "uint8", "float16", "uint16"})


def _numpy_as_torch(array: Array) -> Any:
    import torch

    name = str(dtypes.dtype_of(array.dtype))
    dense = np.ascontiguousarray(array)
    if name in _NUMPY_KNOWS or name in {"int32", "uint32", "float32"}:
        return torch.from_numpy(dense)
    carrier = np.int16 if dense.itemsize == 2 else np.uint8
    return torch.from_numpy(dense.view(carrier)).view(getattr(torch, name))
