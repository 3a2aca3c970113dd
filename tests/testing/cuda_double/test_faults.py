"""Errors end a device or only a call, where and when a test says, and devices hang until they are released."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.testing.cuda_double import RandomFaults, uninstall
from fuel_async.testing.cuda_double.statuses import STICKY, TEXTS
from tests.testing.cuda_double.support import LONG_S, Rig, bytes_at

if TYPE_CHECKING:
    from collections.abc import Callable

#: Calls that every device answers to, with what they need: each raises what ended the device.
CALLS: dict[str, Callable[[Rig, Any, Any, Any], Any]] = {
    "malloc": lambda rig, *_: rig.runtime.malloc(8),
    "hostAlloc": lambda rig, *_: rig.runtime.hostAlloc(8, 0),
    "memGetInfo": lambda rig, *_: rig.runtime.memGetInfo(),
    "setDevice": lambda rig, *_: rig.runtime.setDevice(0),
    "deviceSynchronize": lambda rig, *_: rig.runtime.deviceSynchronize(),
    "Stream": lambda rig, *_: rig.cupy.cuda.Stream(non_blocking=True),
    "Event": lambda rig, *_: rig.event(),
    "synchronize": lambda rig, stream, event, memory: stream.synchronize(),
    "record": lambda rig, stream, event, memory: stream.record(event),
    "wait_event": lambda rig, stream, event, memory: stream.wait_event(event),
    "event.synchronize": lambda rig, stream, event, memory: event.synchronize(),
    "begin_capture": lambda rig, stream, event, memory: stream.begin_capture(),
    "memset": lambda rig, stream, event, memory: memory.memset_async(0, 8, stream),
    "launch": lambda rig, stream, event, memory: rig.launch(stream, "note", 1),
    "compile": lambda rig, *_: rig.cupy.RawModule(code="// other").get_function("note"),
}


@pytest.mark.parametrize("name", CALLS)
def test_after_an_error_every_call_raises_it(rig: Rig, name: str) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(8)
    rig.launch(stream, "crash")
    stream.record(event)
    assert rig.status_of(event.synchronize) == 719
    for _ in range(2):
        assert rig.status_of(CALLS[name], rig, stream, event, memory) == 719
    assert rig.runtime.eventQuery(event.ptr) == rig.runtime.streamQuery(stream.ptr) == 719
    assert not event.done
    assert not stream.done
    assert isinstance(rig.machine.gpus[0].cause, RuntimeError)


def test_other_devices_go_on(rig: Rig) -> None:
    rig.launch(rig.stream(0), "crash")
    assert rig.status_of(rig.runtime.deviceSynchronize) == 719
    stream = rig.stream(1)
    rig.launch(stream, "note", 1)
    stream.synchronize()
    assert rig.noted == [1]


def test_what_was_to_come_after_an_error_does_not_run(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    rig.gate(stream)
    rig.launch(stream, "crash")
    rig.launch(stream, "note", 1)
    other.wait_event(stream.record(rig.event()))
    rig.launch(other, "note", 2)
    rig.gates.open()
    assert rig.status_of(other.synchronize) == 719
    assert rig.noted == []


def test_the_first_error_stays(rig: Rig) -> None:
    rig.stream()
    rig.machine.inject_error(0, 214)
    rig.machine.inject_error(0, 700)
    assert rig.status_of(rig.runtime.deviceSynchronize) == 214


def test_memory_of_a_device_that_ended_is_given_back(rig: Rig) -> None:
    stream, memory, event = rig.stream(), rig.memory(8), rig.event()
    rig.launch(stream, "crash")
    assert rig.status_of(stream.synchronize) == 719
    del stream, memory, event
    assert not rig.machine.leaks()


# --- where faults strike ----------------------------------------------------------------------------------------------


def test_a_fault_at_a_launch_strikes_when_it_runs(rig: Rig) -> None:
    stream = rig.stream()
    rig.gate(other := rig.stream())
    stream.wait_event(other.record(rig.event()))
    rig.machine.inject_error(0, 700, at="launch", after=1)
    for number in (1, 2, 3):
        rig.launch(stream, "note", number)
    rig.gates.open()
    assert rig.status_of(stream.synchronize) == 700
    assert rig.noted == [1]


def test_a_fault_at_a_launch_that_ends_no_device_strikes_in_the_call(rig: Rig) -> None:
    stream = rig.stream()
    rig.machine.inject_error(0, 1, at="launch")
    assert rig.status_of(rig.launch, stream, "note", 1) == 1
    rig.launch(stream, "note", 2)
    stream.synchronize()
    assert rig.noted == [2]


def test_a_fault_at_a_copy_leaves_the_bytes_as_they_were(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(4)
    pinned, _ = rig.pinned(np.zeros(4, np.uint8))
    rig.machine.inject_error(0, 214, at="copy")
    rig.runtime.memcpyAsync(memory.ptr, pinned.ptr, 4, 1, stream.ptr)
    assert rig.status_of(stream.synchronize) == 214
    assert bytes_at(memory.ptr, 4) == b"\xcd" * 4


@pytest.mark.parametrize("status", [2, 700])
@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("malloc", lambda rig, stream, event: rig.runtime.malloc(8)),
        ("pinned", lambda rig, stream, event: rig.runtime.hostAlloc(8, 0)),
        ("event", lambda rig, stream, event: rig.event()),
        ("event", lambda rig, stream, event: stream.record(event)),
        ("sync", lambda rig, stream, event: stream.synchronize()),
        ("sync", lambda rig, stream, event: event.synchronize()),
        ("sync", lambda rig, stream, event: rig.runtime.deviceSynchronize()),
        ("stream", lambda rig, stream, event: rig.cupy.cuda.Stream(non_blocking=True)),
        ("compile", lambda rig, stream, event: rig.cupy.RawModule(code="// other").get_function("note")),
        ("capture", lambda rig, stream, event: stream.begin_capture()),
    ],
)
def test_faults_in_calls(rig: Rig, place: Any, call: Any, status: int) -> None:
    stream, event = rig.stream(), rig.event()
    rig.machine.inject_error(0, status, at=place, times=2)
    assert rig.status_of(call, rig, stream, event) == status
    assert rig.status_of(call, rig, stream, event) == status
    is_sticky = status in STICKY
    assert rig.machine.gpus[0].status == (status if is_sticky else 0)
    assert rig.status_of(call, rig, stream, event) == (status if is_sticky else 0)
    if stream.ptr in rig.machine.streams and place == "capture" and not is_sticky:
        stream.end_capture()


def test_faults_keep_to_their_device(rig: Rig) -> None:
    rig.machine.inject_error(1, 2, at="malloc")
    rig.cupy.cuda.Device(0).use()
    rig.memory(8)
    rig.cupy.cuda.Device(1).use()
    assert rig.status_of(rig.memory, 8) == 2
    rig.memory(8)


def random_course(seed: int) -> list[int]:
    rig = Rig.of(1)
    rig.machine.inject_random(RandomFaults(seed, 0.2, (2, 46), frozenset({"malloc"})))
    course = [rig.status_of(rig.memory, 8) for _ in range(200)]
    uninstall()
    return course


def test_random_faults_follow_from_their_seed() -> None:
    course = random_course(1)
    assert course == random_course(1)
    assert course != random_course(2)
    assert 10 < sum(status != 0 for status in course) < 80
    assert set(course) == {0, 2, 46}


def test_every_status_that_ends_a_device_has_a_text() -> None:
    assert TEXTS.keys() >= STICKY


# --- devices that hang, and none --------------------------------------------------------------------------------------


def test_a_device_that_hangs_does_nothing_until_it_is_released(rig: Rig) -> None:
    stream, other = rig.stream(0), rig.stream(1)
    rig.machine.hang(0)
    rig.launch(other, "note", 1)
    other.synchronize()
    rig.cupy.cuda.Device(0).use()
    rig.launch(stream, "note", 2)
    event = stream.record(rig.event())
    assert rig.runtime.eventQuery(event.ptr) == 600
    rig.machine.release(0)
    event.synchronize()
    assert rig.noted == [1, 2]


def test_the_end_of_the_machine_frees_who_waits_for_a_device_that_hangs() -> None:
    rig = Rig.of(1)
    stream = rig.stream()
    rig.machine.hang(0)
    rig.launch(stream, "note", 1)
    event, statuses = stream.record(rig.event()), []
    thread = threading.Thread(target=lambda: statuses.append(rig.status_of(event.synchronize)))
    thread.start()
    uninstall()
    thread.join(LONG_S)
    assert statuses == [4]
    assert rig.noted == []


@pytest.mark.parametrize(("devices", "absence", "status"), [(0, None, 35), (0, 100, 100), (2, 100, 100)])
def test_a_machine_without_driver_or_device(devices: int, absence: int | None, status: int) -> None:
    rig = Rig.of(devices, absence=absence)
    assert not rig.cupy.cuda.is_available()
    assert rig.status_of(rig.runtime.getDeviceCount) == status
    assert rig.status_of(rig.event) == status
    assert rig.status_of(rig.cupy.cuda.Stream) == status
    assert rig.status_of(rig.memory, 8) == status
    assert rig.runtime.driverGetVersion() == (0 if status == 35 else 12090)
