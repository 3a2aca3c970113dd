"""The element types, their sizes and numpy forms, and the promotion rule.

The set is closed and ordered. There is no Bool: truth values are U8 holding 0 or 1. Sub-byte types have
`bits` and no `nbytes`, so that nothing can multiply a count by their size and quietly get 0 bytes too few:
`nbytes == 0` means "not addressable". `f8e6m2` has a size but no numpy form.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Self, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fuel_async.errors import DTypeMismatch, DTypeParseError

#: Spelled here because inside `DType` the name `np` is the attribute.
NumpyDType: TypeAlias = np.dtype[Any]


class DType(Enum):
    """One element type; the value is its stable lowercase name. Members are compared with `is`."""

    U8 = ("u8", 8, np.uint8)
    I8 = ("i8", 8, np.int8)
    U32 = ("u32", 32, np.uint32)
    I16 = ("i16", 16, np.int16)
    I32 = ("i32", 32, np.int32)
    I64 = ("i64", 64, np.int64)
    BF16 = ("bf16", 16, ml_dtypes.bfloat16)
    F16 = ("f16", 16, np.float16)
    F32 = ("f32", 32, np.float32)
    F64 = ("f64", 64, np.float64)
    F8E4M3 = ("f8e4m3", 8, ml_dtypes.float8_e4m3fn)
    F6E2M3 = ("f6e2m3", 6, None)
    F6E3M2 = ("f6e3m2", 6, None)
    F4 = ("f4", 4, None)
    F8E8M0 = ("f8e8m0", 8, ml_dtypes.float8_e8m0fnu)
    F8E6M2 = ("f8e6m2", 8, None)

    #: Every member, in order; `ALL[dtype.code] is dtype`.
    ALL: ClassVar[tuple[DType, ...]]

    #: The numpy dtype, or None when no numpy array can hold the type.
    np: NumpyDType | None
    #: Bytes of one element; 0 for a sub-byte type.
    nbytes: int
    bits: int
    is_int: bool
    is_float: bool
    #: Position in `ALL`.
    code: int

    def __new__(cls, text: str, bits: int, scalar: Any) -> Self:
        """Make the member; its value is `text` alone."""
        member = object.__new__(cls)
        member._value_ = text
        member.np = None if scalar is None else np.dtype(scalar)
        member.bits = bits
        member.nbytes = bits // 8
        member.is_int = text[0] in "ui"
        member.is_float = not member.is_int
        member.code = len(cls.__members__)
        return member

    # Members are singletons, also after pickling; Enum's own hash costs a Python call and dtypes are in every
    # table key.
    __hash__ = object.__hash__

    def as_str(self) -> str:
        """Return the lowercase name, stable across versions."""
        return str(self.value)

    @property
    def is_signed_int(self) -> bool:
        """Whether it is an integer type with negative values."""
        return self.is_int and self.name[0] == "I"

    @property
    def is_sub_byte(self) -> bool:
        """Whether one element is smaller than a byte: arrays of such a type are refused."""
        return self.nbytes == 0

    def require_np(self) -> NumpyDType:
        """Return the numpy dtype; `DTypeMismatch` when no numpy array can hold the type."""
        if self.np is None:
            raise DTypeMismatch("array", f"{self.value} has no numpy form; cast to another dtype first")
        return self.np

    @classmethod
    def parse(cls, text: str) -> DType:
        """Return the member of that exact lowercase name; `DTypeParseError` lists the names otherwise."""
        found = _BY_NAME.get(text)
        if found is None:
            raise DTypeParseError(text, tuple(_BY_NAME))
        return found

    @classmethod
    def from_numpy(cls, dtype: npt.DTypeLike) -> DType:
        """Return the member that a numpy dtype stands for; bool counts as U8.

        `DTypeParseError` when there is none: uint16, uint64, complex, strings, and foreign byte orders.
        """
        found = _BY_NUMPY.get(np.dtype(dtype))
        if found is None:
            raise DTypeParseError(str(np.dtype(dtype)), tuple(_BY_NAME))
        return found

    def __str__(self) -> str:
        return str(self.value)


DType.ALL = tuple(DType)
_BY_NAME = {dtype.value: dtype for dtype in DType}
_BY_NUMPY = {dtype.np: dtype for dtype in DType if dtype.np is not None} | {np.dtype(np.bool_): DType.U8}

u8, i8, u32, i16, i32, i64 = DType.U8, DType.I8, DType.U32, DType.I16, DType.I32, DType.I64
bf16, f16, f32, f64 = DType.BF16, DType.F16, DType.F32, DType.F64
f8e4m3, f6e2m3, f6e3m2 = DType.F8E4M3, DType.F6E2M3, DType.F6E3M2
f4, f8e8m0, f8e6m2 = DType.F4, DType.F8E8M0, DType.F8E6M2

_SIGNED_OF_BITS = {16: DType.I16, 32: DType.I32, 64: DType.I64}
_MIXING_FLOATS = frozenset({DType.BF16, DType.F16, DType.F32, DType.F64})


def promote(a: DType, b: DType) -> DType:
    """Return the dtype that a binary operation of `a` and `b` computes in, after the Array API's table.

    Integers promote to the smallest integer that holds both; F16, F32, F64 to the larger; BF16 with F32 or
    F64 to that. `DTypeMismatch` for pairs without a common type: an integer with a float, F16 with BF16, an
    8-bit float with anything but itself.
    """
    if a is b:
        return a
    if a.is_int and b.is_int:
        return _promote_ints(a, b)
    if a in _MIXING_FLOATS and b in _MIXING_FLOATS and a.bits != b.bits:
        return a if a.bits > b.bits else b
    raise DTypeMismatch("promote", f"{a} and {b} have no common dtype; cast one of them with astype()")


def _promote_ints(a: DType, b: DType) -> DType:
    if a.is_signed_int == b.is_signed_int:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.is_signed_int else (b, a)
    return signed if signed.bits > unsigned.bits else _SIGNED_OF_BITS[2 * unsigned.bits]
