"""Plain values that every layer above shares: what a kernel costs, how big its problem is, how exact it is.

Nothing is computed from them here beyond their own laws; formulas of cost live in `cost`, filters in `plan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from fuel_async.ir.opkind import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_U64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What one call of a kernel costs on any device. All zero means "not priced", never "free"."""

    flops: int = 0
    bytes_moved: int = 0
    #: Time to start the kernel, whatever its operands.
    kernel_overhead_ns: int = 0

    @property
    def is_unpriced(self) -> bool:
        """Whether nothing at all is known."""
        return not (self.flops or self.bytes_moved or self.kernel_overhead_ns)

    def __add__(self, other: CostEstimate) -> CostEstimate:
        return CostEstimate(
            self.flops + other.flops,
            self.bytes_moved + other.bytes_moved,
            self.kernel_overhead_ns + other.kernel_overhead_ns,
        )


def _log2(count: int) -> int:
    """Floor of the binary logarithm of a count, saturated at 64 bits; 0 for counts below 1."""
    return min(max(count, 1), _U64_MAX).bit_length() - 1


@dataclass(frozen=True, slots=True, order=True)
class SizeClass:
    """The bucket of sizes under which a measurement is kept; measuring and looking up share its rules."""

    key: int

    @classmethod
    def from_elem_count(cls, count: int) -> SizeClass:
        """Bucket by the binary logarithm of an element count."""
        return cls(_log2(count))

    @classmethod
    def matmul(cls, m: int, n: int, k: int) -> SizeClass:
        """Bucket a product of [m, k] and [k, n] by the logarithms of m·n, m and k."""
        return cls((_log2(m * n) << 16) | (_log2(m) << 8) | _log2(k))

    @classmethod
    def attention(cls, hq: int, k_len: int, d: int) -> SizeClass:
        """Bucket an attention of `hq` query heads over `k_len` keys of `d` features."""
        return cls((_log2(hq * k_len * d) << 16) | (_log2(k_len) << 8) | _log2(d))

    @classmethod
    def for_op(cls, op: OpKind, shapes: Sequence[Sequence[int]]) -> SizeClass:
        """Bucket a call of `op` on operands of these shapes; batch dimensions of a product do not count.

        Kinds without a rule of their own are bucketed by the element count of the first operand; no operands
        give 0.
        """
        match op, shapes:
            case OpKind.MatMul, [[*_, m, k], [*_, _, n], *_]:
                return cls.matmul(m, n, k)
            case OpKind.FlashAttn, [[_, hq, *_, _, d], [*_, k_len, _], *_]:
                return cls.attention(hq, k_len, d)
            case _, [first, *_]:
                return cls.from_elem_count(math.prod(first))
            case _:
                return cls(0)


class Provenance(Enum):
    """Who stands behind a claim about precision."""

    #: Nobody examined this kernel; a claim, if any, was made for a whole class of kernels at once.
    UNAUDITED = "unaudited"
    #: Somebody examined this kernel: its claims, or the absence of any, are meant.
    AUDITED = "audited"


@dataclass(frozen=True, slots=True)
class PrecisionGuarantee:
    """How exact a kernel is. Every bound that is given holds; None means that no such bound is known.

    As a floor (see `satisfies`) the same fields are demands, and None means that nothing is demanded.
    """

    bit_stable_on_same_hardware: bool = False
    max_ulp: int | None = None
    max_relative: float | None = None
    max_absolute: float | None = None
    notes: str = ""
    provenance: Provenance = Provenance.AUDITED

    REFERENCE: ClassVar[PrecisionGuarantee]
    PRIMITIVE_DETERMINISTIC_CPU: ClassVar[PrecisionGuarantee]
    UNAUDITED: ClassVar[PrecisionGuarantee]

    @classmethod
    def none(cls, reason: str) -> PrecisionGuarantee:
        """Return the guarantee of an examined kernel for which no bound holds; `reason` says why."""
        return cls(notes=reason)

    def makes_no_static_claim(self) -> bool:
        """Whether neither bit stability nor any bound is claimed."""
        bounds = (self.max_ulp, self.max_relative, self.max_absolute)
        return not self.bit_stable_on_same_hardware and all(bound is None for bound in bounds)

    def is_audited_no_bound(self) -> bool:
        """Whether the kernel was examined and no bound holds; told by provenance, not by notes."""
        return self.makes_no_static_claim() and self.provenance is Provenance.AUDITED

    def satisfies(self, floor: PrecisionGuarantee, *, audited_only: bool = False) -> bool:
        """Whether each demand of `floor` is met by a claim made here; a missing claim meets none.

        With `audited_only` a claim made for a whole class of kernels at once counts as missing. A floor
        without demands is satisfied by everything.
        """
        if floor.makes_no_static_claim():
            return True
        if audited_only and self.provenance is Provenance.UNAUDITED:
            return False
        return (self.bit_stable_on_same_hardware or not floor.bit_stable_on_same_hardware) and (
            _within(self.max_ulp, floor.max_ulp)
            and _within(self.max_relative, floor.max_relative)
            and _within(self.max_absolute, floor.max_absolute)
        )


def _within(claimed: float | None, demanded: float | None) -> bool:
    return demanded is None or (claimed is not None and claimed <= demanded)


#: Exact by definition: what other kernels are compared with.
PrecisionGuarantee.REFERENCE = PrecisionGuarantee(True, 0, 0.0, 0.0, notes="reference")
#: Same bits each time on one machine, no error bound: claimed for the host's kernels as a class.
PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU = PrecisionGuarantee(
    True, notes="deterministic host primitive", provenance=Provenance.UNAUDITED
)
#: Nothing is known.
PrecisionGuarantee.UNAUDITED = PrecisionGuarantee(notes="not audited", provenance=Provenance.UNAUDITED)
