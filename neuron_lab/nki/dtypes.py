"""The dtypes of kernels: names that compare as strings, each with its size and the numpy type that stores it.

Low-precision values are really stored in their own format (`NKI_PRECISE_FP=1`, the default), or all as float32
when the variable is 0, to tell rounding from mistakes. Packed `_x4` types are stored as unsigned integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_lab.errors import UsageError, unknown_choice

try:
    import ml_dtypes
except ModuleNotFoundError as missing:
    raise UsageError(
        "neuron_lab.nki needs the package ml_dtypes for bfloat16 and 8-bit floats; "
        "install it with: pip install 'neuron-lab[nki]'"
    ) from missing

Array = npt.NDArray[Any]


class DType(str):
    """A dtype by its name: `nl.float32 == "float32"`."""

    __slots__ = ()

    @property
    def itemsize(self) -> int:
        """Bytes of one element on the device."""
        return STORED[self].itemsize

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    @property
    def is_integer(self) -> bool:
        return self in INTEGERS

    @property
    def is_packed(self) -> bool:
        return self.endswith("_x4")


bool_ = DType("bool_")
int8, int16, int32 = DType("int8"), DType("int16"), DType("int32")
uint8, uint16, uint32 = DType("uint8"), DType("uint16"), DType("uint32")
float16, bfloat16 = DType("float16"), DType("bfloat16")
tfloat32, float32 = DType("tfloat32"), DType("float32")
float8_e4m3, float8_e4m3fn = DType("float8_e4m3"), DType("float8_e4m3fn")
float8_e5m2, float8_e8m0fnu = DType("float8_e5m2"), DType("float8_e8m0fnu")
float8_e5m2_x4, float8_e4m3fn_x4 = DType("float8_e5m2_x4"), DType("float8_e4m3fn_x4")
float4_e2m1fn_x4 = DType("float4_e2m1fn_x4")

STORED: dict[str, np.dtype[Any]] = {
    bool_: np.dtype(np.bool_),
    int8: np.dtype(np.int8),
    int16: np.dtype(np.int16),
    int32: np.dtype(np.int32),
    uint8: np.dtype(np.uint8),
    uint16: np.dtype(np.uint16),
    uint32: np.dtype(np.uint32),
    float16: np.dtype(np.float16),
    bfloat16: np.dtype(ml_dtypes.bfloat16),
    tfloat32: np.dtype(np.float32),  # 1-8-10 bits in 4 bytes: rounded when written
    float32: np.dtype(np.float32),
    float8_e4m3: np.dtype(ml_dtypes.float8_e4m3),
    float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    float8_e8m0fnu: np.dtype(ml_dtypes.float8_e8m0fnu),
    float8_e5m2_x4: np.dtype(np.uint32),
    float8_e4m3fn_x4: np.dtype(np.uint32),
    float4_e2m1fn_x4: np.dtype(np.uint16),
}
INTEGERS = frozenset({int8, int16, int32, uint8, uint16, uint32})
FLOATS = frozenset(
    {float16, bfloat16, tfloat32, float32, float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu}
)
FP8 = frozenset({float8_e4m3, float8_e4m3fn, float8_e5m2})
LOW_PRECISION = frozenset({float16, bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2})

_BY_NAME = {name: DType(name) for name in STORED}
_BY_NUMPY = {
    stored: DType(name) for name, stored in STORED.items() if name != tfloat32 and not name.endswith("_x4")
}


def dtype_of(value: Any) -> DType:
    """The DType meant by a name, a DType, a numpy dtype or scalar type, or a torch dtype."""
    if type(value) is DType:
        return value
    name = str(value).removeprefix("torch.")
    if isinstance(value, str) or name in _BY_NAME:
        name = "bool_" if name == "bool" else name
        if name in _BY_NAME:
            return _BY_NAME[name]
        raise unknown_choice("dtype", value, _BY_NAME)
    try:
        return _BY_NUMPY[np.dtype(value)]
    except (KeyError, TypeError):
        raise unknown_choice("dtype", value, _BY_NAME) from None


def stored_as(dtype: DType, precise: bool) -> np.dtype[Any]:
    """The numpy type that holds it; float32 for every low-precision float when not `precise`."""
    return STORED[float32] if not precise and dtype in LOW_PRECISION else STORED[dtype]


def sentinel(dtype: DType) -> int | float:
    """What fills a new tensor, so that unwritten values show: NaN for floats, 4 for integers."""
    return float("nan") if dtype.is_float else 1 if dtype == bool_ else 4


def names(dtypes: Iterable[str]) -> str:
    return ", ".join(sorted(dtypes))
