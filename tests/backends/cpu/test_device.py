"""The host as a device: what it offers and what it makes."""

from __future__ import annotations

import gc
import os
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends import Absent, Device, DeviceInfo, OpenOptions
from fuel_async.backends.cpu import BACKEND
from fuel_async.backends.cpu import device as module
from fuel_async.backends.cpu.calibration import HOST
from fuel_async.backends.cpu.device import DEFAULT_BUDGET_SHARE, CpuDevice, HostMemory, discover, open_device
from fuel_async.dispatch import FitStatus
from fuel_async.errors import ExecutorClosed, OutOfMemory
from fuel_async.ir import CPU_DEVICE, BackendId, DType, OpKind
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from tests.streams.support import PATIENCE_S, Call, Gate, ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuel_async.dispatch import LaneProgram

INFO = DeviceInfo(CPU_DEVICE, "host", 1 << 30)


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    made = open_device(INFO, OpenOptions(lanes=2, memory_nbytes=1 << 20))
    yield made
    made.close()
    for lane in made.lanes:
        ended(lane)


def program_of(graph: fa.Graph, device: CpuDevice) -> LaneProgram:
    target = Target(global_bindings(), device.capabilities, device.rates)
    (region,) = make_plan(graph.freeze(), target).regions
    return region.program


@pytest.fixture
def program(device: CpuDevice) -> LaneProgram:
    g = fa.Graph("g")
    g.output("y", (g.input("x", (8,)).exp() + 1.0).tanh())
    return program_of(g, device)


# --- finding and opening ---


def test_the_host_is_found() -> None:
    found = discover()
    assert not isinstance(found, Absent)
    (info,) = found
    assert info.location == CPU_DEVICE
    assert info.name
    assert info.detail == f"{os.cpu_count()} cores"
    assert info.total_nbytes is None or info.total_nbytes > 1 << 26


def test_the_host_is_found_where_the_system_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError

    monkeypatch.setattr(os, "sysconf", fail)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    monkeypatch.setattr("builtins.open", fail)
    (info,) = discover()  # type: ignore[misc]
    assert (info.name, info.total_nbytes, info.detail) == ("host processor", None, "1 cores")
    assert module._available_nbytes() is None


def test_it_is_offered_as_a_backend(device: CpuDevice) -> None:
    assert BACKEND.backend == BackendId.CPU
    assert (BACKEND.discover, BACKEND.open) == (discover, open_device)
    opened: Device = device  # the protocol's members are there
    assert opened.location == CPU_DEVICE
    assert opened.info is INFO
    assert opened.slot_capacity == 2


def test_it_opens_as_many_lanes_as_are_asked_for(device: CpuDevice) -> None:
    assert [lane.name for lane in device.lanes] == ["cpu:0 lane 0", "cpu:0 lane 1"]
    assert all(lane.location == CPU_DEVICE for lane in device.lanes)
    assert len(open_device(INFO, OpenOptions()).lanes) == 1


def test_it_may_use_half_of_the_memory_unless_told_otherwise(device: CpuDevice) -> None:
    assert device.memory.budget_nbytes == 1 << 20
    assert open_device(INFO, OpenOptions()).memory.budget_nbytes == int((1 << 30) * DEFAULT_BUDGET_SHARE)
    unknown = DeviceInfo(CPU_DEVICE, "host", None)
    assert open_device(unknown, OpenOptions()).memory.budget_nbytes == 1 << 32


def test_it_knows_its_kernels_and_speeds(device: CpuDevice) -> None:
    caps = device.capabilities
    assert caps.device_location == CPU_DEVICE
    assert (OpKind.AddElementwise, DType.F32) in caps.op_dtype_support
    rates = device.rates
    assert rates is HOST.rates()
    assert (caps.compute_throughput_flops_per_ns, caps.mem_bandwidth_bytes_per_ns) == (
        rates.flops_per_ns,
        rates.bytes_per_ns,
    )
    assert (caps.dense_throughput_flops_per_ns, caps.launch_overhead_ns) == (rates.dense_flops_per_ns, rates.call_ns)


# --- memory ---


def test_memory_gives_arenas() -> None:
    arena = HostMemory(1 << 20).allocate(1_000)
    assert arena.nbytes == 1_000


@pytest.mark.parametrize("nbytes", [1 << 50, 1 << 62, 1 << 70])
def test_memory_that_the_system_does_not_have_is_refused_with_the_arithmetic(nbytes: int) -> None:
    with pytest.raises(OutOfMemory, match="the system refused") as caught:
        HostMemory(77).allocate(nbytes)
    assert (caught.value.wanted_nbytes, caught.value.budget_nbytes) == (nbytes, 77)
    assert caught.value.__cause__ is not None


def test_whether_an_allocation_fits(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_available_nbytes", lambda: 1 << 29)
    assert device.would_fit(1 << 10) is FitStatus.Comfortable
    assert device.would_fit((1 << 29) - 1) is FitStatus.Tight
    assert device.would_fit((1 << 29) + 1) is FitStatus.WontFit
    monkeypatch.setattr(module, "_available_nbytes", lambda: None)
    assert device.would_fit(1) is FitStatus.Unknown


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="the system does not say")
def test_what_the_system_caches_is_available() -> None:
    available = module._available_nbytes()
    assert available is not None
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemFree:"))
    assert available > free * 1_024 // 2


# --- instances and lanes ---


def test_a_program_is_made_ready_and_runs_on_a_lane(device: CpuDevice, program: LaneProgram) -> None:
    instance = device.instantiate(program, list(program.graph.constants.values()))
    x, y = np.linspace(-1, 1, 8, dtype=np.float32), np.empty(8, np.float32)
    timing = device.lanes[1].submit(instance, [x], [y]).wait(PATIENCE_S)
    assert np.allclose(y, np.tanh(np.exp(x) + 1))
    assert timing.lane == "cpu:0 lane 1"


def test_instances_share_an_arena_or_have_their_own(device: CpuDevice, program: LaneProgram) -> None:
    constants, arena = list(program.graph.constants.values()), device.memory.allocate(program.arena_nbytes)
    shared = [device.instantiate(program, constants, arena) for _ in range(2)]
    own = device.instantiate(program, constants)
    assert shared[0]._arena is shared[1]._arena is arena
    assert own._arena is not arena
    assert own._arena.nbytes == program.arena_nbytes


def test_an_arena_of_its_own_may_be_refused(
    device: CpuDevice, program: LaneProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(nbytes: int) -> None:
        raise MemoryError

    monkeypatch.setattr(module, "HostArena", fail)
    with pytest.raises(OutOfMemory):
        device.instantiate(program, list(program.graph.constants.values()))


def test_all_instances_of_a_program_share_one_history(device: CpuDevice, program: LaneProgram) -> None:
    """which goes with the program"""
    constants = list(program.graph.constants.values())
    one, other = (device.instantiate(program, constants) for _ in range(2))
    assert one.history is other.history
    assert one.predicted_ns == program.predicted_ns
    g = fa.Graph("g")
    g.output("y", g.input("x", (8,)).exp())
    third = device.instantiate(program_of(g, device), [])
    assert third.history is not one.history
    gone = weakref.ref(third.history)
    del third
    gc.collect()
    assert gone() is None


def test_instantiating_breathes(device: CpuDevice) -> None:
    g = fa.Graph("g")
    y = g.input("x", (8,))
    for _ in range(500):
        y = y + 1.0
    g.output("y", y)
    program, breaths = program_of(g, device), list[None]()
    device.instantiate(program, list(program.graph.constants.values()), breathe=lambda: breaths.append(None))
    assert len(breaths) >= 500 // 64


def test_work_is_counted_on_the_device(device: CpuDevice) -> None:
    before, gate = (device.pending_work_count(), device.pending_work_ns()), Gate()
    handle = device.lanes[0].submit(Call(gate, predicted_ns=5_000))
    assert (device.pending_work_count(), device.pending_work_ns()) == (before[0] + 1, before[1] + 5_000)
    gate.open()
    handle.wait(PATIENCE_S)
    assert (device.pending_work_count(), device.pending_work_ns()) == before


def test_closing_refuses_further_work_on_all_lanes(device: CpuDevice) -> None:
    device.lanes[0].submit(Call()).wait(PATIENCE_S)
    device.close()
    device.close()
    for lane in device.lanes:
        assert isinstance(lane.submit(Call()).exception(), ExecutorClosed)
