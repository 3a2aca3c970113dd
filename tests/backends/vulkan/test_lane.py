"""Queues as lanes: the laws of all lanes, gates, siblings, and timelines."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.vulkan.gates import Gates
from fuel_async.backends.vulkan.timeline import Point, Timeline
from fuel_async.streams import WaitStatus
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
from tests.backends.vulkan.support import FaultyLib, Opened, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuel_async.backends.vulkan.device import VulkanDevice


@pytest.fixture
def device(make: Callable[..., VulkanDevice], staged: bool) -> VulkanDevice:
    """Each driver, with gates on the queue and with work held by the host."""
    return make(staged=staged)


def test_a_repeated_run_records_nothing_and_allocates_nothing(device: VulkanDevice) -> None:
    work = Work(device)
    work.submit().wait(PATIENCE_S)
    used, reserved = device.memory.used_nbytes, device.memory.reserved_nbytes
    for _ in range(20):
        work.submit().wait(PATIENCE_S)
    assert work.instance.recordings == 1
    assert (device.memory.used_nbytes, device.memory.reserved_nbytes) == (used, reserved)


def test_other_arrays_are_recorded_beside_and_the_oldest_makes_room(device: VulkanDevice) -> None:
    work = Work(device)
    targets = [put(device, np.zeros(64, np.float32)) for _ in range(6)]
    for target in (*targets, *targets[-2:]):
        device.lanes[0].submit(work.instance, [work.x], [target]).wait(PATIENCE_S)
        np.testing.assert_array_equal(target.read(), work.expected)
    assert work.instance.recordings == 4


def test_a_waiting_thread_burns_nothing(device: VulkanDevice) -> None:
    """Nor does the lane's own, while a gate is shut."""
    elsewhere, work = Elsewhere(), Work(device)
    work.submit().wait(PATIENCE_S)
    before = process_time()
    handle = work.submit([elsewhere.handle])
    began, own = perf_counter(), thread_time()
    assert handle.completion.wait(0.5) is WaitStatus.TIMEOUT
    assert perf_counter() - began >= 0.5
    assert thread_time() - own < 0.05
    assert process_time() - before < 0.2
    elsewhere.end()
    handle.wait(PATIENCE_S)


def test_a_timeline_tells_reached_from_timeout(device: VulkanDevice) -> None:
    timeline = Timeline(device.context)
    waiter, point = timeline.waiter(), Point(timeline, None)
    point.value = 2
    assert timeline.signal(1) == 0
    assert (waiter.reached(), waiter.wait(1, 0), waiter.wait(2, 1_000_000)) == (
        1,
        WaitStatus.REACHED,
        WaitStatus.TIMEOUT,
    )
    assert point.wait(0.01) is WaitStatus.TIMEOUT
    assert timeline.signal(2) == 0
    assert point.wait(0) is WaitStatus.REACHED


def test_gates_open_as_far_as_all_before_are_open(device: VulkanDevice) -> None:
    gates = Gates(device.context)
    waiter = gates.timeline.waiter()
    first, second, third = [gates.make() for _ in range(3)]
    gates.open(second)
    assert waiter.reached() == 0
    gates.open(first)
    assert waiter.reached() == second.value
    gates.open_all()
    assert waiter.reached() == third.value


def two_queues(driver_name: str) -> Opened:
    """A device that is said to have two queues: both are the one that there is."""
    lib = FaultyLib()

    def create(real: Any, physical: Any, info: Any, *rest: Any) -> Any:
        info.pQueueCreateInfos.queueCount = 1
        return real(physical, info, *rest)

    lib.instead["vkCreateDevice"] = create
    lib.instead["vkGetDeviceQueue"] = lambda real, device, family, number, found: real(device, family, 0, found)
    return opened(driver_name, lib, families=2)


@pytest.fixture
def two_lanes(driver_name: str) -> Iterator[VulkanDevice]:
    """The device of `two_queues`."""
    one = two_queues(driver_name)
    yield one.device
    one.close()


def test_queues_of_one_device_wait_for_each_other_without_the_host(driver_name: str) -> None:
    """A chain that changes queues at each step, put there before the first of it has run."""
    one = two_queues(driver_name)
    device, elsewhere = one.device, Elsewhere()
    assert [lane.name for lane in device.lanes] == ["vulkan:0 queue 0", "vulkan:0 queue 1"]
    program = copied(device)
    arrays = [put(device, values(64)), *[put(device, np.zeros(64, np.float32)) for _ in range(6)]]
    handles = [elsewhere.handle]
    for step, (source, target) in enumerate(pairwise(arrays)):
        instance = device.instantiate(program, [])
        handles.append(device.lanes[step % 2].submit(instance, [source], [target], waits=handles[-1:]))
    assert [lane.pending_count for lane in device.lanes] == [3, 3]
    elsewhere.end()
    wait_all(handles)
    np.testing.assert_array_equal(arrays[-1].read(), values(64))
    one.close()


def test_a_submission_waits_for_what_other_queues_were_seen_at(driver_name: str) -> None:
    """Their writes are not visible otherwise, though the host knows that they have ended."""
    one = two_queues(driver_name)
    device = one.device
    first, second = device.lanes
    submission = second._submission
    assert submission.fill(device.context.ffi.NULL, 1, (), None).waitSemaphoreCount == 0
    for _ in range(3):
        Work(device).submit().wait(PATIENCE_S)
    info = submission.fill(device.context.ffi.NULL, 1, (), None)
    assert (info.waitSemaphoreCount, info.pWaitSemaphores[0]) == (1, first.timeline.handle)
    assert submission._values[1] == first.timeline.seen == 3
    work = Work(device, 1)
    work.submit(lane=1).wait(PATIENCE_S)
    assert work.is_done
    one.close()
