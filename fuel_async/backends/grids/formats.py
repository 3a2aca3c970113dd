"""Where the parts of a float are, for the formats that are converted by their bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Mapping


class Format(NamedTuple):
    """Where the parts of a float are: bits of the fraction, the exponent's bias, the magnitude of infinity."""

    fraction: int
    bias: int
    #: Magnitudes above are NaN; in a format without infinities it is the largest number.
    top: int

    @property
    def has_infinities(self) -> bool:
        """Whether `top` is infinity."""
        return self.top & ((1 << self.fraction) - 1) == 0


#: By dtype: the formats of storage alone.
NARROW: Mapping[DType, Format] = {
    DType.F16: Format(10, 15, 0x7C00),
    DType.BF16: Format(7, 127, 0x7F80),
    DType.F8E4M3: Format(3, 7, 0x7E),
}
