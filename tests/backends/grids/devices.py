"""What tests on devices of grids share, whatever the driver: programs, arrays, work, and work of somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import fuel_async as fa
from fuel_async.cost import Rates
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from fuel_async.streams import CompletionHandle, HostSignal, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.dispatch import LaneProgram

PATIENCE_S = 60.0

#: A `VulkanDevice` or a `CudaDevice`.
Device: TypeAlias = Any


def planned(device: Device, build: Callable[[fa.Graph], None]) -> Any:
    """The plan of a graph for a device alone, one said to be so fast that nothing is cut."""
    graph = fa.Graph("work")
    build(graph)
    return make_plan(graph.freeze(), Target(global_bindings(), device.capabilities, Rates(1e9, 1e9, 1e9, 1)))


def program_of(device: Device, build: Callable[[fa.Graph], None]) -> LaneProgram:
    """The only program of such a plan."""
    (region,) = planned(device, build).regions
    program: LaneProgram = region.program
    return program


def copied(device: Device, shape: tuple[int, ...] = (64,)) -> LaneProgram:
    """A program of one kernel: y = x."""
    return program_of(device, lambda graph: graph.output("y", graph.input("x", shape, fa.f32)))


def doubled_twice(device: Device, shape: tuple[int, ...] = (64,)) -> LaneProgram:
    """A program of several kernels: y = (x + x) summed along, and back over x."""

    def build(graph: fa.Graph) -> None:
        x = graph.input("x", shape, fa.f32)
        graph.output("y", (x + x).cumulative_sum(0) - x)

    return program_of(device, build)


def put(device: Device, array: Any) -> Any:
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

    def __init__(self, device: Device, seed: int = 0, count: int = 64, *, long: bool = False) -> None:
        x = values(count, seed)
        self.device, self.is_long, self.expected = device, long, (x + x).cumsum(dtype=np.float32) - x if long else x
        self.instance = device.instantiate((doubled_twice if long else copied)(device, (count,)), [])
        self.x = put(device, x)
        self.y = put(device, np.zeros(count, np.float32))

    def submit(self, waits: Any = (), lane: int = 0, **more: Any) -> CompletionHandle:
        handle: CompletionHandle = self.device.lanes[lane].submit(
            self.instance, [self.x], [self.y], waits=waits, **more
        )
        return handle

    @property
    def is_done(self) -> bool:
        found = self.y.read()
        if self.is_long:
            return bool(np.allclose(found, self.expected, rtol=1e-5, atol=1e-5))
        return bool((found == self.expected).all())
