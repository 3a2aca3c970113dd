"""What the tests on CUDA devices share: devices of the double, programs of one op, work of somebody else's."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np

import fuel_async as fa
from fuel_async.backends.base import OpenOptions
from fuel_async.backends.cuda import CudaOptions, open_devices
from fuel_async.backends.cuda.discovery import driver_for
from fuel_async.cost import Rates
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from fuel_async.streams import CompletionHandle, HostSignal, Timing
from fuel_async.testing.cuda_double import install, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cuda.device import CudaDevice
    from fuel_async.dispatch import LaneProgram
    from fuel_async.testing.cuda_double import DeviceModel, Machine

PATIENCE_S = 30.0

# Statuses of the runtime.
NO_MEMORY, ECC, ILLEGAL_ADDRESS, LAUNCH_FAILURE = 2, 214, 700, 719
INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES = 1, 701


class Doubled:
    """Devices of a double, and what is looked at when they are closed."""

    def __init__(self, models: int | Sequence[DeviceModel] = 1, memory_nbytes: int | None = None, **options: Any):
        options.setdefault("cache", "0")
        self.machine: Machine = install(models)
        self.devices: list[CudaDevice] = open_devices(CudaOptions(**options), OpenOptions(memory_nbytes=memory_nbytes))
        self._driver = driver_for()
        #: Whether nothing may be left of them: not where one is lost.
        self.is_clean = True

    def close(self) -> None:
        """End the devices and the double. Everything must have been given back, and no rule broken."""
        try:
            while self.devices:
                self._end(self.devices.pop())
            gc.collect()
            self.machine.check()
            if self.is_clean:
                leaks = self.machine.leaks()
                assert not leaks, leaks
        finally:
            uninstall()
            self._driver.graves.clear()  # what a process would keep to its end
            gc.collect()

    def _end(self, device: CudaDevice) -> None:
        device.close()
        if device.lost is None:
            device.join(PATIENCE_S)
            assert [line.name for line in device.lines if line.is_running] == []
        self.is_clean = self.is_clean and device.lost is None
        vars(device).clear()  # the fixtures' values are kept longer than this


def planned(device: CudaDevice, build: Callable[[fa.Graph], None]) -> Any:
    """The plan of a graph for a device alone, one said to be so fast that nothing is cut."""
    graph = fa.Graph("work")
    build(graph)
    return make_plan(graph.freeze(), Target(global_bindings(), device.capabilities, Rates(1e9, 1e9, 1e9, 1)))


def copied(device: CudaDevice, shape: tuple[int, ...] = (64,)) -> LaneProgram:
    """A program of one kernel: y = x."""

    def build(graph: fa.Graph) -> None:
        graph.output("y", graph.input("x", shape, fa.f32))

    (region,) = planned(device, build).regions
    program: LaneProgram = region.program
    return program


def doubled_twice(device: CudaDevice, shape: tuple[int, ...] = (64,)) -> LaneProgram:
    """A program of several kernels: y = (x + x) summed along, and back over x."""

    def build(graph: fa.Graph) -> None:
        x = graph.input("x", shape, fa.f32)
        graph.output("y", (x + x).cumulative_sum(0) - x)

    (region,) = planned(device, build).regions
    program: LaneProgram = region.program
    return program


def put(device: CudaDevice, array: Any) -> Any:
    """A device's copy of a host array."""
    made = device.memory.allocate_array(array.shape, DType.from_numpy(array.dtype))
    lane = device.copy_lane(CPU_DEVICE, device.location)
    assert lane is not None
    lane.submit_copy(array, made).wait(PATIENCE_S)
    return made


def values(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def wait_all(handles: Sequence[Any]) -> None:
    for handle in handles:
        handle.wait(PATIENCE_S)


class Elsewhere:
    """Work of somebody else's that ends when it is told to."""

    def __init__(self) -> None:
        self._signal = HostSignal()
        self.handle = CompletionHandle(self._signal, CPU_DEVICE, "elsewhere", 0)

    def end(self, error: BaseException | None = None) -> None:
        self._signal.set()
        self.handle.settle(Timing(CPU_DEVICE, "elsewhere", 0, 0, 0, 0), error)


class Work:
    """A program with its arrays: by default a copy."""

    def __init__(self, device: CudaDevice, seed: int = 0, count: int = 64, *, long: bool = False) -> None:
        x = values(count, seed)
        self.device, self.expected = device, (x + x).cumsum(dtype=np.float32) - x if long else x
        self.instance = device.instantiate((doubled_twice if long else copied)(device, (count,)), [])
        self.x = put(device, x)
        self.y = put(device, np.zeros(count, np.float32))

    def submit(self, waits: Any = (), lane: int = 0, **more: Any) -> CompletionHandle:
        return self.device.lanes[lane].submit(self.instance, [self.x], [self.y], waits=waits, **more)

    @property
    def is_done(self) -> bool:
        return bool(np.allclose(self.y.read(), self.expected, rtol=1e-5, atol=1e-5))
