"""Streams as lanes: the laws of all lanes, events between streams, and work that the host holds."""

from __future__ import annotations

import gc
import threading
from itertools import pairwise
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.errors import Stopped
from fuel_async.streams import StopFlag, WaitStatus
from fuel_async.testing.cuda_double import DeviceModel
from tests.backends.grids.devices import PATIENCE_S, Elsewhere, Work, copied, put, values, wait_all
from tests.backends.grids.lane_laws import (  # noqa: F401
    test_a_closed_lane_finishes_what_it_has_and_takes_no_more,
    test_a_program_runs_and_tells_when,
    test_a_stopped_run_submits_nothing,
    test_a_system_without_threads_refuses_work,
    test_an_empty_array_is_copied_and_computed,
    test_an_error_reaches_other_lanes_that_wait_for_the_work,
    test_lanes_and_links_have_one_job_each,
    test_many_threads_submit_to_one_lane,
    test_work_behind_work_that_waits_stays_behind_it,
    test_work_of_one_lane_runs_in_its_order_without_waits_for_the_host,
    test_work_waits_for_what_the_driver_cannot_see,
    test_work_whose_input_failed_settles_with_that_error_and_blocks_nobody,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.device import CudaDevice
    from fuel_async.streams import CompletionHandle
    from tests.backends.cuda.support import Doubled


@pytest.fixture
def two_lanes(device: CudaDevice) -> CudaDevice:
    """Every device has two streams."""
    assert len(device.lanes) == 2
    return device


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_chain_is_on_its_streams_before_the_first_of_it_has_run(one: Doubled, lanes: int) -> None:
    """Each copies what the one before has written, on the same stream or by turns on two."""
    (device,) = one.devices
    arrays = [put(device, values(64)), *[put(device, np.zeros(64, np.float32)) for _ in range(8)]]
    instances = [device.instantiate(copied(device), []) for _ in range(8)]
    one.machine.hang(0)
    handles: list[CompletionHandle] = []
    for step, (instance, (source, target)) in enumerate(zip(instances, pairwise(arrays), strict=True)):
        handles.append(device.lanes[step % lanes].submit(instance, [source], [target], waits=handles[-1:]))
    assert [lane.pending_count for lane in device.lanes] == ([8, 0] if lanes == 1 else [4, 4])
    assert one.machine.counts().launches == 8
    one.machine.release(0)
    wait_all(handles)
    np.testing.assert_array_equal(arrays[-1].read(), values(64))


def test_nothing_is_launched_of_what_the_host_holds_or_was_stopped(one: Doubled) -> None:
    elsewhere, stop, (device,) = Elsewhere(), StopFlag(), one.devices
    stop.stopped = True
    held, stopped = Work(device), Work(device)
    handles = [held.submit([elsewhere.handle]), stopped.submit(stop=stop)]
    with pytest.raises(Stopped):
        handles[1].wait(PATIENCE_S)
    assert one.machine.counts().launches == 0
    elsewhere.end()
    handles[0].wait(PATIENCE_S)
    assert one.machine.counts().launches == 1


def test_a_closed_device_has_no_threads(device: CudaDevice) -> None:
    Work(device).submit().wait(PATIENCE_S)
    device.close()
    device.join(PATIENCE_S)
    assert not any(thread.name.startswith(f"fuel_async {device.location}") for thread in threading.enumerate())


def test_time_of_work_begins_when_what_it_waits_for_has_ended(make: Callable[..., Doubled]) -> None:
    """What is learned of a program is not the time of others: those it waited for, and those before it."""
    one = make([DeviceModel(kernel_s=0.05)])
    (device,) = one.devices
    works = [Work(device, seed) for seed in range(3)]
    first = works[0].submit()
    behind, beside = works[1].submit(), works[2].submit([first], lane=1)
    wait_all([first, behind, beside])
    end_ns = first.result().finished_ns
    for later in (behind.result(), beside.result()):
        assert later.submitted_ns < end_ns <= later.started_ns < later.finished_ns
        assert later.work_ns == later.finished_ns - later.started_ns


def test_devices_wait_for_each_other_without_the_host(make: Callable[..., Doubled]) -> None:
    both = make(2)
    works = [Work(device, seed) for seed, device in enumerate(both.devices)]
    both.machine.hang(0)
    first = works[0].submit()
    second = works[1].submit([first])
    assert both.machine.counts().launches == 2
    assert second.completion.wait(0.05) is WaitStatus.TIMEOUT
    both.machine.release(0)
    wait_all([first, second])
    assert [work.is_done for work in works] == [True, True]


def test_work_that_waits_for_held_work_elsewhere_waits_with_the_host(device: CudaDevice) -> None:
    elsewhere, first, second = Elsewhere(), Work(device), Work(device, 1)
    held = first.submit([elsewhere.handle])
    after = second.submit([held], lane=1)
    assert after.completion.wait(0.05) is WaitStatus.TIMEOUT
    elsewhere.end()
    wait_all([held, after])
    assert first.is_done
    assert second.is_done


def test_a_device_that_nobody_refers_to_ends_its_threads(make: Callable[..., Doubled]) -> None:
    one = make()
    work = Work(one.devices[0])
    work.submit().wait(PATIENCE_S)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("fuel_async cuda:0")]
    assert threads
    one.devices.clear()
    del work
    gc.collect()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def test_a_waiting_thread_burns_nothing(make: Callable[..., Doubled]) -> None:
    """Nor do the line's own and the watch, while a kernel runs."""
    one = make([DeviceModel(kernel_s=0.6)], deadline_s=8.0)
    work = Work(one.devices[0])
    before = process_time()
    handle = work.submit()
    began, own = perf_counter(), thread_time()
    assert handle.completion.wait(0.5) is WaitStatus.TIMEOUT
    assert perf_counter() - began >= 0.5
    assert thread_time() - own < 0.05
    assert process_time() - before < 0.2
    handle.wait(PATIENCE_S)


def test_events_are_used_again(one: Doubled) -> None:
    (device,) = one.devices
    work = Work(device)
    for _ in range(30):
        work.submit().wait(PATIENCE_S)
    events = device.context.events
    assert events.made == events.free_count == one.machine.counts().calls["eventCreateWithFlags"] <= 3


def test_threads_keep_the_device_that_they_had(make: Callable[..., Doubled]) -> None:
    """A caller's own CuPy goes on where it was; the threads of a device are bound to it for good."""
    both = make(2)
    runtime: Any = both.devices[0].context.runtime
    runtime.setDevice(1)
    works = [Work(device, seed) for seed, device in enumerate(both.devices)]
    wait_all([work.submit() for work in works])
    assert runtime.getDevice() == 1
    for call in both.machine.log:
        if call.thread.startswith("fuel_async cuda:"):
            assert call.device in (None, int(call.thread.removeprefix("fuel_async cuda:")[0]))
