"""What an executor has done so far: a frozen snapshot, taken without disturbing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.ir import DeviceLocation


class Counters:
    """Running totals. Written by whoever ends a run; a reader may see them a moment apart."""

    __slots__ = ("cancelled", "failed", "inline", "kernels", "on_lanes")

    def __init__(self) -> None:
        self.cancelled = self.failed = self.inline = self.kernels = self.on_lanes = 0


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """What one device did for this executor."""

    #: Kernels of runs that were delivered, inline ones included.
    kernels: int
    #: Time its lanes worked.
    busy_s: float
    #: Submissions of this executor that have not settled, and their predicted time.
    pending_count: int
    pending_s: float


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

    @property
    def runs(self) -> int:
        """Runs delivered."""
        return self.runs_inline + self.runs_on_lanes
