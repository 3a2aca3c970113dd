"""Floats as the shaders know them: how many bits lie in memory, in how many is computed, and how halves are read."""

from __future__ import annotations

from dataclasses import dataclass

from fuel_async.backends.grids.catalog import NEEDS
from fuel_async.ir import DType

T4 = (DType.F32, DType.F64, DType.BF16, DType.F16)

#: Specialization constants before the one that tells bf16 from f16.
_BEFORE = 4


@dataclass(frozen=True, slots=True)
class Width:
    """One float type. Halves are read and written by their bits, so storage of 16 bits is all that they need."""

    dtype: DType

    @classmethod
    def of(cls, dtype: DType) -> Width:
        """Return that of a dtype."""
        return cls(dtype)

    @property
    def bits(self) -> int:
        """Bits of an element in memory."""
        return self.dtype.bits

    @property
    def wide(self) -> DType:
        """The type in which is computed."""
        return DType.F64 if self.dtype is DType.F64 else DType.F32

    @property
    def wide_bits(self) -> int:
        """Bits of a sum."""
        return self.wide.bits

    @property
    def is_half(self) -> bool:
        """Whether elements are widened when they are read."""
        return self.dtype.bits == 16

    @property
    def needs(self) -> frozenset[str]:
        """Device features that its kernels need."""
        return NEEDS[self.dtype.bits]

    def spec(self, *first: int) -> tuple[int, ...]:
        """Return specialization constants: the shader's own, from 0, then which of the half types it is."""
        return (*first, *[0] * (_BEFORE - len(first)), int(self.dtype is DType.BF16))
