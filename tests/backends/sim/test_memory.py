"""The memory of simulated devices: counted while it lives, and known to be theirs."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fuel_async.backends.sim import SimDeviceSpec, SimMachine
from fuel_async.backends.sim.memory import Deeds, SimMemory
from fuel_async.dispatch import FitStatus
from fuel_async.errors import OutOfMemory, WrongSubstrate
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType

if TYPE_CHECKING:
    from collections.abc import Callable

HERE, THERE = DeviceLocation(BackendId("sim"), 1_000_000), DeviceLocation(BackendId("sim"), 1_000_001)


@pytest.fixture
def deeds() -> Deeds:
    return Deeds()


@pytest.fixture
def memory(deeds: Deeds) -> SimMemory:
    return SimMemory(HERE, 1_000, deeds)


def test_bytes_come_back_with_the_last_array_over_them(memory: SimMemory) -> None:
    array = memory.allocate_array((10, 10), DType.F32)
    assert (array.shape, array.dtype.name, memory.used_nbytes) == ((10, 10), "float32", 400)
    arena = memory.allocate(300)
    assert (arena.nbytes, memory.used_nbytes) == (300, 700)
    view = array[2:4, ::2]
    del array
    gc.collect()
    assert memory.used_nbytes == 700
    del view, arena
    gc.collect()
    assert memory.used_nbytes == 0


def test_what_does_not_fit_is_refused_with_the_arithmetic(memory: SimMemory) -> None:
    kept = memory.allocate_array((600,), DType.U8)
    for refused in (lambda: memory.allocate(401), lambda: memory.allocate_array((401,), DType.U8)):
        with pytest.raises(
            OutOfMemory, match=r"401 bytes do not fit .* 1,000 bytes, of which 600 are in use"
        ) as caught:
            refused()
        assert (caught.value.device, caught.value.wanted_nbytes, caught.value.budget_nbytes) == (str(HERE), 401, 1_000)
    assert memory.used_nbytes == 600
    assert memory.allocate(400).nbytes == 400
    del kept


def test_a_device_may_be_said_to_have_more_than_the_host(deeds: Deeds) -> None:
    memory = SimMemory(HERE, 1 << 62, deeds)
    with pytest.raises(OutOfMemory, match="the host refused"):
        memory.allocate(1 << 60)
    assert memory.used_nbytes == 0


def test_every_array_has_an_owner(deeds: Deeds, memory: SimMemory) -> None:
    other = SimMemory(THERE, 1_000, deeds)
    mine, theirs, hosts = memory.allocate_array((4,), DType.F32), other.allocate(64), np.zeros(4)
    assert deeds.owner(mine) == deeds.owner(mine[1:].reshape(3, 1).T) == HERE
    assert deeds.owner(theirs.block[8:16].view(np.float32)) == THERE
    assert deeds.owner(hosts) == deeds.owner(mine.copy()) == CPU_DEVICE
    deeds.check("feed", (mine, mine[:2]), HERE)
    with pytest.raises(WrongSubstrate, match=f"feed 1 lives on memory of {CPU_DEVICE}, wanted memory of {HERE}"):
        deeds.check("feed", (mine, hosts), HERE)


def test_an_array_without_elements_belongs_to_nobody(deeds: Deeds) -> None:
    deeds.check("feed", (np.empty((0, 3)), 7, None), HERE)


def test_a_new_array_at_the_place_of_an_old_one_is_not_taken_for_it(deeds: Deeds, memory: SimMemory) -> None:
    for _ in range(50):  # ids are reused at once
        array = memory.allocate_array((4,), DType.F32)
        assert deeds.owner(array) == HERE
        del array
        assert deeds.owner(np.zeros(4, np.float32)) == CPU_DEVICE
    assert memory.used_nbytes == 0
    assert deeds._owners == {}


def test_whether_an_allocation_fits(make: Callable[..., SimMachine]) -> None:
    device = make(SimDeviceSpec(memory_nbytes=1_000)).devices[0]
    kept = device.memory.allocate(500)
    assert device.would_fit(100) is FitStatus.Comfortable
    assert device.would_fit(450) is FitStatus.Tight
    assert device.would_fit(501) is FitStatus.WontFit
    del kept
    gc.collect()
    assert device.would_fit(501) is FitStatus.Comfortable
