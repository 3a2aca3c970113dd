"""The outside world of one executor: its opened devices, their lanes, and the thread that plans and binds.

A session is opened once, off the loop, by the first run that needs it, and closed with its executor. It owns no run.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fuel_async.backends import Device, Found, OpenOptions, discover
from fuel_async.errors import DeviceLost, ExecutorClosed, InternalError
from fuel_async.ir import CPU_DEVICE, Breathe, DeviceLocation, PrecisionGuarantee
from fuel_async.plan import Target
from fuel_async.registry import (
    SystemTopology,
    bump_topology_generation,
    fork_generation,
    global_bindings,
    topology_generation,
)
from fuel_async.runtime.blas import BLAS
from fuel_async.streams import CompletionHandle, HostLane, InPlaceLane, Lane, LoopShare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.cost import LinkEstimate, Rates
    from fuel_async.dispatch import BackendCapabilities, DeviceKind, KernelBindingTable
    from fuel_async.runtime.config import Config

T = TypeVar("T")

#: A worker thread breathes at least this often while it plans or binds.
_BREATH_NS = 50_000

#: It keeps the interpreter for at most this long: longer than a lane may, since a graph is planned once and run often.
PLANNER_STRETCH_NS = 700_000


class WorkerCall(Generic[T]):
    """One piece of host work for the worker lane; `value` is there once its handle has settled."""

    __slots__ = ("_call", "predicted_ns", "value")
    measures = False

    def __init__(self, call: Callable[[Breathe], T]) -> None:
        self._call, self.predicted_ns = call, 0
        self.value: T

    def execute(self, *bound: Any) -> None:
        """Run the call; `breathe` gives the interpreter away when it is due."""
        pace: Callable[[bool, int], None] | None = bound[-1]
        self.value = self._call(lambda: None if pace is None else pace(True, _BREATH_NS))


class Session:
    """Opened devices. `open` and `close` may block; everything else takes any thread and does not."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock, self._releasing = threading.Lock(), threading.Lock()
        self._devices: tuple[Device, ...] = ()
        self._opened: list[Device] = []
        self._absent: dict[str, str] = {}
        self._closed = self._released = False
        #: Gives the library's settings back should nobody close this.
        self._abandoned: weakref.finalize[[int], Session] | None = None
        #: One device of each kind, in order: what plans are made for. With the kernels and devices it was found for.
        self._kinds: tuple[KernelBindingTable, int, list[tuple[BackendCapabilities, Rates]]] | None = None
        #: By the floor of exactness, for those kinds.
        self._targets: dict[PrecisionGuarantee | None, Target] = {}
        #: The lane on which planning, binding and large conversions happen: none of a device's own.
        self.worker: HostLane | InPlaceLane = (
            InPlaceLane("planner", CPU_DEVICE, config.clock)
            if config.clock.is_virtual
            else HostLane("planner", CPU_DEVICE, counted=False, longest_stretch_ns=PLANNER_STRETCH_NS)
        )

    @property
    def is_open(self) -> bool:
        """Whether devices are there."""
        return bool(self._devices)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The opened devices, in order of preference; empty before the first run."""
        return self._devices

    @property
    def absent(self) -> dict[str, str]:
        """Why the other backends offer nothing here."""
        return self._absent

    @property
    def device(self) -> Device:
        """The device that runs are planned for."""
        if not self._devices:
            raise InternalError("the session is not open")
        return self._devices[0]

    @property
    def lanes(self) -> Sequence[Lane]:
        """All lanes of the device."""
        return self.device.lanes

    def open(self) -> None:
        """Find and open the devices, once. `UserError` when one that was asked for is not there."""
        with self._lock:
            if self._closed:
                raise ExecutorClosed
            if self._devices:
                return
            found = self._find()
            BLAS.hold(self._config.blas_threads)
            try:
                for one in found:
                    if isinstance(one, Found):
                        budget_nbytes = self._config.budget_nbytes(one.info.location)
                        options = OpenOptions(self._config.host_lanes, budget_nbytes)
                        self._opened.append(one.spec.open(one.info, options))
            except BaseException:
                for device in self._opened:
                    device.close()
                self._opened.clear()
                BLAS.release()
                raise
            opened = iter(self._opened)
            self._devices = tuple(next(opened) if isinstance(one, Found) else one for one in found)
            self._abandoned = weakref.finalize(self, BLAS.abandon, fork_generation())
            self._abandoned.atexit = False

    def _find(self) -> list[Found | Device]:
        """What to run on, in order: devices that were given as they are, and others as they were found."""
        wanted = self._config.devices
        if wanted is not None and not any(isinstance(one, DeviceLocation) for one in wanted):
            return [one for one in wanted if not isinstance(one, DeviceLocation)]
        discovery = discover()
        self._absent = dict(discovery.absent)
        locations = None if wanted is None else tuple(one for one in wanted if isinstance(one, DeviceLocation))
        found = iter(discovery.select(locations))
        order: list[Found | Device] = list(found) if wanted is None else []
        order.extend(next(found) if isinstance(one, DeviceLocation) else one for one in wanted or ())
        if not order:
            raise DeviceLost("every device", "; ".join(f"{k}: {v}" for k, v in discovery.absent.items()))
        return order

    @property
    def is_spread(self) -> bool:
        """Whether runs may use several devices, or one that has a memory of its own."""
        return len(self._devices) > 1 or self.device.memory_location != CPU_DEVICE

    def join(self, device: Device) -> None:
        """Count one more device among those that are open; it is not closed with the session.

        Plans that know nothing of its kind are made anew.
        """
        with self._lock:
            kind = device.capabilities.kind
            is_new = all(kind != other.capabilities.kind for other in self._devices)
            self._devices = (*self._devices, device)
        if is_new:
            bump_topology_generation()

    def target(self, precision: PrecisionGuarantee | None) -> Target:
        """Return what plans are made for: the kernels registered now, facts and speeds of one device of each kind."""
        bindings, devices = global_bindings(), self._devices
        cached = self._kinds
        if cached is None or cached[0] is not bindings or cached[1] != len(devices):
            found: dict[DeviceKind, tuple[BackendCapabilities, Rates]] = {}
            for device in devices:
                capabilities = device.capabilities
                found.setdefault(capabilities.kind, (capabilities, device.rates))
            cached, self._targets = (bindings, len(devices), list(found.values())), {}
            self._kinds = cached
        target = self._targets.get(precision)
        if target is None:
            (capabilities, rates), *others = cached[2]
            target = Target(bindings, capabilities, rates, precision, spread=self.is_spread, others=tuple(others))
            self._targets[precision] = target
        return target

    def topology(
        self, links: Mapping[tuple[DeviceLocation, DeviceLocation], LinkEstimate] | None = None
    ) -> SystemTopology:
        """Return the topology of the devices that are there, with these figures of their links. Publishes nothing."""
        there = [device for device in self._devices if device.lost is None]
        return SystemTopology.of(
            [device.capabilities for device in there],
            kernels=global_bindings(),
            links=links,
            memories={device.location: device.memory_location for device in there},
            generation=topology_generation(),
        )

    def call(self, work: Callable[[Breathe], T]) -> tuple[CompletionHandle, WorkerCall[T]]:
        """Do `work(breathe)` on the worker thread."""
        call = WorkerCall(work)
        return self.worker.submit(call), call

    def watch_worker(self) -> None:
        """Have the running loop look after the worker thread, where there is one."""
        if isinstance(self.worker, HostLane):
            LoopShare.running().watch(self.worker)

    def close(self) -> None:
        """Let all threads end after what they hold. Never blocks. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            opened = list(self._opened)
        for device in opened:  # those that were given belong to whoever gave them
            device.close()
        self.worker.close()

    def release(self) -> None:
        """Wait for the threads and give the library's settings back. Blocks; after `close`. Idempotent."""
        with self._releasing:  # not the lock that `close` takes: a loop must not wait for these joins
            if self._released:
                return
            for device in self._opened:
                for lane in device.lanes:
                    join = getattr(lane, "join", None)
                    if join is not None:
                        join()
            self.worker.join()
            if self._abandoned is not None and self._abandoned.detach() is not None:
                BLAS.release()
            self._released = True
