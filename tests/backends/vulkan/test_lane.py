"""Queues as lanes: order, gates, siblings, and what becomes of work whose inputs failed."""

from __future__ import annotations

import threading
from itertools import pairwise
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.vulkan.gates import Gates
from fuel_async.backends.vulkan.timeline import Point, Timeline
from fuel_async.errors import ExecutorClosed, InternalError, KernelFailed, Stopped
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.streams import CompletionHandle, HostSignal, StopFlag, Timing, WaitStatus
from tests.backends.vulkan.support import PATIENCE_S, FaultyLib, Opened, copied, opened, put, values, wait_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice


@pytest.fixture
def device(make: Callable[..., VulkanDevice], staged: bool) -> VulkanDevice:
    """Each driver, with gates on the queue and with work held by the host."""
    return make(staged=staged)


TIMING = Timing(CPU_DEVICE, "elsewhere", 0, 0, 0, 0)


class Elsewhere:
    """Work of somebody else's that ends when it is told to."""

    def __init__(self) -> None:
        self._signal = HostSignal()
        self.handle = CompletionHandle(self._signal, CPU_DEVICE, "elsewhere", 0)

    def end(self, error: BaseException | None = None) -> None:
        self._signal.set()
        self.handle.settle(TIMING, error)


class Work:
    """A copy program with its arrays."""

    def __init__(self, device: VulkanDevice, seed: int = 0, count: int = 64) -> None:
        self.device, self.expected = device, values(count, seed)
        self.instance = device.instantiate(copied(device, (count,)), [])
        self.x = put(device, self.expected)
        self.y = put(device, np.zeros(count, np.float32))

    def submit(self, waits: Any = (), lane: int = 0, **more: Any) -> CompletionHandle:
        return self.device.lanes[lane].submit(self.instance, [self.x], [self.y], waits=waits, **more)

    @property
    def is_done(self) -> bool:
        return bool((self.y.read() == self.expected).all())


def test_a_program_runs_and_tells_when(device: VulkanDevice) -> None:
    work = Work(device)
    timing = work.submit().wait(PATIENCE_S)
    assert work.is_done
    assert (timing.device, timing.lane) == (device.location, device.lanes[0].name)
    assert timing.submitted_ns <= timing.started_ns <= timing.finished_ns
    assert device.lanes[0].busy_ns >= timing.work_ns > 0
    assert (inflight_count(device.location), pending_ns(device.location)) == (0, 0)


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


def test_work_of_one_lane_runs_in_its_order_without_waits_for_the_host(device: VulkanDevice) -> None:
    """Each copies what the one before has written."""
    program, arrays = (
        copied(device),
        [put(device, values(64)), *[put(device, np.zeros(64, np.float32)) for _ in range(8)]],
    )
    handles: list[CompletionHandle] = []
    for source, target in pairwise(arrays):
        instance = device.instantiate(program, [])
        handles.append(device.lanes[0].submit(instance, [source], [target], waits=handles[-1:]))
    wait_all(handles)
    np.testing.assert_array_equal(arrays[-1].read(), values(64))
    ends = [handle.result().finished_ns for handle in handles]
    assert ends == sorted(ends)


def test_work_waits_behind_a_gate_for_what_the_queue_cannot_see(device: VulkanDevice) -> None:
    elsewhere, work = Elsewhere(), Work(device)
    handle = work.submit([elsewhere.handle])
    assert device.lanes[0].pending_count == 1
    assert handle.completion.wait(0.05) is WaitStatus.TIMEOUT
    assert not work.is_done
    threading.Thread(target=elsewhere.end).start()
    handle.wait(PATIENCE_S)
    assert work.is_done


def test_gates_that_are_free_out_of_order_let_work_run_in_order(device: VulkanDevice) -> None:
    first, second = Elsewhere(), Elsewhere()
    works = [Work(device, seed) for seed in range(3)]
    handles = [works[0].submit([first.handle]), works[1].submit([second.handle]), works[2].submit()]
    second.end()
    assert handles[1].completion.wait(0.05) is WaitStatus.TIMEOUT
    first.end()
    wait_all(handles)
    assert [work.is_done for work in works] == [True, True, True]


@pytest.mark.parametrize("already", [True, False])
def test_work_whose_input_failed_settles_with_that_error_and_blocks_nobody(device: VulkanDevice, already: bool) -> None:
    elsewhere, work, next_one, after = Elsewhere(), Work(device), Work(device), Work(device, 1)
    if already:
        elsewhere.end(KernelFailed("node", "cpu:0", "no"))
    handle = work.submit([elsewhere.handle])
    behind = next_one.submit([handle])
    other = after.submit()
    elsewhere.end(KernelFailed("node", "cpu:0", "no"))
    for failed in (handle, behind):
        with pytest.raises(KernelFailed, match="node failed on cpu:0"):
            failed.wait(PATIENCE_S)
    other.wait(PATIENCE_S)
    assert after.is_done
    assert device.lanes[0].pending_count == 0


def test_a_stopped_run_submits_nothing(device: VulkanDevice) -> None:
    stop, work = StopFlag(), Work(device)
    stop.stopped = True
    with pytest.raises(Stopped):
        work.submit(stop=stop).wait(PATIENCE_S)
    assert not work.is_done


def test_a_closed_lane_finishes_what_it_has_and_takes_no_more(device: VulkanDevice) -> None:
    elsewhere, work = Elsewhere(), Work(device)
    held = work.submit([elsewhere.handle])
    device.close()
    with pytest.raises(ExecutorClosed):
        Work(device).submit().wait(PATIENCE_S)
    elsewhere.end()
    held.wait(PATIENCE_S)
    device.lanes[0].join(PATIENCE_S)
    assert not any(thread.name.endswith(device.lanes[0].name) for thread in threading.enumerate())


def test_lanes_and_links_have_one_job_each(device: VulkanDevice) -> None:
    link = device.copy_lane(CPU_DEVICE, device.location)
    assert link is not None
    with pytest.raises(InternalError, match="copies and runs nothing"):
        link.submit(None)
    with pytest.raises(InternalError, match="copies go over the lanes"):
        device.lanes[0].submit_copy(None, None)
    assert device.copy_lane(device.location, device.location) is None


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


def test_many_threads_submit_to_one_lane(device: VulkanDevice) -> None:
    works = [Work(device, seed) for seed in range(4)]
    handles: list[CompletionHandle] = []

    def submit(work: Work) -> None:
        for _ in range(50):
            handle = work.submit()
            handle.wait(PATIENCE_S)
            handles.append(handle)

    threads = [threading.Thread(target=submit, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(handles) == 200
    assert all(work.is_done for work in works)


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


def test_an_empty_array_is_copied_and_computed(device: VulkanDevice) -> None:
    instance = device.instantiate(copied(device, (0, 3)), [])
    x, y = [device.memory.allocate_array((0, 3), DType.F32) for _ in range(2)]
    device.lanes[0].submit(instance, [x], [y]).wait(PATIENCE_S)
    assert y.read().shape == (0, 3)
    assert instance.dispatches == 0


def two_queues(driver_name: str) -> Opened:
    """A device that is said to have two queues: both are the one that there is."""
    lib = FaultyLib()

    def create(real: Any, physical: Any, info: Any, *rest: Any) -> Any:
        info.pQueueCreateInfos.queueCount = 1
        return real(physical, info, *rest)

    lib.instead["vkCreateDevice"] = create
    lib.instead["vkGetDeviceQueue"] = lambda real, device, family, number, found: real(device, family, 0, found)
    return opened(driver_name, lib, families=2)


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


def test_an_error_reaches_other_queues_of_the_device(driver_name: str) -> None:
    one = two_queues(driver_name)
    device, elsewhere = one.device, Elsewhere()
    first, second = Work(device), Work(device, 1)
    failing = first.submit([elsewhere.handle])
    after = second.submit([failing], lane=1)
    elsewhere.end(KernelFailed("node", "cpu:0", "no"))
    for handle in (failing, after):
        with pytest.raises(KernelFailed, match="node failed on cpu:0"):
            handle.wait(PATIENCE_S)
    assert [lane.pending_count for lane in device.lanes] == [0, 0]
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
