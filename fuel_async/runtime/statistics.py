"""What an executor has done so far: a frozen snapshot, taken without disturbing anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import DeviceLocation


class Counters:
    """Running totals. Written by whoever ends a run; a reader may see them a moment apart."""

    __slots__ = ("cancelled", "failed", "inline", "kernels", "on_lanes", "plans_failed")

    def __init__(self) -> None:
        self.cancelled = self.failed = self.inline = self.kernels = self.on_lanes = self.plans_failed = 0


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """What one device did for this executor."""

    #: Kernels it ran: of one device those of runs that were delivered, inline ones included.
    kernels: int
    #: Time its lanes worked.
    busy_s: float
    #: Submissions of this executor that have not settled, and their predicted time.
    pending_count: int
    pending_s: float
    #: Regions it finished, the time predicted for them when they were submitted, and what they took; where an executor
    #: has several devices.
    regions: int = 0
    predicted_s: float = 0.0
    actual_s: float = 0.0
    #: Why it can do nothing any more; None while it can.
    lost: str | None = None
    #: What its backend has to say of it.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """What went from one memory to another for this executor, constants included."""

    copies: int
    nbytes: int
    #: The time predicted for them when they were submitted, and what they took.
    predicted_s: float
    actual_s: float


def device_statistics(
    device: Device, kernels: int, regions: int = 0, predicted_ns: int = 0, actual_ns: int = 0
) -> DeviceStatistics:
    """Return what a device did, with what its lanes say now."""
    return DeviceStatistics(
        kernels=kernels,
        busy_s=sum(getattr(lane, "busy_ns", 0) for lane in device.lanes) / 1e9,
        pending_count=sum(lane.pending_count for lane in device.lanes),
        pending_s=sum(lane.pending_ns for lane in device.lanes) / 1e9,
        regions=regions,
        predicted_s=predicted_ns / 1e9,
        actual_s=actual_ns / 1e9,
        lost=None if device.lost is None else str(device.lost),
        notes=tuple(getattr(device, "notes", ())),
    )


@dataclass(frozen=True, slots=True)
class Statistics:
    """Totals since the executor was opened."""

    #: Runs delivered, by where they ran.
    runs_inline: int
    runs_on_lanes: int
    runs_failed: int
    runs_cancelled: int
    #: Runs under way, and in line for admission.
    runs_active: int
    runs_waiting: int
    #: Graphs prepared (a plan with its constants), planned or shared.
    plans_prepared: int
    #: Bytes that runs under way hold, that idle instances hold, and the budget of both.
    used_nbytes: int
    idle_nbytes: int
    budget_nbytes: int
    devices: Mapping[DeviceLocation, DeviceStatistics]
    #: By (source, destination), links that something went over.
    links: Mapping[tuple[DeviceLocation, DeviceLocation], LinkStatistics] = field(
        default_factory=lambda: MappingProxyType({})
    )
    #: Plans of whole runs that could not be made: such runs place their regions one by one.
    plans_failed: int = 0

    @property
    def runs(self) -> int:
        """Runs delivered."""
        return self.runs_inline + self.runs_on_lanes

    def received(self, location: DeviceLocation) -> LinkStatistics:
        """All that was copied into a device's memory, over whichever link."""
        return _together([link for (_, destination), link in self.links.items() if destination == location])

    def sent(self, location: DeviceLocation) -> LinkStatistics:
        """All that was copied out of it."""
        return _together([link for (source, _), link in self.links.items() if source == location])


def _together(links: Sequence[LinkStatistics]) -> LinkStatistics:
    return LinkStatistics(
        copies=sum(link.copies for link in links),
        nbytes=sum(link.nbytes for link in links),
        predicted_s=sum(link.predicted_s for link in links),
        actual_s=sum(link.actual_s for link in links),
    )
