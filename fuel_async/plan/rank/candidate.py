"""One way to compute a node: a kernel on a device, what it costs and how exact it is.

A price is a time only together with the device's rates, so a candidate has both. What was measured is kept apart from
what was counted: a measured time says nothing of bytes. A candidate that nobody has priced has no time, which is not
the same as taking none.

    >>> operand_on(0, CPU_DEVICE)
    'operand 0 on cpu:0'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.cost import (
    UNPRICED,
    AccuracyClass,
    CostVector,
    MemoryTiers,
    PriceSource,
    composite_ns,
    default_backend_rates,
    precision_digits,
)
from fuel_async.dispatch import DENSE_ONLY, KernelCaps, OpParams
from fuel_async.ir import CostEstimate, PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from fuel_async.dispatch import KernelRef
    from fuel_async.ir import BackendId, DeviceLocation

MOST_NS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class CouplingAdjustment:
    """What a candidate takes more, or less where negative, if something else was decided in a certain way."""

    #: As `operand_on` and `operand_strided` spell it; "" never holds.
    condition: str = ""
    delta_ns: int = 0


def operand_on(position: int, device: DeviceLocation) -> str:
    """Return the condition that an operand comes from another device than was planned: this one."""
    return f"operand {position} on {device}"


def operand_strided(position: int) -> str:
    """Return the condition that an operand is not row-major."""
    return f"operand {position} strided"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel on a device. Kernels are the same when they are one object."""

    kernel: KernelRef
    backend: BackendId
    device: DeviceLocation
    caps: KernelCaps = DENSE_ONLY
    precision: PrecisionGuarantee = PrecisionGuarantee.UNAUDITED
    #: What was counted or declared; all zero while it is unpriced.
    static_cost: CostEstimate = UNPRICED.estimate
    #: What bringing the operands to the device takes.
    inbound_transfer_ns: int = 0
    op_params: OpParams = OpParams.NONE
    coupling: tuple[CouplingAdjustment, ...] = ()
    #: Tells siblings apart, as in the binding table.
    kernel_source: str = ""
    #: The measured time, which goes before what was counted; None where nobody measured.
    measured_ns: int | None = None
    price_source: PriceSource = PriceSource.UNPRICED
    #: What the device does in a nanosecond, (flop, byte); None takes the defaults of the backend.
    rates: tuple[float, float] | None = None

    @property
    def kernel_ns(self) -> int | None:
        """Nanoseconds of the kernel alone; None when it is unpriced."""
        if self.measured_ns is not None:
            return self.measured_ns
        if self.static_cost.is_unpriced:
            return None
        return composite_ns(self.static_cost, *(self.rates or default_backend_rates(self.backend)))

    def effective_ns(self, conditions: AbstractSet[str] = frozenset()) -> int | None:
        """Return the nanoseconds of the call where `conditions` hold, copies of operands included.

        At least 0, at most 64 bits; None when it is unpriced.
        """
        kernel_ns = self.kernel_ns
        if kernel_ns is None:
            return None
        met = sum(one.delta_ns for one in self.coupling if one.condition in conditions)
        return min(max(kernel_ns + self.inbound_transfer_ns + met, 0), MOST_NS)

    def vector(self, conditions: AbstractSet[str] = frozenset()) -> CostVector:
        """Return what it is compared by where `conditions` hold."""
        moved = self.static_cost.bytes_moved
        tiers = MemoryTiers(host_ram_bytes=moved) if self.device.is_host else MemoryTiers(device_vram_bytes=moved)
        return CostVector(
            time=self.effective_ns(conditions),
            memory=None if self.static_cost.is_unpriced else tiers,
            precision=precision_digits(self.precision),
            accuracy=AccuracyClass.of(self.precision),
        )
