"""What the tests of simulated machines share: work of a given cost, arrays on devices, and the look at base lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import fuel_async as fa
from fuel_async.ir import DType
from fuel_async.plan import Plan, Target, make_plan
from fuel_async.registry import global_bindings, inflight_count, pending_ns
from fuel_async.streams import History
from fuel_async.testing import synthetic_op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends.sim import SimDevice, SimMachine
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import DeviceLocation
    from fuel_async.streams import CompletionHandle, StopFlag

#: What has not happened by then never will: the test fails instead of hanging.
PATIENCE_S = 20.0

Array = Any


def plan_of(graph: fa.Graph, device: SimDevice) -> Plan:
    """Plan a graph by the speeds that the device advertises."""
    return make_plan(graph.freeze(), Target(global_bindings(), device.capabilities, device.rates))


def program(device: SimDevice, cost_ns: int = 1_000, own_ns: Mapping[DeviceLocation, int] | None = None) -> LaneProgram:
    """One kernel of 8 bytes that takes `cost_ns` at speed 1."""
    graph = fa.Graph("work")
    x = graph.input("x", (8,), DType.U8)
    graph.output("y", synthetic_op(graph, [x], cost_ns=cost_ns, nbytes=8, own_ns=own_ns or {}))
    (region,) = plan_of(graph, device).regions
    return region.program


class Work:
    """What a lane runs: `call`, at the cost of a program. Says when it was called, on its device's clock."""

    measures = False

    def __init__(
        self,
        device: SimDevice,
        cost_ns: int = 1_000,
        call: Callable[[], object] = lambda: None,
        of: LaneProgram | None = None,
    ) -> None:
        self.program = of or program(device, cost_ns)
        self.predicted_ns = cost_ns
        self.history = History(cost_ns)
        self.called_ns: list[int] = []
        self._device, self._call = device, call

    def execute(
        self,
        feeds: Sequence[Any],
        outputs: Sequence[Any],
        sessions: Sequence[Any],
        scalars: Sequence[Any],
        stop: StopFlag | None,
        pace: Callable[[bool, int], None] | None,
    ) -> None:
        self.called_ns.append(self._device.clock.now_ns())
        self._call()


def run(device: SimDevice, cost_ns: int = 1_000, **options: Any) -> CompletionHandle:
    """Submit work of that cost to the first lane."""
    return device.lanes[0].submit(Work(device, cost_ns), **options)


def on(device: SimDevice, values: Array) -> Array:
    """A copy of an array in the device's memory, made by nobody."""
    array = device.memory.allocate_array(np.shape(values), DType.from_numpy(np.asarray(values).dtype))
    array[...] = values
    return array


def error_of(handle: CompletionHandle) -> BaseException | None:
    """What became of the work, once it is done."""
    try:
        handle.wait(PATIENCE_S)
    except TimeoutError:
        raise
    except BaseException as error:
        return error
    return None


def span(handle: CompletionHandle) -> tuple[int, int]:
    """When it started and finished, once it has."""
    timing = handle.wait(PATIENCE_S)
    return timing.started_ns, timing.finished_ns


def assert_quiet(machine: SimMachine) -> None:
    """Nothing is in flight, and no account is left open."""
    tracks = [*[lane for device in machine.devices for lane in device.lanes], *machine.links]
    assert [(track.name, track.pending_count, track.pending_ns) for track in tracks if track.pending_count] == []
    assert {track.pending_ns for track in tracks} <= {0}
    for device in machine.devices:
        assert (inflight_count(device.location), pending_ns(device.location)) == (0, 0)
    assert machine._core.pending_count == 0
