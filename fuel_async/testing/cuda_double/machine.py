"""A machine with devices: all that the modules of the double have between them. `install` publishes one.

What CuPy or the driver knows by a number is kept here under that number: streams, events, graphs, blocks. So what is
alive can be counted, and a number that was given back is refused.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.addresses import Addresses
from fuel_async.testing.cuda_double.capture import Captures
from fuel_async.testing.cuda_double.faults import Faults
from fuel_async.testing.cuda_double.gpu import Gpu
from fuel_async.testing.cuda_double.model import Call, Counts, Fault, Leaks
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation, StreamWork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from fuel_async.testing.cuda_double.capture import Capture, Node
    from fuel_async.testing.cuda_double.model import DeviceModel, Place, RandomFaults
    from fuel_async.testing.cuda_double.work import Mark

T = TypeVar("T")

#: Calls that the log keeps.
LOG_LENGTH: Final = 10_000
#: How long the end of a machine waits for a kernel that runs.
LONGEST_JOIN_S: Final = 20.0
#: The streams that need not be created: the legacy one under two numbers, and that of each thread.
LEGACY: Final = frozenset({0, 1})
PER_THREAD: Final = 2
#: Attribute of the module `cupy` under which the machine is found.
MACHINE: Final = "_double_machine"


class LegacyStreamUsed(AssertionError):
    """The default stream was used, which waits for all others and which they wait for."""


@dataclass(slots=True)
class EventState:
    """An event: where it was recorded last, if anywhere."""

    gpu: Gpu
    is_timed: bool
    mark: Mark | None = None
    captured: tuple[Capture, frozenset[int]] | None = None
    #: When its place was reached, on the performance counter.
    times_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class GraphState:
    """A graph that can be launched. Its launches come one after the other."""

    gpu: Gpu
    nodes: Sequence[Node]
    last: Mark | None = None


class ThreadState(threading.local):
    """What CuPy and the runtime keep for each thread."""

    def __init__(self) -> None:
        self.device = 0
        #: The current stream of each device; without an entry the default one.
        self.streams: dict[int, Any] = {}
        self.devices_before: list[int] = []
        self.streams_before: list[tuple[int, Any]] = []


class Machine:
    """Devices of given models and what happens on them. Any thread may use it."""

    def __init__(
        self,
        models: Sequence[DeviceModel],
        *,
        absence: int | None = None,
        is_strict: bool = True,
        kernels: Mapping[str, Callable[..., None]] | None = None,
    ) -> None:
        """`absence` is the status of a machine without driver or device. `kernels` replaces compiled ones by name."""
        self.absence, self.is_strict = absence, is_strict
        self.kernels = dict(kernels or {})
        self.faults = Faults()
        self.gpus = [Gpu(index, model, self.faults) for index, model in enumerate(models)]
        self.addresses = Addresses()
        self.captures = Captures()
        self.here = ThreadState()
        self.streams: dict[int, StreamWork] = {}
        self.events: dict[int, EventState] = {}
        self.graphs: dict[int, GraphState] = {}
        self.handles: dict[int, Any] = {}
        #: Rules that were broken where no caller could be told.
        self.violations: list[str] = []
        self.log: deque[Call] = deque(maxlen=LOG_LENGTH)
        self.counted: Counter[str] = Counter()
        self.is_over = False
        #: The modules that the double stands in for.
        self.replaced: dict[str, ModuleType] = {}
        self._lock = threading.RLock()
        self._defaults: dict[tuple[int, int], StreamWork] = {}
        # A number of one machine is none of the next.
        self._numbers = itertools.count((id(self) & 0xFFFFFFFF) << 24 | 0x1000)
        self._stream_numbers = itertools.count(1)

    # --- calls --------------------------------------------------------------------------------------------------------

    def enter(self, name: str, gpu: Gpu | None = None, *, place: Place | None = None, unsafe: bool = False) -> Gpu:
        """Begin a call: note it, and raise what the device or a capture has against it. `CUDARuntimeError`.

        Returns the device of the call: `gpu`, or the current one.
        """
        with self._lock:
            self.counted[name] += 1
            self.log.append(Call(name, threading.current_thread().name, None if gpu is None else gpu.index))
        self.demand_driver()
        gpu = self.gpus[self.here.device] if gpu is None else gpu
        self.demand_healthy(gpu)
        if place is not None:
            self.strike(gpu, place)
        if unsafe:
            self.captures.refuse_unsafe()
        return gpu

    def demand_driver(self) -> None:
        """Raise if there is none, or no more. `CUDARuntimeError`."""
        if self.is_over:
            raise CUDARuntimeError(statuses.RUNTIME_UNLOADING)
        if self.absence is not None:
            raise CUDARuntimeError(self.absence)

    def demand_healthy(self, gpu: Gpu) -> None:
        """Raise what ended the device, if anything did. `CUDARuntimeError`."""
        if gpu.status:
            raise CUDARuntimeError(gpu.status)

    def strike(self, gpu: Gpu, place: Place) -> None:
        """Raise the fault whose turn it is in a call, which ends the device if it is such a one. `CUDARuntimeError`."""
        try:
            self.faults.strike(gpu.index, place)
        except CUDARuntimeError as error:
            if error.status in statuses.STICKY:
                gpu.fail(error.status, error)
            raise

    def gpu(self, index: int) -> Gpu:
        """Return a device by its number. `CUDARuntimeError`."""
        self.demand_driver()
        if not 0 <= index < len(self.gpus):
            raise CUDARuntimeError(statuses.INVALID_DEVICE)
        return self.gpus[index]

    # --- what has a number --------------------------------------------------------------------------------------------

    def number(self) -> int:
        """Return a number that nothing else has or had."""
        return next(self._numbers)

    def take_out(self, table: dict[int, T], handle: int) -> T:
        """Take out what has a number. `CUDARuntimeError` if there is none such."""
        with self._lock:
            if handle not in table:
                raise CUDARuntimeError(statuses.INVALID_HANDLE)
            return table.pop(handle)

    def event(self, handle: int) -> EventState:
        """Return an event. `CUDARuntimeError` for one that is gone."""
        self.demand_driver()
        if (event := self.events.get(handle)) is None:
            raise CUDARuntimeError(statuses.INVALID_HANDLE)
        return event

    def stream(self, handle: int) -> StreamWork:
        """Return a stream. `CUDARuntimeError` for one that is gone, `LegacyStreamUsed` for the default one."""
        self.demand_driver()
        if (stream := self.streams.get(handle)) is not None:
            return stream
        if handle in LEGACY:
            if self.is_strict:
                self.violations.append(f"{threading.current_thread().name} used the legacy default stream")
                raise LegacyStreamUsed("the legacy default stream was used: give a non-blocking stream, or enter one")
            return self._default(0)
        if handle == PER_THREAD:
            return self._default(threading.get_ident())
        raise CUDARuntimeError(statuses.INVALID_HANDLE)

    def _default(self, thread: int) -> StreamWork:
        gpu = self.gpus[self.here.device]
        with self._lock:
            if (gpu.index, thread) not in self._defaults:
                self._defaults[gpu.index, thread] = self.new_stream(gpu, PER_THREAD if thread else 0, 0, 0)
            return self._defaults[gpu.index, thread]

    def new_stream(self, gpu: Gpu, handle: int, flags: int, priority: int) -> StreamWork:
        """Make a stream on a device; its thread begins with its first work."""
        stream = StreamWork(gpu, handle, next(self._stream_numbers), flags, priority)
        with self._lock:
            gpu.streams[:] = [*(old for old in gpu.streams if not old.is_over()), stream]
        return stream

    def submit(self, stream: StreamWork, operation: Operation) -> Mark | None:
        """Give work to a stream, or to the capture under way there. `CUDARuntimeError`."""
        stream.gpu.refuse(operation.name)
        if stream.capture is not None:
            stream.capture.add(stream, operation)
            return None
        return stream.submit(operation)

    # --- for tests ----------------------------------------------------------------------------------------------------

    def inject_error(self, device: int, status: int, at: Place = "now", *, after: int = 0, times: int = 1) -> None:
        """Let a device fail: now, or at the `after`-th next launch, copy, allocation, … and then `times` times."""
        gpu = self.gpus[device]
        if at == "now":
            gpu.fail(status, CUDARuntimeError(status))
        else:
            self.faults.add(Fault(device, status, at, after, times))

    def inject_random(self, *faults: RandomFaults) -> None:
        """Let devices fail by chance from now on, in each of the given ways; without any, no more."""
        self.faults.at_random(*faults)

    def hang(self, device: int) -> None:
        """Let no stream of a device begin anything more, until `release` or the machine's end."""
        self.gpus[device].hang()

    def release(self, device: int) -> None:
        """Let the streams of a device that hangs go on."""
        self.gpus[device].release()

    def counts(self) -> Counts:
        """Return how often what was done so far."""
        with self._lock:
            counted = Counter(self.counted)
        of = {name: counted.pop(f"#{name}", 0) for name in COUNTED}
        peaks = tuple(gpu.peak_nbytes for gpu in self.gpus)
        return Counts(calls=MappingProxyType(dict(counted)), peak_nbytes=peaks, **of)

    def count(self, name: str, by: int = 1) -> None:
        """Add to one of the counts that are no calls."""
        with self._lock:
            self.counted[f"#{name}"] += by

    def leaks(self, *devices: int) -> Leaks:
        """Return what is alive, on some devices or on the machine. It is false when all was given back and done.

        Pinned memory and captures belong to no device.
        """
        gpus = [self.gpus[device] for device in devices] or self.gpus
        live = self.addresses.live()
        blocks = [block for block in live if block.device in {gpu.index for gpu in gpus}]
        pinned = [block for block in live if block.device is None and not devices]
        with self._lock:
            tables = (self.streams, self.events, self.graphs, self.handles)
            streams, events, graphs, handles = (sum(one.gpu in gpus for one in table.values()) for table in tables)
            works = [stream for gpu in gpus for stream in gpu.streams]
        return Leaks(
            streams=streams,
            events=events,
            graphs=graphs,
            handles=handles,
            blocks=len(blocks),
            nbytes=sum(block.nbytes for block in blocks),
            pinned=len(pinned),
            pinned_nbytes=sum(block.nbytes for block in pinned),
            captures=0 if devices else len(self.captures),
            pending=sum(work.pending() for work in works),
        )

    def threads(self) -> int:
        """How many streams have a thread now. One that was destroyed ends its thread when its work is done."""
        with self._lock:
            return sum(stream.is_running() for gpu in self.gpus for stream in gpu.streams)

    def check(self) -> None:
        """Fail if a rule was broken or somebody wrote beside a block. `AssertionError`."""
        broken = [f"a write beside {block.nbytes} bytes" for block in self.addresses.live() if not block.is_intact()]
        assert not (broken := [*self.violations, *broken]), "; ".join(broken)

    def close(self) -> None:
        """End it: work that is not done is dropped, hanging devices are released, threads end. Once is enough."""
        with self._lock:
            self.is_over = True
            streams = [stream for gpu in self.gpus for stream in gpu.streams]
        for stream in streams:
            stream.close(drops=True)
        for gpu in self.gpus:
            gpu.end()
        if stuck := [stream.number for stream in streams if not stream.join(LONGEST_JOIN_S)]:
            raise TimeoutError(f"the kernels of streams {stuck} do not end")


#: The counts that are no calls.
COUNTED: Final = (
    "launches", "graph_launches", "copies", "pageable_copies", "staged_peer_copies", "copied_nbytes", "allocations",
    "pinned_allocations", "compiles",
)  # fmt: skip


def installed() -> Machine:
    """Return the machine that `install` published. `CUDARuntimeError` when there is none (any more)."""
    machine = getattr(sys.modules.get("cupy"), MACHINE, None)
    if not isinstance(machine, Machine):
        raise CUDARuntimeError(statuses.RUNTIME_UNLOADING)
    return machine
