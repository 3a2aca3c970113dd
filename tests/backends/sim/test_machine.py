"""Machines: what their devices are, and what may befall them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.sim import Links, SimDevice, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.errors import DeviceLost, ExecutorClosed
from fuel_async.ir import CPU_DEVICE, BackendId, DType, OpKind
from fuel_async.registry import inflight_count, topology_generation
from tests.backends.sim.support import Work, error_of, on, run, span

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from fuel_async.backends import Device

    Make = Callable[..., SimMachine]


def test_a_device_keeps_the_contract(device: SimDevice) -> None:
    held: Device = device
    caps = held.capabilities
    assert held.location == held.memory_location == caps.device_location == held.info.location
    assert held.location.backend == BackendId("sim")
    assert caps.backend_id == CPU_DEVICE.backend  # whose kernels it runs
    assert (OpKind.AddElementwise, DType.F32) in caps.op_dtype_support
    assert (caps.compute_throughput_flops_per_ns, caps.mem_bandwidth_bytes_per_ns) == (1.0, 10.0)
    assert (caps.dense_throughput_flops_per_ns, caps.launch_overhead_ns) == (10.0, None)
    assert caps.storage_substrate.name == "sim_bytes"
    assert (held.slot_capacity, len(held.lanes), held.lost) == (2, 2, None)
    assert held.info.total_nbytes == held.memory.budget_nbytes == 1 << 30


def test_ordinals_are_unique_in_the_process_and_nothing_is_published(make: Make) -> None:
    before = topology_generation()
    machines = [make(SimDeviceSpec(), SimDeviceSpec()) for _ in range(3)]
    locations = [device.location for machine in machines for device in machine.devices]
    assert len(set(locations)) == 6
    assert topology_generation() == before


def test_machines_may_share_a_clock(make: Make) -> None:
    clock = VirtualClock()
    one, other = (make(SimDeviceSpec(), clock=clock) for _ in range(2))
    handles = run(one.devices[0], 100), run(other.devices[0], 300)
    assert [span(handle) for handle in handles] == [(0, 100), (0, 300)]
    assert clock.now_ns() == 300


def test_equal_machines_take_the_same_course(make: Make) -> None:
    def course() -> list[tuple[int, int]]:
        machine = make(SimDeviceSpec(jitter=0.3), SimDeviceSpec(jitter=0.3, speed=2.0), seed=7)
        return [span(run(device, 1_000)) for _ in range(20) for device in machine.devices]

    assert course() == course()


# --- losing a device ---


def test_a_lost_device_settles_all_it_has_at_once(make: Make) -> None:
    machine = make(SimDeviceSpec(lanes=2), SimDeviceSpec(), links=Links.of(100.0, 10.0))
    a, b = machine.devices
    work = Work(a, 100)
    on_a, on_b = on(a, np.zeros(8)), on(b, np.zeros(8))
    handles = [
        a.lanes[0].submit(work),
        a.lanes[0].submit(work),
        a.lanes[1].submit(work, waits=[run(b, 1_000)]),
        machine.link(a, b).submit_copy(on_a, on_b),
        machine.link(CPU_DEVICE, a).submit_copy(np.zeros(8), on_a),
    ]
    between = machine.link(b, CPU_DEVICE).submit_copy(on_b, np.empty(8))
    machine.clock.advance_to(50)  # type: ignore[attr-defined]  # a virtual clock
    link = machine.link(a, b)
    machine.lose(a, "somebody tripped over the cable")
    assert all(handle.done() for handle in handles)
    later = [run(a), link.submit_copy(on_a, on_b)]
    for handle in (*handles, *later):
        error = error_of(handle)
        assert isinstance(error, DeviceLost)
        assert (error.device, error.reason) == (str(a.location), "somebody tripped over the cable")
    assert work.called_ns == []
    assert handles[0].exception() is not handles[0].exception()
    assert isinstance(a.lost, DeviceLost)
    assert inflight_count(a.location) == 0
    # the others go on
    assert b.lost is None
    assert span(between) == (0, 106)
    assert span(run(b, 100)) == (1_000, 1_100)
    assert {(link.source, link.destination) for link in machine.links} == {
        (b.location, CPU_DEVICE),
        (CPU_DEVICE, b.location),
    }
    assert machine.devices == (a, b)


def test_its_timing_says_how_long_it_ran(make: Make) -> None:
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    running, queued = run(device, 100), run(device, 100)
    machine.clock.advance_to(40)  # type: ignore[attr-defined]
    machine.lose(device)
    for handle, times in ((running, (0, 40)), (queued, (0, 40))):
        handle.add_done_callback(lambda done, times=times: check(done._timing, times))  # type: ignore[misc]
    assert device.lanes[0].busy_ns == 40


def check(timing: object, times: tuple[int, int]) -> None:
    assert timing is not None
    assert (timing.submitted_ns, timing.finished_ns) == times  # type: ignore[attr-defined]


def test_who_asked_is_told_of_the_loss_once_and_before_the_work_settles(make: Make) -> None:
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    told: list[str] = []
    handle = run(device, 100)
    handle.add_done_callback(lambda _: told.append("settled"))
    device.on_lost(lambda: told.append("lost" if device.lost is not None else "not yet"))
    end = device.on_lost(lambda: told.append("never"))
    end()
    end()
    machine.lose(device)
    machine.lose(device, "again")
    assert told == ["lost", "settled"]
    device.on_lost(lambda: told.append("late"))
    assert told == ["lost", "settled", "late"]
    assert "again" not in str(device.lost)


def test_who_is_told_may_raise(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    told: list[int] = []

    def raises() -> None:
        raise ArithmeticError("as told")

    device.on_lost(raises)
    device.on_lost(lambda: told.append(1))
    with caplog.at_level(logging.ERROR):
        machine.lose(device)
    assert told == [1]
    assert "as told" in caplog.text


def test_a_loss_may_be_told_in_the_middle_of_a_completion(make: Make) -> None:
    """what waits for the device's own work, and what is behind it, settles; nothing is settled twice"""
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    first, second = run(device, 100), run(device, 100)
    first.add_done_callback(lambda _: machine.lose(device))
    assert span(first) == (0, 100)
    assert isinstance(error_of(second), DeviceLost)


def test_a_device_is_lost_when_its_description_says(make: Make) -> None:
    machine = make(SimDeviceSpec(lost_at_ns=150))
    (device,) = machine.devices
    first, second = run(device, 100), run(device, 100)
    assert span(first) == (0, 100)
    assert isinstance(error_of(second), DeviceLost)
    assert machine.clock.now_ns() == 150


# --- failing, closing ---


def test_the_next_submission_fails_in_its_turn(make: Make) -> None:
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    before = run(device, 100)
    machine.fail_next(device, ArithmeticError("as told"))
    work = Work(device, 100)
    failing = device.lanes[0].submit(work)
    after = run(device, 100)
    assert not failing.done()
    assert span(before) == (0, 100)
    assert str(error_of(failing)) == "as told"
    assert work.called_ns == []
    assert span(after) == (100, 200)


def test_the_next_copy_fails(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=Links.of(100.0, 10.0))
    (device,) = machine.devices
    link, here = machine.link(CPU_DEVICE, device), on(device, np.zeros(8))
    machine.fail_next(link, ArithmeticError("as told"))
    assert str(error_of(link.submit_copy(np.ones(8), here))) == "as told"
    assert not here.any()
    assert error_of(link.submit_copy(np.ones(8), here)) is None
    assert here.all()


def test_a_closed_machine_ends_what_it_holds_and_takes_no_more(make: Make) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec())
    held = [run(device, 100) for device in machine.devices]
    machine.close()
    machine.close()
    assert [span(handle) for handle in held] == [(0, 100), (0, 100)]
    assert isinstance(error_of(run(machine.devices[0])), ExecutorClosed)


def test_texts_are_short(make: Make) -> None:
    machine = make(SimDeviceSpec(speed=4.0))
    assert repr(machine) == "<SimMachine of 1 devices on <VirtualClock at 0 ns, 0 to come>>"
    assert repr(machine.devices[0]).endswith(": speed 4, 1 lanes>")
