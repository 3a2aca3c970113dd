"""What an explanation is made of beside the plan: devices, kernels, prices and ways, as an executor knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.plan import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends import Device
    from fuel_async.cost import Rates
    from fuel_async.dispatch import BackendCapabilities, KernelBindingTable, LaneProgram
    from fuel_async.ir import DeviceLocation
    from fuel_async.plan import Plan, Region, TransferEstimator


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """One device of the executor."""

    location: DeviceLocation
    name: str
    lanes: int
    memory: DeviceLocation
    budget_nbytes: int
    rates: Rates
    capabilities: BackendCapabilities
    lost: BaseException | None

    @classmethod
    def of(cls, device: Device) -> KnownDevice:
        """Return what an open device says of itself."""
        return cls(
            location=device.location,
            name=device.info.name,
            lanes=len(device.lanes),
            memory=device.memory_location,
            budget_nbytes=device.memory.budget_nbytes,
            rates=device.rates,
            capabilities=device.capabilities,
            lost=device.lost,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """The devices by their numbers, and what is known of them."""

    devices: Sequence[KnownDevice]
    bindings: KernelBindingTable
    estimator: TransferEstimator
    #: By region and device: whether its time there was measured.
    measured: Callable[[int, int], bool]

    @property
    def options(self) -> PlanOptions:
        """What candidates are ranked with."""
        return PlanOptions.among([one.capabilities for one in self.devices], self.estimator)

    def program_on(self, plan: Plan, region: Region, device: int) -> LaneProgram | None:
        """Return what a device runs for a region; None when it lacks a kernel for one of its nodes."""
        kind = self.devices[device].capabilities.kind
        return region.on(plan.kinds.index(kind)) if kind in plan.kinds else None
