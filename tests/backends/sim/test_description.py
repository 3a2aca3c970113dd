"""Machines as tables: what a TOML file can say, and what is said of one that makes no sense."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import (
    HOST,
    Links,
    LinkSpec,
    MachineDescription,
    Sharing,
    SimDeviceSpec,
    SimMachine,
    VirtualClock,
    describe_machine,
)
from fuel_async.cost import LinkEstimate, Rates
from fuel_async.errors import MachineDescriptionError, WrongSubstrate
from fuel_async.ir import CPU_DEVICE
from fuel_async.storage import HostArena
from fuel_async.testing import run_virtual
from tests.backends.sim.support import Work

EXAMPLES = Path(__file__).parents[3] / "examples" / "machines"


def described(text: str) -> MachineDescription:
    return describe_machine(tomllib.loads(text))


def test_every_field_has_its_own_name() -> None:
    said = described(
        """
        [[device]]
        name = "a"
        speed = 2
        rates = { flops_per_ns = 1, dense_flops_per_ns = 2.5, bytes_per_ns = 3, call_ns = 4 }
        advertised = { bytes_per_ns = 9 }
        memory_nbytes = 1000
        lanes = 2
        slot_capacity = 3
        jitter = 0.5
        slowdowns = [[10, 2.0], [20, 1]]
        lost_at_ns = 30
        in_host_memory = true

        [links]
        latency_ns = 5
        bytes_per_ns = 6
        advertised = { latency_ns = 7, bytes_per_ns = 8 }
        sharing = "ports"
        peers = false
        """
    )
    rates = Rates(flops_per_ns=1.0, dense_flops_per_ns=2.5, bytes_per_ns=3.0, call_ns=4)
    assert said.devices == (
        SimDeviceSpec(
            2.0, rates, Rates(bytes_per_ns=9.0), 1000, 2, 3, 0.5, ((10, 2.0), (20, 1.0)), 30, "a", in_host_memory=True
        ),
    )
    link = LinkSpec(5.0, 6.0, LinkEstimate(7.0, 8.0))
    assert said.links == Links(link, {}, peers=False, sharing=Sharing.PORTS)


def test_links_that_differ_hold_both_ways_unless_they_are_said_not_to() -> None:
    said = described(
        """
        [[device]]
        name = "a"
        [[device]]
        name = "b"
        [links]
        bytes_per_ns = 12
        [[link]]
        from = "host"
        to = "a"
        latency_ns = 1
        [[link]]
        from = "a"
        to = "b"
        one_way = true
        missing = true
        """
    )
    slow = LinkSpec(1.0, 12.0)
    assert said.links.matrix == {(HOST, 0): slow, (0, HOST): slow, (0, 1): None}


def test_what_is_left_out_has_the_values_of_a_spec() -> None:
    assert described("[[device]]") == MachineDescription((SimDeviceSpec(),), Links())


WRONG = {
    "": "the file has no [[device]]",
    "[[device]]\nspede = 1": "device 1 has no 'spede'; there are advertised, in_host_memory,",
    "[[devices]]": "the file has no 'devices'; there are device, link, links",
    "[device]": "device is written [[device]]",
    "device = [1]": "device is a table, not 1",
    "[[device]]\nspeed = 0": "device 1 a simulated device cannot have speed 0.0",
    "[[device]]\nspeed = 'fast'": "device 1, speed is a number, not 'fast'",
    "[[device]]\nspeed = true": "device 1, speed is a number, not True",
    "[[device]]\nlanes = 1.5": "device 1, lanes is a whole number, not 1.5",
    "[[device]]\nname = 3": "device 1, name is a text, not 3",
    "[[device]]\nin_host_memory = 1": "device 1, in_host_memory is true or false, not 1",
    "[[device]]\nrates = 3": "device 1, rates is a table, not 3",
    "[[device]]\nrates = { flops = 3 }": "device 1, rates has no 'flops'",
    "[[device]]\nslowdowns = [3]": "device 1, slowdowns is a list of [moment in ns, factor], not [3]",
    "[[device]]\nslowdowns = 3": "device 1, slowdowns is a list of [moment in ns, factor], not 3",
    "[[device]]\n[links]\nbandwidth = 3": "links has no 'bandwidth'",
    "[[device]]\n[links]\nbytes_per_ns = 0": "links LinkSpec(",
    "[[device]]\n[links]\nsharing = 'much'": "links sharing is 'none' or 'ports', and peers is true or false",
    "[[device]]\n[links]\nadvertised = { latency_ns = 1 }": "links, advertised, bytes_per_ns is a number, not None",
    "[[device]]\n[[link]]\nfrom = 'host'": "link 1 to = None is not one of 'host', 'simulated device'",
    "[[device]]\n[[device]]\n[[link]]\nfrom = 'host'\nto = 'simulated device'": "give devices names of their own",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_makes_no_sense_is_named_with_its_place(text: str) -> None:
    with pytest.raises(MachineDescriptionError) as caught:
        described(text)
    assert WRONG[text] in str(caught.value)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_are_machines(path: Path) -> None:
    said = described(path.read_text("utf-8"))
    machine = SimMachine(said.devices, links=said.links)
    assert len(machine.devices) == len(said.devices) > 1
    machine.close()


# --- a device in the host's memory ---


def test_a_device_in_the_hosts_memory_has_no_links_and_needs_no_copies() -> None:
    graph = fa.Graph("four branches")
    x = graph.input("x", (256, 256))
    branches = [(x @ graph.constant(np.full((256, 256), scale, np.float32))).relu() for scale in (0.1, 0.2, 0.3, 0.4)]
    graph.output("sum", branches[0] + branches[1] + branches[2] + branches[3])
    graph.output("first", branches[0])

    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec(in_host_memory=True), SimDeviceSpec(), SimDeviceSpec()], clock=clock)
        host, *others = machine.devices
        assert host.memory_location == CPU_DEVICE
        ends = {(link.source, link.destination) for link in machine.links}
        places = [CPU_DEVICE, *[one.location for one in others]]
        assert ends == {(a, b) for a in places for b in places if a != b}
        async with fa.Executor(machine.devices) as executor:
            for _ in range(3):
                said, since_ns = executor.explain(graph), clock.now_ns()
                results = await executor.run(graph, x=np.eye(256, dtype=np.float32))
                assert (clock.now_ns() - since_ns) / 1e9 == pytest.approx(said.makespan_s, rel=1e-3)
                np.testing.assert_allclose(results["sum"], np.full((256, 256), 1.0), rtol=1e-6)
            kept = await executor.run(graph, x=np.eye(256, dtype=np.float32), on_device=True)
            again = await executor.run(graph, x=kept["first"])
            np.testing.assert_allclose(again["sum"], np.full((256, 256), 25.6), rtol=1e-5)
            seen = executor.statistics()
            assert all(seen.devices[device.location].regions for device in machine.devices)
            assert not any(host.location in pair for pair in seen.links)
        machine.close()

    run_virtual(main)


def test_memory_that_is_not_the_devices_is_refused() -> None:
    machine = SimMachine([SimDeviceSpec(in_host_memory=True), SimDeviceSpec()])
    host, other = machine.devices
    program = Work(host, 10).program
    assert host.instantiate(program, [], HostArena(program.arena_nbytes or 64)) is not None
    with pytest.raises(WrongSubstrate, match="arena"):
        other.instantiate(program, [], HostArena(64))
    machine.close()
