"""Simulated devices as the ranker sees them: what they advertise decides where nodes are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.backends.sim import SimDeviceSpec, SimMachine
from fuel_async.cost import Rates
from fuel_async.ir import Graph
from fuel_async.plan import PlanOptions, compile_plan
from fuel_async.registry import SystemTopology, global_bindings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import DeviceLocation


def test_heavy_nodes_go_to_the_fast_device_and_light_ones_stay(make: Callable[..., SimMachine]) -> None:
    slow, fast = Rates(1.0, 10.0, 10.0), Rates(20.0, 200.0, 200.0)
    machine = make(SimDeviceSpec(rates=slow), SimDeviceSpec(rates=fast))
    here, there = machine.devices
    topology = SystemTopology.of(
        [device.capabilities for device in machine.devices],
        links={(link.source, link.destination): link.estimate for link in machine.links},
    )
    options = PlanOptions.among([device.capabilities for device in machine.devices], topology)

    def planned(size: int) -> tuple[DeviceLocation | None, tuple[DeviceLocation, ...], int | None]:
        g = Graph()
        g.output("y", (g.input("a", (size, size)) @ g.input("b", (size, size))).relu())
        plan = compile_plan(g.freeze(), range(4), global_bindings(), options)
        runners, found = plan.runner_ups(2), plan.alternatives(2)
        assert runners is not None
        assert found is not None
        assert plan.device(3) == plan.device(2)
        best = found.winner()
        assert best is not None
        return plan.device(2), runners.devices(), best.effective_ns()

    assert planned(8) == (here.location, (there.location,), 100 + 2 * 8**3 // 10)
    assert planned(512) == (there.location, (here.location,), 100 + 2 * 512**3 // 200)
