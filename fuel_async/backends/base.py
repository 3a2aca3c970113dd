"""What a backend is: the contract between the runtime and the outside world.

A backend package exports a `BackendSpec` under the entry-point group `fuel_async.backends`. Discovery is silent where
there is nothing: it gives `Absent` with a reason. Devices advertise facts and execute programs; they never decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.cost import Rates
    from fuel_async.dispatch import BackendCapabilities, FitStatus, LaneProgram
    from fuel_async.ir import BackendId, Breathe, DeviceLocation
    from fuel_async.streams import Lane, ProgramInstance


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What is known of a device before it is opened."""

    location: DeviceLocation
    name: str
    #: Bytes of its memory; None when it cannot be told.
    total_nbytes: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """Why a backend offers no device here."""

    reason: str


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What an executor asks of a device it opens; None leaves the choice to the backend."""

    lanes: int | None = None
    memory_nbytes: int | None = None


class Memory(Protocol):
    """A device's memory, within a budget."""

    @property
    def budget_nbytes(self) -> int:
        """What all instances and outputs on the device may hold together."""

    def allocate(self, nbytes: int) -> Any:
        """Return an arena of `nbytes` for program instances. `OutOfMemory` when the device refuses."""


class Device(Protocol):
    """An opened device."""

    @property
    def location(self) -> DeviceLocation:
        """Its address."""

    @property
    def info(self) -> DeviceInfo:
        """What discovery said of it."""

    @property
    def capabilities(self) -> BackendCapabilities:
        """What it can run and reach: facts, for others to decide by."""

    @property
    def rates(self) -> Rates:
        """Measured speeds, or the backend's priors."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """Its ordered queues."""

    @property
    def memory(self) -> Memory:
        """Where arenas come from."""

    @property
    def slot_capacity(self) -> int:
        """Submissions a lane should hold at a time: enough to hide the launch of the next one, no more."""

    def pending_work_count(self) -> int:
        """Submissions on the device that have not settled, all executors of the process together."""

    def pending_work_ns(self) -> int:
        """Their predicted time."""

    def would_fit(self, nbytes: int) -> FitStatus:
        """Whether an allocation of `nbytes` would fit now."""

    def instantiate(
        self,
        program: LaneProgram,
        constants: Sequence[Any],
        arena: Any = None,
        breathe: Breathe | None = None,
    ) -> ProgramInstance:
        """Make a program ready: bind its constants and temporaries, compile, record or capture.

        `arena` is a block of `memory.allocate` that the plan's other programs share; without it the instance has one
        of its own. May take milliseconds: called off the loop for all but small programs.
        """

    def close(self) -> None:
        """Let the lanes end after what they hold. Never blocks."""


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """A backend: its name, how its devices are found, and how one is opened."""

    backend: BackendId
    discover: Callable[[], Sequence[DeviceInfo] | Absent]
    #: May take milliseconds: called off the loop.
    open: Callable[[DeviceInfo, OpenOptions], Device]
