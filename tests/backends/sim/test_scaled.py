"""Machines in scaled real time: threads that compute, a thread that keeps the time, and what becomes of them."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import weakref
from time import thread_time_ns
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fuel_async.backends.sim import Links, ScaledClock, SimDeviceSpec, SimMachine
from fuel_async.errors import DeviceError, DeviceLost
from fuel_async.ir import CPU_DEVICE
from fuel_async.registry import inflight_count
from tests.backends.sim.support import PATIENCE_S, Work, error_of, on, run, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuel_async.backends.sim import SimDevice
    from fuel_async.streams import CompletionHandle

    Make = Callable[..., SimMachine]

#: Simulated times of the order of a second pass in a millisecond.
SCALE = 1_000.0

S = 10**9


class Gate:
    """A piece of work that waits to be let through."""

    def __init__(self) -> None:
        self._entered, self._opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._entered.set()
        if not self._opened.wait(PATIENCE_S):
            raise TimeoutError("nobody opened the gate")

    def entered(self) -> None:
        """Wait until a thread stands in the gate."""
        assert self._entered.wait(PATIENCE_S)

    def open(self) -> None:
        """Let it through."""
        self._opened.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    one = Gate()
    yield one
    one.open()


def ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("fuel_async")}


def gated(device: SimDevice, gate: Gate, cost_ns: int = 1) -> CompletionHandle:
    return device.lanes[0].submit(Work(device, cost_ns, gate))


# --- time ---


def test_queued_work_follows_without_a_gap_whatever_the_threads_are_late_by(make: Make) -> None:
    machine = make(SimDeviceSpec(slowdowns=((0, math.inf),)), clock=ScaledClock(SCALE))
    (device,) = machine.devices
    work = [Work(device, S) for _ in range(6)]
    handles = [device.lanes[0].submit(one) for one in work]
    machine.slow(device, 1.0)
    spans = [span(handle) for handle in handles]
    assert [end - start for start, end in spans[1:]] == [S] * 5
    assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]


def test_arithmetic_that_takes_longer_makes_the_end_later(make: Make) -> None:
    (device,) = make(SimDeviceSpec(), clock=ScaledClock(SCALE)).devices

    def busy() -> None:
        until_ns = thread_time_ns() + 2_000_000
        while thread_time_ns() < until_ns:
            pass

    handle = device.lanes[0].submit(Work(device, 1, busy))
    start, end = span(handle)
    assert end - start >= 2_000_000 * SCALE


def test_nothing_settles_before_its_arithmetic_is_through(make: Make, gate: Gate) -> None:
    (device,) = make(SimDeviceSpec(), clock=ScaledClock(SCALE)).devices
    handle = gated(device, gate)
    gate.entered()
    elapsed = threading.Event()
    device.clock.call_at(device.clock.now_ns() + 1, elapsed.set)
    assert elapsed.wait(PATIENCE_S)  # so its time is over, too
    assert not handle.done()
    gate.open()
    assert error_of(handle) is None


def test_results_and_copies_are_there_when_their_handles_settle(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=Links.of(S / 10, 1.0), clock=ScaledClock(SCALE))
    (device,) = machine.devices
    there, back = machine.link(CPU_DEVICE, device), machine.link(device, CPU_DEVICE)
    given, here, result = np.arange(9.0), on(device, np.zeros(9)), np.zeros(9)
    first = there.submit_copy(given, here)

    def double() -> None:
        here[...] *= 2

    second = device.lanes[0].submit(Work(device, S, double), waits=[first])
    back.submit_copy(here, result, [second]).wait(PATIENCE_S)
    assert np.array_equal(result, 2 * given)


def test_a_kernel_that_fails_fails_its_handle_and_no_thread(make: Make) -> None:
    def fail() -> None:
        raise ArithmeticError("as told")

    (device,) = make(SimDeviceSpec(), clock=ScaledClock(SCALE)).devices
    assert str(error_of(device.lanes[0].submit(Work(device, 1, fail)))) == "as told"
    assert error_of(run(device)) is None


async def test_any_loop_may_await_it(make: Make) -> None:
    (device,) = make(SimDeviceSpec(), clock=ScaledClock(SCALE)).devices
    handles = [run(device, S) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        timings = [await handle for handle in handles]
    assert [timing.work_ns for timing in timings] == [S] * 3


# --- losing ---


def test_what_is_computed_when_the_device_is_lost_settles_when_its_buffers_are_free(make: Make, gate: Gate) -> None:
    machine = make(SimDeviceSpec(), clock=ScaledClock(SCALE))
    (device,) = machine.devices
    running, queued = gated(device, gate, 10**6 * S), run(device)
    gate.entered()
    machine.lose(device, "as told")
    assert isinstance(error_of(queued), DeviceLost)
    assert not running.done()
    gate.open()
    assert isinstance(error_of(running), DeviceLost)


def test_what_was_computed_before_settles_at_once(make: Make) -> None:
    machine, done = make(SimDeviceSpec(), clock=ScaledClock(SCALE)), threading.Event()
    (device,) = machine.devices
    running = device.lanes[0].submit(Work(device, 10**6 * S, done.set))
    assert done.wait(PATIENCE_S)
    machine.lose(device, "as told")
    assert isinstance(error_of(running), DeviceLost)


def test_a_device_slows_down_and_recovers_while_it_works(make: Make) -> None:
    machine, done = make(SimDeviceSpec(), clock=ScaledClock(SCALE)), threading.Event()
    (device,) = machine.devices
    running = device.lanes[0].submit(Work(device, 10**6 * S, done.set))
    assert done.wait(PATIENCE_S)
    machine.slow(device, math.inf)
    assert not running.done()
    machine.slow(device, 1e-9)
    start, end = span(running)
    assert end - start < 10**6 * S


# --- threads that die ---


def die() -> None:
    raise MemoryError("as told")


def test_a_clock_that_dies_settles_everything_and_refuses_from_then_on(make: Make) -> None:
    clock = ScaledClock(SCALE)
    machine = make(SimDeviceSpec(lanes=2), SimDeviceSpec(), clock=clock, links=Links.of(10**6 * S, 1.0))
    a, b = machine.devices
    handles = [run(a, 10**6 * S), run(a, 1), run(b, 10**6 * S)]
    handles.append(machine.link(a, b).submit_copy(on(a, np.zeros(1)), on(b, np.zeros(1))))
    handles.append(a.lanes[1].submit(Work(a), waits=[handles[2]]))
    clock.call_at(0, die)
    for handle in handles:
        error = error_of(handle)
        assert isinstance(error, DeviceError)
        assert "its thread died of MemoryError: as told" in str(error)
    for device in (a, b):
        assert "its thread died" in str(device.lost)
        assert "its thread died" in str(error_of(run(device)))
    assert isinstance(error_of(run(machine.add(SimDeviceSpec()))), DeviceLost)


def test_a_lane_whose_thread_dies_takes_the_machine_with_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec(), clock=ScaledClock(SCALE))
    a, b = machine.devices
    other = run(b, 10**6 * S)
    heard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", heard.append)
    monkeypatch.setattr(a.lanes[0], "_part_ended", lambda *_: die())
    handle = run(a, 10**6 * S)
    for settled in (handle, other):
        error = error_of(settled)
        assert isinstance(error, DeviceError)
        assert f"the thread of {a.location} lane 0 died of MemoryError: as told" in str(error)
    a.lanes[0].join(PATIENCE_S)
    assert len(heard) == 1


def test_a_system_without_threads_loses_the_lane(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = make(SimDeviceSpec(), clock=ScaledClock(SCALE)).devices

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert isinstance(error_of(run(device)), DeviceLost)
        with pytest.raises(DeviceLost, match="can't start new thread"):
            SimMachine([], clock=ScaledClock())
    assert error_of(run(device)) is None


# --- leaving nothing behind ---


def test_a_closed_machine_leaves_no_thread() -> None:
    before = ours()
    machine = SimMachine([SimDeviceSpec(lanes=2)] * 2, clock=ScaledClock(SCALE), links=Links.of(1.0, 1.0))
    a, b = machine.devices
    held = [lane.submit(Work(a, S)) for lane in a.lanes]
    held.append(machine.link(a, b).submit_copy(on(a, np.zeros(1)), on(b, np.zeros(1))))
    assert len(ours() - before) == 4  # two lanes, a link, the clock
    machine.close()
    for handle in held:
        handle.wait(PATIENCE_S)
    for thread in ours() - before:
        thread.join(PATIENCE_S)
    assert ours() <= before
    assert [inflight_count(device.location) for device in (a, b)] == [0, 0]
    assert [device.memory.used_nbytes for device in (a, b)] == [0, 0]


def test_a_machine_that_is_forgotten_leaves_no_thread() -> None:
    before = ours()
    machine = SimMachine([SimDeviceSpec()], clock=ScaledClock(SCALE))
    run(machine.devices[0], 1).wait(PATIENCE_S)
    started, gone = ours() - before, weakref.ref(machine)
    assert len(started) == 2
    del machine
    gc.collect()
    assert gone() is None
    for thread in started:
        thread.join(PATIENCE_S)
    assert ours() <= before
