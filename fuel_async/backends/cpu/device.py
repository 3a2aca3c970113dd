"""The host as a device: lanes of worker threads, arenas of ordinary memory, kernels of numpy."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from fuel_async.backends.base import Absent, DeviceInfo, OpenOptions
from fuel_async.backends.cpu.calibration import HOST
from fuel_async.backends.cpu.instance import HostInstance
from fuel_async.dispatch import BackendCapabilities, FitStatus, LaneProgram, derive_backend_caps, would_fit
from fuel_async.errors import OutOfMemory
from fuel_async.ir import CPU_DEVICE, BackendId, Breathe, DeviceLocation, no_breath
from fuel_async.registry import global_bindings, inflight_count, pending_ns
from fuel_async.storage import HostArena
from fuel_async.streams import HOST_CLOCK, History, HostLane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from fuel_async.cost import Rates
    from fuel_async.ir import DType
    from fuel_async.streams import Clock

#: The share of the machine's memory that instances and outputs may hold unless an executor says otherwise.
DEFAULT_BUDGET_SHARE = 0.5


class HostMemory:
    """Ordinary memory within a budget. The budget is enforced by admission; this is where bytes come from."""

    def __init__(self, budget_nbytes: int) -> None:
        self.budget_nbytes = budget_nbytes

    def allocate(self, nbytes: int) -> HostArena:
        """Return an arena of `nbytes`; `OutOfMemory` when the system has none."""
        try:
            return HostArena(nbytes)
        except (MemoryError, ValueError) as error:  # ValueError: more than an array can have
            raise OutOfMemory(str(CPU_DEVICE), nbytes, self.budget_nbytes, ", and the system refused") from error

    def allocate_array(self, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
        """Return an array. Its pages are touched when somebody first writes them."""
        try:
            return np.empty(shape, dtype.require_np())
        except (MemoryError, ValueError) as error:
            nbytes = math.prod(shape) * dtype.nbytes
            raise OutOfMemory(str(CPU_DEVICE), nbytes, self.budget_nbytes, ", and the system refused") from error


class CpuDevice:
    """The opened host. Thread-safe."""

    #: One submission running and one behind it: the next starts without a hop through anybody.
    slot_capacity = 2
    binds_off_loop = False
    memory_location = CPU_DEVICE
    clock: Clock = HOST_CLOCK
    #: The host is never lost: with it, whoever would ask is gone.
    lost: BaseException | None = None

    def __init__(self, info: DeviceInfo, options: OpenOptions) -> None:
        """Make the lanes (their threads start with their first work) and measure the host's speed. Blocks."""
        self.info = info
        self.location: DeviceLocation = info.location
        total = info.total_nbytes or 0
        self.memory = HostMemory(options.memory_nbytes or int(total * DEFAULT_BUDGET_SHARE) or 1 << 32)
        self.lanes: Sequence[HostLane] = tuple(
            HostLane(f"{info.location} lane {i}", info.location) for i in range(options.lanes or 1)
        )
        self.rates: Rates = HOST.rates()
        self._histories: WeakKeyDictionary[LaneProgram, History] = WeakKeyDictionary()

    @property
    def capabilities(self) -> BackendCapabilities:
        """What the host can run, derived from the kernels registered now, and how fast it was measured to be."""
        return derive_backend_caps(
            self.location.backend,
            self.location,
            global_bindings(),
            rates=(self.rates.flops_per_ns, self.rates.bytes_per_ns),
            launch_overhead_ns=self.rates.call_ns,
            dense_flops_per_ns=self.rates.dense_flops_per_ns,
        )

    def pending_work_count(self) -> int:
        """Submissions to the host that have not settled, of the whole process."""
        return inflight_count(self.location)

    def pending_work_ns(self) -> int:
        """Their predicted time."""
        return pending_ns(self.location)

    def would_fit(self, nbytes: int) -> FitStatus:
        """Whether `nbytes` more would fit the machine's memory now."""
        return would_fit(nbytes, _available_nbytes(), self.info.total_nbytes)

    def instantiate(
        self,
        program: LaneProgram,
        constants: Sequence[Any],
        arena: HostArena | None = None,
        breathe: Breathe | None = None,
    ) -> HostInstance:
        """Bind a program; about 1 µs a kernel."""
        block = self.memory.allocate(program.arena_nbytes) if arena is None else arena
        history = self._histories.get(program)
        if history is None:
            history = self._histories.setdefault(program, History(program.predicted_ns))
        return HostInstance(program, constants, block, history, breathe or no_breath)

    def copy_lane(self, source: DeviceLocation, destination: DeviceLocation) -> None:
        """Copies into and out of the host's memory are made by the devices that have one of their own."""

    def link(self, source: DeviceLocation, destination: DeviceLocation) -> None:
        """See `copy_lane`."""

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Never calls."""
        return lambda: None

    def close(self) -> None:
        """Let the lanes end after what they hold."""
        for lane in self.lanes:
            lane.close()


def discover() -> Sequence[DeviceInfo] | Absent:
    """The host is always there."""
    cores = os.cpu_count() or 1
    return (DeviceInfo(CPU_DEVICE, _model_name(), _total_nbytes(), f"{cores} cores"),)


def open_device(info: DeviceInfo, options: OpenOptions) -> CpuDevice:
    """Open the host. May take milliseconds at the first call of a process."""
    return CpuDevice(info, options)


BACKEND_ID = BackendId.CPU


def _total_nbytes() -> int | None:
    return _pages("SC_PHYS_PAGES")


def _available_nbytes() -> int | None:
    """What could be allocated without swapping; memory that the system uses as a cache is among it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1_024
    except OSError:
        pass
    return _pages("SC_AVPHYS_PAGES")


def _pages(name: str) -> int | None:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _model_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return "host processor"
