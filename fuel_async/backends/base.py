"""What a backend is: the contract between the runtime and the outside world.

A backend package exports a `BackendSpec` under the entry-point group `fuel_async.backends`. Discovery is silent where
there is nothing: it gives `Absent` with a reason. Devices advertise facts and execute programs; they never decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.cost import LinkEstimate, Rates
    from fuel_async.dispatch import BackendCapabilities, FitStatus, LaneProgram, SlotTable
    from fuel_async.ir import BackendId, Breathe, DeviceLocation, DType
    from fuel_async.streams import Clock, Lane, ProgramInstance


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What is known of a device before it is opened."""

    location: DeviceLocation
    name: str
    #: Bytes of its memory; None when it cannot be told.
    total_nbytes: int | None
    detail: str = ""
    #: Whether an executor that names no devices takes it: not where it is the host's processor in disguise.
    by_default: bool = True


@dataclass(frozen=True, slots=True)
class Absent:
    """Why a backend offers no device here."""

    reason: str


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What an executor asks of a device it opens; None leaves the choice to the backend."""

    lanes: int | None = None
    memory_nbytes: int | None = None


class Arena(Protocol):
    """One block of a device's memory, with the temporaries of a plan."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    def array(self, slots: SlotTable, slot: int) -> Any:
        """Return a temporary as `Lane.submit_copy` takes it."""


class Memory(Protocol):
    """A device's memory, within a budget."""

    @property
    def budget_nbytes(self) -> int:
        """What all instances and outputs on the device may hold together."""

    def allocate(self, nbytes: int) -> Arena:
        """Return an arena of `nbytes` for program instances. `OutOfMemory` when the device refuses."""

    def allocate_array(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Return a row-major array of its own: a feed, an output, a constant. `OutOfMemory` when refused."""


class Device(Protocol):
    """An opened device. It may have `notes`, too: words about it for who reads an executor's statistics."""

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
    def memory_location(self) -> DeviceLocation:
        """Whose memory that is: the host's for a device that works in it, else the device's own."""

    @property
    def clock(self) -> Clock:
        """What its times are read from."""

    @property
    def lost(self) -> BaseException | None:
        """Why it can do nothing any more; None while it can."""

    @property
    def binds_off_loop(self) -> bool:
        """Whether `instantiate` takes milliseconds even for small programs, as where shaders are compiled."""

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

    def copy_lane(self, source: DeviceLocation, destination: DeviceLocation) -> Lane | None:
        """Return the lane that copies from one memory to another; None without a direct link of this device."""

    def link(self, source: DeviceLocation, destination: DeviceLocation) -> LinkEstimate | None:
        """Return what that link is said to do; None when there is none."""

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once when the device is lost, on any thread; the function returned ends that."""

    def close(self) -> None:
        """Let the lanes end after what they hold. Never blocks."""


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """A backend: its name, how its devices are found, and how one is opened."""

    backend: BackendId
    discover: Callable[[], Sequence[DeviceInfo] | Absent]
    #: May take milliseconds: called off the loop.
    open: Callable[[DeviceInfo, OpenOptions], Device]
