"""The process's capabilities: snapshots, the derived host entry, and the bump of the generation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.dispatch import KernelBindingTable, OpParams, derive_backend_caps
from fuel_async.errors import RegistryMisuse
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, Layout, OpKind
from fuel_async.registry import (
    CapabilitiesStore,
    bump_topology_generation,
    global_bindings,
    global_registry,
    register_backend_capabilities,
    topology_generation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

ADD, MUL = OpKind.AddElementwise, OpKind.MulElementwise
F32 = (DType.F32, DType.F32, DType.F32)
NPU = BackendId("npu")
NPU0, NPU1 = DeviceLocation(NPU), DeviceLocation(NPU, 1)


def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
    raise AssertionError("the registry never calls a kernel")


def table_of(*ops: OpKind) -> KernelBindingTable:
    table = KernelBindingTable()
    for op in ops:
        table.register(op, F32, BackendId.CPU, kernel)
        table.register(op, F32, NPU, kernel)
    return table.finalize()


class World:
    """A capability store over a binding table that a test replaces, counting publications."""

    def __init__(self) -> None:
        self.table = table_of(ADD)
        self.published = 0
        self.store = CapabilitiesStore(lambda: self.table, self._publish)

    def _publish(self) -> None:
        self.published += 1


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_use_derives_the_hosts_capabilities_from_the_bindings(world: World) -> None:
    registry = world.store.snapshot()
    assert registry.backends() == (derive_backend_caps(BackendId.CPU, CPU_DEVICE, world.table),)
    assert registry.find_backend_for(ADD, DType.F32).device_location == CPU_DEVICE


def test_a_snapshot_is_immutable_and_stays_the_same_object_until_something_changes(world: World) -> None:
    registry = world.store.snapshot()
    assert world.store.snapshot() is registry
    with pytest.raises(RegistryMisuse, match="register_backend_capabilities"):
        registry.register(derive_backend_caps(NPU, NPU0, world.table))


def test_a_registration_is_visible_in_the_next_snapshot_and_not_in_a_held_one(world: World) -> None:
    held = world.store.snapshot()
    world.store.register(derive_backend_caps(NPU, NPU0, world.table))
    assert world.published == 1
    assert [caps.backend_id for caps in world.store.snapshot().backends()] == [NPU, BackendId.CPU]
    assert len(held) == 1


def test_two_devices_of_one_backend_are_both_kept_and_the_host_comes_last(world: World) -> None:
    slow = derive_backend_caps(NPU, NPU1, world.table, rates=(1.0, 1.0))
    world.store.register(derive_backend_caps(NPU, NPU0, world.table))
    world.store.register(slow)
    registry = world.store.snapshot()
    assert [caps.device_location for caps in registry.backends()] == [NPU0, NPU1, CPU_DEVICE]
    assert registry.for_device(NPU1) is slow


def test_the_hosts_capabilities_follow_an_extended_binding_table(world: World) -> None:
    before = world.store.snapshot()
    world.table = table_of(ADD, MUL)
    assert world.store.snapshot().find_backends(MUL, DType.F32)
    assert not before.find_backends(MUL, DType.F32)


def test_registered_host_capabilities_stand_in_for_the_derived_ones(world: World) -> None:
    derived = derive_backend_caps(BackendId.CPU, CPU_DEVICE, world.table)
    measured = dataclasses.replace(derived, compute_throughput_flops_per_ns=12.5)
    world.store.register(measured)
    assert world.store.snapshot().backends() == (measured,)


def test_every_pair_the_process_advertises_for_the_host_has_a_kernel() -> None:
    host = global_registry().for_device(CPU_DEVICE)
    assert host is not None
    bound = {(op, dtypes[-1]) for op, dtypes, backend in global_bindings().iter_keys() if backend == BackendId.CPU}
    assert host.op_dtype_support == bound


def test_registering_with_the_process_bumps_its_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = CapabilitiesStore(global_bindings, bump_topology_generation)
    monkeypatch.setattr("fuel_async.registry.capabilities._CAPABILITIES", fresh)
    lonely = BackendId("test_only")
    before = topology_generation()
    register_backend_capabilities(derive_backend_caps(lonely, DeviceLocation(lonely), KernelBindingTable()))
    assert topology_generation() == before + 1
    assert global_registry().for_device(DeviceLocation(lonely)) is not None
    assert global_registry().is_frozen
