"""The system as one value, and the process's snapshot of each generation."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.dispatch import (
    DEFAULT_LINKS,
    BackendCapabilities,
    CapabilityRegistry,
    Hop,
    KernelBindingTable,
    LinkEstimate,
    Pair,
    Route,
    TransferPath,
    derive_backend_caps,
)
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, OpKind, SubstrateClass
from fuel_async.registry import (
    SystemTopology,
    TopologyStore,
    bump_topology_generation,
    on_topology_change,
    topology_generation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ADD, MUL, F32 = OpKind.AddElementwise, OpKind.MulElementwise, DType.F32
CPU, NPU, SIM = BackendId.CPU, BackendId("npu"), BackendId("sim")
NPU0, NPU1, SIM0 = DeviceLocation(NPU), DeviceLocation(NPU, 1), DeviceLocation(SIM)
FREE, PEER, COPY, STAGING = (
    DEFAULT_LINKS[path]
    for path in (TransferPath.SameDevice, TransferPath.Peer, TransferPath.DeviceCopy, TransferPath.HostStaging)
)


def table_of(*ops: OpKind, backends: tuple[BackendId, ...] = (CPU, NPU)) -> KernelBindingTable:
    table = KernelBindingTable()
    for backend in backends:
        for op in ops:
            table.register(op, (F32, F32, F32), backend, lambda inputs, outputs, layouts, params: None)
    return table.finalize()


TABLE = table_of(ADD)
HOST = derive_backend_caps(CPU, CPU_DEVICE, TABLE)


def card(location: DeviceLocation, *paths: tuple[DeviceLocation, TransferPath]) -> BackendCapabilities:
    return dataclasses.replace(derive_backend_caps(NPU, location, TABLE), transfer_paths=paths)


CARD0 = card(NPU0, (CPU_DEVICE, TransferPath.DeviceCopy), (NPU1, TransferPath.Peer))
CARD1 = card(NPU1)


def machine(links: dict[Pair, LinkEstimate] | None = None) -> SystemTopology:
    return SystemTopology.of([CARD0, CARD1, HOST], kernels=TABLE, links=links, generation=7)


# --- who is there ---


def test_the_host_is_always_there_and_first() -> None:
    assert SystemTopology.of([]).devices == (CPU_DEVICE,)
    assert SystemTopology.of([]).backends == ()
    assert machine().devices == (CPU_DEVICE, NPU0, NPU1)
    assert machine().backends == (CPU, NPU)
    assert machine().generation == 7


def test_ten_devices_of_a_backend_come_in_the_order_of_their_ordinals() -> None:
    cards = [card(DeviceLocation(NPU, ordinal)) for ordinal in reversed(range(11))]
    topology = SystemTopology.of(cards)
    assert [device.ordinal for device in topology.devices[1:]] == list(range(11))
    assert [device.ordinal for device in topology.devices_for(NPU)] == list(reversed(range(11)))


def test_13_17_two_unequal_devices_of_one_backend_keep_their_own_capabilities() -> None:
    slow = dataclasses.replace(CARD1, compute_throughput_flops_per_ns=2.0)
    topology = SystemTopology.of([CARD0, slow, HOST], kernels=TABLE)
    assert topology.devices_for(NPU) == (NPU0, NPU1)
    assert topology.capabilities(NPU0) is CARD0
    assert topology.capabilities(NPU1) is slow
    assert topology.capabilities(SIM0) is None


def test_of_two_entries_for_one_device_the_first_wins() -> None:
    other = dataclasses.replace(CARD0, required_alignment=1)
    topology = SystemTopology.of([CARD0, other])
    assert topology.capabilities(NPU0) is CARD0
    assert topology.devices_for(NPU) == (NPU0,)


def test_a_device_may_run_kernels_of_another_backend_than_its_name_says() -> None:
    simulated = dataclasses.replace(HOST, device_location=SIM0)
    topology = SystemTopology.of([simulated, HOST], kernels=TABLE)
    assert topology.devices_for(CPU) == (SIM0, CPU_DEVICE)
    assert topology.backends_for(SIM0) == (CPU,)
    assert topology.devices_for(SIM) == ()
    assert topology.substrate_class(CPU, SIM0) == SubstrateClass.HostBytes


def test_what_is_unknown_has_nothing() -> None:
    assert machine().devices_for(SIM) == ()
    assert machine().backends_for(SIM0) == ()
    assert machine().binding_op_coverage(SIM) == frozenset()
    assert machine().substrate_class(SIM, SIM0) is None
    assert machine().substrate_class(NPU, CPU_DEVICE) is None


def test_a_backend_with_kernels_and_no_device_gets_its_first_one_when_asked_for() -> None:
    plain = SystemTopology.of([HOST], kernels=TABLE)
    assert (plain.backends, plain.devices_for(NPU)) == ((CPU,), ())
    assert plain.binding_op_coverage(NPU) == {(ADD, F32)}
    filled = SystemTopology.of([HOST], kernels=TABLE, default_devices=True)
    assert (filled.backends, filled.devices_for(NPU)) == ((CPU, NPU), (NPU0,))
    assert filled.devices == (CPU_DEVICE, NPU0)
    assert filled.substrate_class(NPU, NPU0) == NPU.default_substrate
    assert filled.capabilities(NPU0) is None


def test_what_is_advertised_without_a_kernel_is_told_in_order() -> None:
    boastful = dataclasses.replace(CARD0, op_dtype_support=frozenset({(MUL, F32), (ADD, F32), (ADD, DType.F16)}))
    topology = SystemTopology.of([boastful, HOST], kernels=TABLE)
    assert topology.capabilities_op_coverage_divergence() == ((NPU, ADD, DType.F16), (NPU, MUL, F32))
    assert machine().capabilities_op_coverage_divergence() == ()


def test_storage_is_shared_within_one_memory_of_one_kind_only() -> None:
    topology = machine()
    assert topology.shares_storage((CPU, CPU_DEVICE), (CPU, CPU_DEVICE))
    assert topology.shares_storage((NPU, NPU0), (NPU, NPU0))
    assert not topology.shares_storage((NPU, NPU0), (NPU, NPU1))
    assert not topology.shares_storage((NPU, NPU0), (CPU, CPU_DEVICE))
    assert not topology.shares_storage((SIM, SIM0), (SIM, SIM0))
    odd = dataclasses.replace(HOST, device_location=NPU0, storage_substrate=SubstrateClass("shadow"))
    both = SystemTopology.of([CARD0, odd], memories={NPU0: CPU_DEVICE})
    assert not both.shares_storage((NPU, NPU0), (CPU, CPU_DEVICE))


# --- what copies cost ---


def test_within_one_device_nothing_is_copied() -> None:
    assert machine().transfer_path(NPU0, NPU0) is TransferPath.SameDevice
    assert machine().route(NPU0, NPU0, 1 << 40) == Route()
    assert machine().estimate_transfer_ns(NPU0, NPU0, 1 << 40) == 0
    assert machine().transfer_estimate(NPU0, NPU0) == FREE


def test_devices_that_work_in_one_memory_need_no_copies_and_go_the_same_ways_from_there() -> None:
    simulated = dataclasses.replace(HOST, device_location=SIM0)
    topology = SystemTopology.of([CARD0, simulated, HOST], memories={SIM0: CPU_DEVICE})
    assert topology.memory_of(SIM0) == CPU_DEVICE
    assert topology.transfer_path(SIM0, CPU_DEVICE) is TransferPath.SharedMemory
    assert topology.route(SIM0, CPU_DEVICE, 1 << 30) == Route()
    assert topology.shares_storage((CPU, SIM0), (CPU, CPU_DEVICE))
    assert topology.route(NPU0, SIM0, 800) == Route((Hop(NPU0, CPU_DEVICE, 30_100),))


@pytest.mark.parametrize(
    ("source", "destination", "path", "figures"),
    [
        (NPU0, CPU_DEVICE, TransferPath.DeviceCopy, COPY),
        (NPU0, NPU1, TransferPath.Peer, PEER),
        (CPU_DEVICE, NPU0, TransferPath.HostStaging, STAGING),
        (NPU1, NPU0, TransferPath.HostStaging, STAGING),
        (NPU1, SIM0, TransferPath.HostStaging, STAGING),
    ],
)
def test_unmeasured_ways_have_the_figures_of_their_path_and_no_way_back_is_assumed(
    source: DeviceLocation, destination: DeviceLocation, path: TransferPath, figures: LinkEstimate
) -> None:
    assert machine().transfer_path(source, destination) is path
    assert machine().transfer_estimate(source, destination) == figures
    assert machine().estimate_transfer_ns(source, destination, 4_800) == pytest.approx(figures.copy_ns(4_800), abs=1)


def test_given_figures_of_a_link_replace_the_default_of_its_path_even_when_they_are_worse() -> None:
    measured = LinkEstimate(90_000.0, 1.0)
    topology = machine({(NPU0, NPU1): measured})
    assert topology.transfer_estimate(NPU0, NPU1) == measured
    assert topology.route(NPU0, NPU1, 1_000) == Route((Hop(NPU0, NPU1, 91_000),))


def test_between_devices_both_measured_ways_over_the_host_are_put_in_series() -> None:
    down, up = LinkEstimate(1_000.0, 6.0), LinkEstimate(2_000.0, 3.0)
    topology = machine({(NPU1, CPU_DEVICE): down, (CPU_DEVICE, NPU0): up})
    assert topology.transfer_estimate(NPU1, NPU0) == down.then(up)
    assert topology.route(NPU1, NPU0, 6_000) == Route((Hop(NPU1, CPU_DEVICE, 2_000), Hop(CPU_DEVICE, NPU0, 4_000)))


def test_one_measured_way_over_the_host_counts_and_the_other_is_assumed() -> None:
    topology = machine({(NPU1, CPU_DEVICE): LinkEstimate(500.0, 100.0)})
    expected = Route((Hop(NPU1, CPU_DEVICE, 508), Hop(CPU_DEVICE, NPU0, 30_100)))
    assert topology.route(NPU1, NPU0, 800) == expected
    assert topology.transfer_estimate(NPU1, NPU0).copy_ns(800) == expected.copy_ns


def test_a_way_advertised_as_staged_is_half_of_a_route_over_the_host_and_not_staged_twice() -> None:
    topology = SystemTopology.of([card(NPU0, (CPU_DEVICE, TransferPath.HostStaging)), CARD1])
    assert topology.estimate_transfer_ns(NPU0, NPU1, 4_000) == STAGING.copy_ns(4_000)
    assert topology.estimate_transfer_ns(NPU0, CPU_DEVICE, 4_000) == STAGING.copy_ns(4_000)


def test_a_path_advertised_to_a_device_leads_to_the_memory_it_works_in() -> None:
    topology = SystemTopology.of([CARD0, CARD1], memories={NPU1: SIM0})
    assert topology.transfer_path(NPU0, NPU1) is TransferPath.Peer
    assert topology.route(NPU0, NPU1, 0) == Route((Hop(NPU0, SIM0, 15_000),))


def test_a_slow_direct_link_is_gone_round_when_there_are_bytes_enough() -> None:
    topology = machine(
        {
            (NPU0, NPU1): LinkEstimate(1_000.0, 1.0),
            (NPU0, CPU_DEVICE): LinkEstimate(5_000.0, 10.0),
            (CPU_DEVICE, NPU1): LinkEstimate(5_000.0, 10.0),
        }
    )
    assert [len(topology.route(NPU0, NPU1, nbytes).hops) for nbytes in (0, 1_000, 100_000)] == [1, 1, 2]


def test_a_measured_link_is_not_left_for_ways_that_are_only_assumed() -> None:
    assert len(machine({(NPU1, NPU0): LinkEstimate(1.0, 0.1)}).route(NPU1, NPU0, 1 << 30).hops) == 1


ends = st.sampled_from([CPU_DEVICE, NPU0, NPU1, SIM0])
figures = st.builds(LinkEstimate, st.floats(0, 1e6), st.floats(1e-3, 1e3))


@given(st.dictionaries(st.tuples(ends, ends), figures), ends, ends, st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_route_always_exists_costs_no_more_than_the_estimate_and_never_less_for_more_bytes(
    links: dict[Pair, LinkEstimate], source: DeviceLocation, destination: DeviceLocation, few: int, more: int
) -> None:
    topology = machine(links)
    route = topology.route(source, destination, few)
    assert [source, *(hop.destination for hop in route.hops)][-1] == destination
    # Each hop is rounded down, and two in series are computed from one rounded bandwidth.
    assert route.copy_ns <= topology.transfer_estimate(source, destination).copy_ns(few) * (1 + 1e-9) + 1
    assert route.copy_ns <= topology.estimate_transfer_ns(source, destination, few + more)
    assert (route.copy_ns == 0) or source != destination


# --- deriving ---


def test_a_derived_topology_has_the_devices_given_and_publishes_nothing() -> None:
    heard: list[int] = []
    published, before = machine(), topology_generation()
    leave = on_topology_change(heard.append)
    simulated = dataclasses.replace(HOST, device_location=SIM0)
    links = {(CPU_DEVICE, SIM0): LinkEstimate(1.0, 1.0)}
    derived = published.derived([simulated], links=links)
    leave()
    assert derived.devices == (CPU_DEVICE, SIM0)
    assert derived.backends == (CPU,)
    assert derived.links == links
    assert derived.generation == published.generation
    assert derived.binding_op_coverage(CPU) == published.binding_op_coverage(CPU)
    assert published.devices == (CPU_DEVICE, NPU0, NPU1)
    assert (heard, topology_generation()) == ([], before)


def test_a_lost_device_and_its_links_are_left_out() -> None:
    stays = {(NPU1, CPU_DEVICE): LinkEstimate(2.0, 2.0)}
    left = machine({(CPU_DEVICE, NPU0): COPY, (NPU0, NPU1): PEER, **stays}).without(NPU0)
    assert left.devices == (CPU_DEVICE, NPU1)
    assert left.devices_for(NPU) == (NPU1,)
    assert left.links == stays
    assert left.transfer_path(NPU0, CPU_DEVICE) is TransferPath.HostStaging


def test_links_of_a_memory_that_another_device_works_in_stay() -> None:
    links = {(CPU_DEVICE, NPU0): COPY, (CPU_DEVICE, NPU1): COPY}
    two = SystemTopology.of([CARD0, CARD1, HOST], links=links, memories={NPU1: NPU0})
    assert two.without(NPU0).links == links
    assert two.without(NPU0).without(NPU1).links == {(CPU_DEVICE, NPU1): COPY}


def test_links_of_the_host_outlive_the_last_device_that_works_there() -> None:
    links = {(CPU_DEVICE, NPU0): COPY}
    simulated = dataclasses.replace(HOST, device_location=SIM0)
    topology = SystemTopology.of([CARD0, simulated], links=links, memories={SIM0: CPU_DEVICE})
    assert topology.without(SIM0).links == links


def test_what_was_given_may_change_afterwards() -> None:
    links, memories = {(NPU0, NPU1): PEER}, {NPU1: NPU0}
    topology = SystemTopology.of([CARD0, CARD1], links=links, memories=memories)
    links.clear()
    memories.clear()
    assert topology.links == {(NPU0, NPU1): PEER}
    assert topology.memory_of(NPU1) == NPU0


# --- the snapshot of a generation ---


class World:
    """Sources of a store that a test changes; `meanwhile` runs once, while they are read."""

    def __init__(self) -> None:
        self.generation = 0
        self.table = TABLE
        self.read = 0
        self.meanwhile: Callable[[], object] | None = None
        self.store = TopologyStore(lambda: self.generation, self._bindings, self._capabilities)

    def _bindings(self) -> KernelBindingTable:
        table, meanwhile = self.table, self.meanwhile
        self.meanwhile = None
        if meanwhile is not None:
            meanwhile()
        return table

    def _capabilities(self) -> CapabilityRegistry:
        self.read += 1
        return CapabilityRegistry([derive_backend_caps(CPU, CPU_DEVICE, self.table)])

    def extend(self) -> None:
        self.table = table_of(ADD, MUL)
        self.generation += 1

    def extend_and_bump_later(self) -> None:
        self.table = table_of(ADD, MUL)

    def bump(self) -> None:
        self.generation += 1


@pytest.fixture
def world() -> World:
    return World()


def test_a_snapshot_is_one_object_until_the_generation_moves_on(world: World) -> None:
    first = world.store.current()
    assert world.store.current() is first
    world.extend()
    second = world.store.current()
    assert (first.generation, second.generation) == (0, 1)
    assert first.binding_op_coverage(CPU) == {(ADD, F32)}
    assert second.binding_op_coverage(CPU) == {(ADD, F32), (MUL, F32)}


def test_peeking_never_makes_a_snapshot(world: World) -> None:
    assert world.store.peek() is None
    assert world.read == 0
    made = world.store.current()
    assert world.store.peek() is made
    world.extend()
    assert world.store.peek() is None
    assert world.read == 1


@pytest.mark.parametrize("change", [World.extend, World.extend_and_bump_later, World.bump])
def test_a_change_while_the_sources_are_read_makes_it_read_again(world: World, change: Callable[[World], None]) -> None:
    world.meanwhile = lambda: change(world)
    topology = world.store.current()
    assert world.read == 2
    assert topology.generation == world.generation
    assert (MUL, F32) in topology.binding_op_coverage(CPU) or world.table is TABLE
    assert topology.capabilities_op_coverage_divergence() == ()


def test_a_snapshot_never_gives_way_to_an_older_one(world: World) -> None:
    """A reader that was held up after reading finds that a later generation is there."""
    later: list[SystemTopology] = []

    def overtake() -> None:
        world.extend()
        later.append(world.store.current())

    def overtake_at_the_last_read() -> None:
        world.meanwhile = overtake

    world.meanwhile = overtake_at_the_last_read
    assert world.store.current() is later[0]
    assert world.store.peek() is later[0]
    assert later[0].generation == 1


def test_sources_that_ask_for_the_topology_do_not_wait_for_themselves(world: World) -> None:
    inner: list[SystemTopology] = []
    world.meanwhile = lambda: inner.append(world.store.current())
    assert world.store.current() is inner[0]


def test_threads_that_ask_at_once_get_one_object(world: World) -> None:
    barrier, found = threading.Barrier(4), list[SystemTopology]()

    def ask() -> None:
        barrier.wait(5)
        found.append(world.store.current())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


# --- the process's ---


def test_the_processes_topology_is_kept_until_it_is_refreshed() -> None:
    heard: list[int] = []
    first = SystemTopology.current()
    assert SystemTopology.current() is SystemTopology.peek() is first
    assert first.generation == topology_generation()
    leave = on_topology_change(heard.append)
    generation = SystemTopology.refresh()
    leave()
    assert heard == [generation]
    assert SystemTopology.peek() is None
    second = SystemTopology.current()
    assert second is not first
    assert second.generation == generation > first.generation


def test_the_process_has_the_host_and_a_kernel_for_all_it_advertises() -> None:
    topology = SystemTopology.current()
    assert topology.devices[0] == CPU_DEVICE
    assert CPU in topology.backends
    assert CPU_DEVICE in topology.devices_for(CPU)
    assert (ADD, F32) in topology.binding_op_coverage(CPU)
    assert [triple for triple in topology.capabilities_op_coverage_divergence() if triple[0] == CPU] == []


def test_readers_during_bumps_always_see_a_device_for_every_backend() -> None:
    stop, faults = threading.Event(), list[str]()

    def read() -> None:
        seen = 0
        while not stop.is_set():
            topology = SystemTopology.current()
            faults.extend(str(backend) for backend in topology.backends if not topology.devices_for(backend))
            if topology.generation < seen:
                faults.append(f"generation {topology.generation} after {seen}")
            seen = topology.generation

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for _ in range(50):
        bump_topology_generation()
    stop.set()
    for reader in readers:
        reader.join(5)
    assert faults == []
