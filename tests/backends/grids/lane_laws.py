"""The laws of lanes of devices of grids: order, work that waits for others, and work whose inputs failed.

A module of tests that imports them has the fixtures `device`, and `two_lanes`, a device with more than one.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fuel_async.errors import DeviceLost, ExecutorClosed, InternalError, KernelFailed, Stopped
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.streams import StopFlag, WaitStatus
from tests.backends.grids.devices import PATIENCE_S, Device, Elsewhere, Work, copied, put, values, wait_all

if TYPE_CHECKING:
    from fuel_async.streams import CompletionHandle


def test_a_program_runs_and_tells_when(device: Device) -> None:
    work = Work(device)
    timing = work.submit().wait(PATIENCE_S)
    assert work.is_done
    assert (timing.device, timing.lane) == (device.location, device.lanes[0].name)
    assert timing.submitted_ns <= timing.started_ns <= timing.finished_ns
    assert device.lanes[0].busy_ns >= timing.work_ns > 0
    assert (inflight_count(device.location), pending_ns(device.location)) == (0, 0)
    assert (device.lanes[0].pending_count, device.lanes[0].pending_ns) == (0, 0)


def test_work_of_one_lane_runs_in_its_order_without_waits_for_the_host(device: Device) -> None:
    """Each copies what the one before has written."""
    program = copied(device)
    arrays = [put(device, values(64)), *[put(device, np.zeros(64, np.float32)) for _ in range(8)]]
    handles: list[CompletionHandle] = []
    for source, target in pairwise(arrays):
        instance = device.instantiate(program, [])
        handles.append(device.lanes[0].submit(instance, [source], [target], waits=handles[-1:]))
    wait_all(handles)
    np.testing.assert_array_equal(arrays[-1].read(), values(64))
    ends = [handle.result().finished_ns for handle in handles]
    assert ends == sorted(ends)


def test_work_waits_for_what_the_driver_cannot_see(device: Device) -> None:
    elsewhere, work = Elsewhere(), Work(device)
    handle = work.submit([elsewhere.handle])
    assert device.lanes[0].pending_count == 1
    assert handle.completion.wait(0.05) is WaitStatus.TIMEOUT
    assert not work.is_done
    threading.Thread(target=elsewhere.end).start()
    handle.wait(PATIENCE_S)
    assert work.is_done


def test_work_behind_work_that_waits_stays_behind_it(device: Device) -> None:
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


@pytest.mark.parametrize("already", [True, False])
def test_work_whose_input_failed_settles_with_that_error_and_blocks_nobody(device: Device, already: bool) -> None:
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


def test_an_error_reaches_other_lanes_that_wait_for_the_work(two_lanes: Device) -> None:
    elsewhere, first, second = Elsewhere(), Work(two_lanes), Work(two_lanes, 1)
    failing = first.submit([elsewhere.handle])
    after = second.submit([failing], lane=1)
    elsewhere.end(KernelFailed("node", "cpu:0", "no"))
    for handle in (failing, after):
        with pytest.raises(KernelFailed, match="node failed on cpu:0"):
            handle.wait(PATIENCE_S)
    assert [lane.pending_count for lane in two_lanes.lanes] == [0, 0]


def test_a_stopped_run_submits_nothing(device: Device) -> None:
    stop, work = StopFlag(), Work(device)
    stop.stopped = True
    with pytest.raises(Stopped):
        work.submit(stop=stop).wait(PATIENCE_S)
    assert not work.is_done


def test_a_closed_lane_finishes_what_it_has_and_takes_no_more(device: Device) -> None:
    elsewhere, work, beside = Elsewhere(), Work(device), Work(device, 1)
    held, there = work.submit([elsewhere.handle]), beside.submit(lane=len(device.lanes) - 1)
    device.close()
    with pytest.raises(ExecutorClosed):
        work.submit().wait(PATIENCE_S)
    elsewhere.end()
    wait_all([held, there])
    for lane in device.lanes:
        lane.join(PATIENCE_S)
        assert not lane.is_running
        assert not any(thread.name.endswith(lane.name) for thread in threading.enumerate())
    assert work.is_done, "arrays can be read when the device is closed"
    assert beside.is_done


def test_lanes_and_links_have_one_job_each(device: Device) -> None:
    link = device.copy_lane(CPU_DEVICE, device.location)
    assert link is not None
    with pytest.raises(InternalError, match="copies and runs nothing"):
        link.submit(None)
    with pytest.raises(InternalError, match="copies go over the lanes"):
        device.lanes[0].submit_copy(None, None)
    assert device.copy_lane(device.location, device.location) is None


def test_many_threads_submit_to_one_lane(device: Device) -> None:
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


def test_an_empty_array_is_copied_and_computed(device: Device) -> None:
    instance = device.instantiate(copied(device, (0, 3)), [])
    x, y = [device.memory.allocate_array((0, 3), DType.F32) for _ in range(2)]
    device.lanes[0].submit(instance, [x], [y]).wait(PATIENCE_S)
    assert y.read().shape == (0, 3)
    assert instance.dispatches == 0


def test_a_system_without_threads_refuses_work(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(device)

    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(DeviceLost, match="can't start new thread"):
            work.submit().wait(PATIENCE_S)
    assert device.lost is None
    work.submit().wait(PATIENCE_S)
    assert work.is_done
