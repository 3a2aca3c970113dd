"""Programs to measure: chains of kernels, planned for one device and never cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.cost import Rates
from fuel_async.ir import CPU_DEVICE, DType, Graph
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.dispatch import LaneProgram

#: Said of devices, so that no plan is cut into several regions.
_FAST = Rates(1e9, 1e9, 1e9, 1)

PATIENCE_S = 60.0


def planned(device: Any, build: Callable[[Graph], None]) -> LaneProgram:
    """Return the program of a graph of one region."""
    graph = Graph("measured")
    build(graph)
    (region,) = make_plan(graph.freeze(), Target(global_bindings(), device.capabilities, _FAST)).regions
    return region.program


def small(kernels: int, count: int = 1_024) -> Callable[[Graph], None]:
    """Return what builds a chain of elementwise kernels over `count` floats."""

    def build(graph: Graph) -> None:
        y = graph.input("x", (count,), DType.F32)
        for _ in range(kernels):
            y = -y
        graph.output("y", y)

    return build


def products(times: int, size: int) -> Callable[[Graph], None]:
    """Return what builds a chain of square products; they keep their size, as those of a rotation do."""

    def build(graph: Graph) -> None:
        x = y = graph.input("x", (size, size), DType.F32)
        for _ in range(times):
            y = y @ x
        graph.output("y", y)

    return build


class Bound:
    """A program on a device, with its arrays there."""

    def __init__(self, device: Any, build: Callable[[Graph], None], feed: np.ndarray[Any, Any]) -> None:
        program = planned(device, build)
        self.device, self.feed = device, feed
        self.instance = device.instantiate(program, [])
        self.x, self.y = [device.memory.allocate_array(feed.shape, DType.from_numpy(feed.dtype)) for _ in range(2)]
        device.copy_lane(CPU_DEVICE, device.location).submit_copy(feed, self.x).wait(PATIENCE_S)

    def submit(self, lane: int = 0) -> Any:
        """Launch it, and return the handle."""
        return self.device.lanes[lane].submit(self.instance, [self.x], [self.y])

    def run(self, times: int = 1, lane: int = 0) -> None:
        """Launch it so often, and wait for the last."""
        handles = [self.submit(lane) for _ in range(times)]
        for handle in handles:
            handle.wait(PATIENCE_S)


def rotation(size: int) -> np.ndarray[Any, Any]:
    """Return an orthogonal matrix: its powers neither grow nor vanish."""
    angles = np.linspace(0.1, 1.0, size // 2)
    made = np.zeros((size, size), np.float32)
    even = np.arange(0, size // 2 * 2, 2)
    made[even, even] = made[even + 1, even + 1] = np.cos(angles)
    made[even, even + 1], made[even + 1, even] = -np.sin(angles), np.sin(angles)
    return made
