"""Streams as lanes: order, events between them, work that the host holds, and work whose inputs failed."""

from __future__ import annotations

import gc
import threading
from itertools import pairwise
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.errors import ExecutorClosed, InternalError, KernelFailed, Stopped
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.streams import StopFlag, WaitStatus
from fuel_async.testing.cuda_double import DeviceModel
from tests.backends.cuda.support import PATIENCE_S, Doubled, Elsewhere, Work, copied, put, values, wait_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.device import CudaDevice
    from fuel_async.streams import CompletionHandle


def test_a_program_runs_and_tells_when(device: CudaDevice) -> None:
    work = Work(device)
    timing = work.submit().wait(PATIENCE_S)
    assert work.is_done
    assert (timing.device, timing.lane) == (device.location, device.lanes[0].name)
    assert timing.submitted_ns <= timing.started_ns <= timing.finished_ns
    assert device.lanes[0].busy_ns >= timing.work_ns > 0
    assert (inflight_count(device.location), pending_ns(device.location)) == (0, 0)
    assert (device.lanes[0].pending_count, device.lanes[0].pending_ns) == (0, 0)


def test_work_of_one_lane_runs_in_its_order_without_waits_for_the_host(one: Doubled) -> None:
    """Each copies what the one before has written, and all are on the stream before the first has run."""
    (device,) = one.devices
    program = copied(device)
    arrays = [put(device, values(64)), *[put(device, np.zeros(64, np.float32)) for _ in range(8)]]
    instances = [device.instantiate(program, []) for _ in range(8)]
    one.machine.hang(0)
    handles: list[CompletionHandle] = []
    for instance, (source, target) in zip(instances, pairwise(arrays), strict=True):
        handles.append(device.lanes[0].submit(instance, [source], [target], waits=handles[-1:]))
    assert one.machine.counts().launches == 8
    one.machine.release(0)
    wait_all(handles)
    np.testing.assert_array_equal(arrays[-1].read(), values(64))
    ends = [handle.result().finished_ns for handle in handles]
    assert ends == sorted(ends)


def test_streams_wait_for_each_other_without_the_host(one: Doubled) -> None:
    """A chain that changes streams at each step, put there before the first of it has run."""
    (device,) = one.devices
    arrays = [put(device, values(64)), *[put(device, np.zeros(64, np.float32)) for _ in range(6)]]
    instances = [device.instantiate(copied(device), []) for _ in range(6)]
    one.machine.hang(0)
    handles: list[CompletionHandle] = []
    for step, (instance, (source, target)) in enumerate(zip(instances, pairwise(arrays), strict=True)):
        handles.append(device.lanes[step % 2].submit(instance, [source], [target], waits=handles[-1:]))
    assert [lane.pending_count for lane in device.lanes] == [3, 3]
    assert one.machine.counts().launches == 6
    one.machine.release(0)
    wait_all(handles)
    np.testing.assert_array_equal(arrays[-1].read(), values(64))


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


def test_work_waits_with_the_host_for_what_no_stream_sees(one: Doubled) -> None:
    (device,) = one.devices
    elsewhere, work = Elsewhere(), Work(device)
    handle = work.submit([elsewhere.handle])
    assert device.lanes[0].pending_count == 1
    assert handle.completion.wait(0.05) is WaitStatus.TIMEOUT
    assert one.machine.counts().launches == 0
    threading.Thread(target=elsewhere.end).start()
    handle.wait(PATIENCE_S)
    assert work.is_done


def test_work_behind_held_work_stays_behind_it(device: CudaDevice) -> None:
    first, second = Elsewhere(), Elsewhere()
    works = [Work(device, seed) for seed in range(3)]
    handles = [works[0].submit([first.handle]), works[1].submit([second.handle]), works[2].submit()]
    second.end()
    assert handles[1].completion.wait(0.05) is WaitStatus.TIMEOUT
    assert handles[2].completion.wait(0) is WaitStatus.TIMEOUT
    first.end()
    wait_all(handles)
    assert [work.is_done for work in works] == [True, True, True]
    ends = [handle.result().finished_ns for handle in handles]
    assert ends == sorted(ends)


def test_work_that_waits_for_held_work_elsewhere_waits_with_the_host(device: CudaDevice) -> None:
    elsewhere, first, second = Elsewhere(), Work(device), Work(device, 1)
    held = first.submit([elsewhere.handle])
    after = second.submit([held], lane=1)
    assert after.completion.wait(0.05) is WaitStatus.TIMEOUT
    elsewhere.end()
    wait_all([held, after])
    assert first.is_done
    assert second.is_done


@pytest.mark.parametrize("already", [True, False])
def test_work_whose_input_failed_settles_with_that_error_and_blocks_nobody(device: CudaDevice, already: bool) -> None:
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


def test_an_error_reaches_other_streams_that_wait_for_the_work(device: CudaDevice) -> None:
    elsewhere, first, second = Elsewhere(), Work(device), Work(device, 1)
    failing = first.submit([elsewhere.handle])
    after = second.submit([failing], lane=1)
    elsewhere.end(KernelFailed("node", "cpu:0", "no"))
    for handle in (failing, after):
        with pytest.raises(KernelFailed, match="node failed on cpu:0"):
            handle.wait(PATIENCE_S)
    assert [lane.pending_count for lane in device.lanes] == [0, 0]


def test_a_stopped_run_launches_nothing(one: Doubled) -> None:
    stop, work = StopFlag(), Work(one.devices[0])
    stop.stopped = True
    with pytest.raises(Stopped):
        work.submit(stop=stop).wait(PATIENCE_S)
    assert one.machine.counts().launches == 0


def test_a_closed_lane_finishes_what_it_has_and_takes_no_more(one: Doubled) -> None:
    (device,) = one.devices
    elsewhere, work, behind = Elsewhere(), Work(device), Work(device, 1)
    held, on_stream = work.submit([elsewhere.handle]), behind.submit(lane=1)
    device.close()
    with pytest.raises(ExecutorClosed):
        work.submit().wait(PATIENCE_S)
    elsewhere.end()
    wait_all([held, on_stream])
    device.join(PATIENCE_S)
    assert not any(thread.name.startswith(f"fuel_async {device.location}") for thread in threading.enumerate())
    assert work.is_done, "arrays can be read when the device is closed"


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


def test_lanes_and_links_have_one_job_each(device: CudaDevice) -> None:
    link = device.copy_lane(CPU_DEVICE, device.location)
    assert link is not None
    with pytest.raises(InternalError, match="copies and runs nothing"):
        link.submit(None)
    with pytest.raises(InternalError, match="copies go over the lanes"):
        device.lanes[0].submit_copy(None, None)
    assert device.copy_lane(device.location, device.location) is None


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


def test_many_threads_submit_to_one_lane(device: CudaDevice) -> None:
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


def test_events_are_used_again(one: Doubled) -> None:
    (device,) = one.devices
    work = Work(device)
    for _ in range(30):
        work.submit().wait(PATIENCE_S)
    events = device.context.events
    assert events.made == events.free_count == one.machine.counts().calls["eventCreateWithFlags"] <= 3


def test_an_empty_array_is_copied_and_computed(device: CudaDevice) -> None:
    instance = device.instantiate(copied(device, (0, 3)), [])
    x, y = [device.memory.allocate_array((0, 3), DType.F32) for _ in range(2)]
    device.lanes[0].submit(instance, [x], [y]).wait(PATIENCE_S)
    assert y.read().shape == (0, 3)
    assert instance.dispatches == 0


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
