"""A driver that fails at every place it can: the right error for the right caller, no hang, others go on."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.cuda.statuses import STICKY, CudaError, error_of, status_of
from fuel_async.errors import DeviceError, DeviceLost, InternalError, KernelFailed, OutOfMemory
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.registry import inflight_count
from fuel_async.streams import WaitStatus
from fuel_async.testing.cuda_double import DeviceModel
from tests.backends.cuda.support import (
    ECC,
    ILLEGAL_ADDRESS,
    INVALID_VALUE,
    LAUNCH_FAILURE,
    LAUNCH_OUT_OF_RESOURCES,
    NO_MEMORY,
    PATIENCE_S,
    Doubled,
    Elsewhere,
    Work,
    copied,
    put,
    values,
    wait_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.device import CudaDevice


def heard(device: CudaDevice) -> list[int]:
    """How often the loss of a device was told."""
    times: list[int] = []
    device.on_lost(lambda: times.append(1))
    return times


class Said(RuntimeError):
    """What a call says."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"cudaError {status}")


class CUBLASError(RuntimeError):
    """What cuBLAS says, with numbers of its own."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"status {status}")


# --- statuses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (Said(NO_MEMORY), OutOfMemory),
        (MemoryError("cupy.cuda.memory.OutOfMemoryError"), OutOfMemory),
        (CUBLASError(3), OutOfMemory),
        (CUBLASError(4), CudaError),
        (Said(ILLEGAL_ADDRESS), DeviceLost),
        (Said(ECC), DeviceLost),
        (Said(INVALID_VALUE), CudaError),
        (ValueError("what CuPy says"), CudaError),
        (InternalError("ours"), InternalError),
    ],
)
def test_everything_that_is_said_becomes_an_error(said: Exception, kind: type[Exception]) -> None:
    error = error_of("cuda:0", "cudaDoIt", said, 10, 5)
    assert type(error) is kind
    if error is not said:
        assert "cudaDoIt" in str(error)
        assert error.__cause__ is said
        assert isinstance(error, DeviceError)


def test_statuses_that_end_a_device_are_none_of_those_that_do_not() -> None:
    assert not STICKY.keys() & {0, INVALID_VALUE, NO_MEMORY, 35, 100, 400, 600, LAUNCH_OUT_OF_RESOURCES, 704, 900, 901}
    assert status_of(CUBLASError(NO_MEMORY)) is None


# --- loss ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [ILLEGAL_ADDRESS, LAUNCH_FAILURE, ECC])
def test_a_kernel_that_crashes_fails_all_that_is_under_way(one: Doubled, status: int) -> None:
    """The status comes back at the wait for its end, and its outputs are given to nobody."""
    (device,) = one.devices
    told, elsewhere = heard(device), Elsewhere()
    works = [Work(device, seed) for seed in range(4)]
    one.machine.inject_error(0, status, at="launch", after=1)
    one.machine.hang(0)
    handles = [works[0].submit(), works[1].submit()]
    handles += [works[2].submit(handles[1:], lane=1), works[3].submit([elsewhere.handle], lane=1)]
    one.machine.release(0)
    for handle in handles[1:]:
        with pytest.raises(DeviceLost, match=f"{status}|cudaError") as caught:
            handle.wait(PATIENCE_S)
        assert status_of(caught.value.__cause__) == status, "the original error is kept"  # type: ignore[arg-type]
    assert isinstance(device.lost, DeviceLost)
    assert (told, inflight_count(device.location)) == ([1], 0)
    assert [lane.pending_count for lane in device.lanes] == [0, 0]
    elsewhere.end()


def test_a_lost_device_takes_nothing_more(one: Doubled) -> None:
    (device,) = one.devices
    work, told = Work(device), heard(device)
    one.machine.inject_error(0, ILLEGAL_ADDRESS)
    for _ in range(2):
        with pytest.raises(DeviceLost, match="illegal memory access"):
            work.submit().wait(PATIENCE_S)
    assert told == [1]
    assert heard(device) == [1], "at once, to who asks later"
    with pytest.raises(DeviceLost):
        device.memory.allocate(16)
    with pytest.raises(DeviceLost):
        work.x.read()
    with pytest.raises(DeviceLost):
        _ = work.x.__cuda_array_interface__
    for source, target in ((values(64), work.x), (work.x, values(64)), (values(1 << 20), work.x)):
        up = device.copy_lane(CPU_DEVICE, device.location)
        assert up is not None
        if source.shape == target.shape:
            with pytest.raises(DeviceLost):
                up.submit_copy(source, target).wait(PATIENCE_S)


def test_nothing_of_a_lost_device_is_freed(one: Doubled) -> None:
    """Each freeing would fail, and be told on standard error."""
    (device,) = one.devices
    work = Work(device, long=True)
    for _ in range(3):
        work.submit().wait(PATIENCE_S)
    calls = ("free", "streamDestroy", "eventDestroy", "graphExecDestroy", "freeHost")
    one.machine.inject_error(0, ILLEGAL_ADDRESS)
    with pytest.raises(DeviceLost):
        work.submit().wait(PATIENCE_S)
    before = one.machine.counts().calls
    one.is_clean = False
    one._end(one.devices.pop())
    del work
    gc.collect()
    after = one.machine.counts().calls
    assert [after.get(call) for call in calls] == [before.get(call) for call in calls]


def test_other_devices_go_on(make: Callable[..., Doubled]) -> None:
    """Also in threads whose own device is the lost one, as that of every new thread is."""
    both = make(2)
    first, second = both.devices
    works = [Work(first), Work(second, 1)]
    both.machine.inject_error(0, ECC)
    with pytest.raises(DeviceLost, match="cuda:0 is lost"):
        works[0].submit().wait(PATIENCE_S)
    works[1].submit().wait(PATIENCE_S)
    assert works[1].is_done
    assert second.lost is None
    np.testing.assert_array_equal(put(second, values(9)).read(), values(9))


def test_work_behind_that_of_a_lost_device_fails_with_its_error(make: Callable[..., Doubled]) -> None:
    both = make(2)
    works = [Work(device, seed) for seed, device in enumerate(both.devices)]
    both.machine.inject_error(0, LAUNCH_FAILURE, at="launch")
    both.machine.hang(0)
    first = works[0].submit()
    second = works[1].submit([first])
    both.machine.release(0)
    for handle in (first, second):
        with pytest.raises(DeviceLost, match="cuda:0 is lost"):
            handle.wait(PATIENCE_S)
    assert both.devices[1].lost is None


@pytest.mark.parametrize("at", ["launch", "event", "sync"])
def test_who_hears_of_a_loss_may_submit(one: Doubled, at: Any) -> None:
    """Told within a failing submission, or by the line's thread: no lock may be held then."""
    (device,) = one.devices
    work, again = Work(device), list[Any]()
    device.on_lost(lambda: again.append(work.submit()))
    one.machine.inject_error(0, ILLEGAL_ADDRESS, at=at)
    with pytest.raises(DeviceLost):
        work.submit().wait(PATIENCE_S)
    with pytest.raises(DeviceLost):
        again[0].wait(PATIENCE_S)


def test_an_end_that_will_not_be_heard_of_makes_a_device_lost(one: Doubled) -> None:
    """Whatever the status: what is on the stream may still write."""
    (device,) = one.devices
    work = Work(device)
    work.submit().wait(PATIENCE_S)
    one.machine.inject_error(0, INVALID_VALUE, at="event")
    with pytest.raises(DeviceLost, match="cudaEventRecord failed"):
        work.submit().wait(PATIENCE_S)
    assert isinstance(device.lost, DeviceLost)


# --- what is no loss ----------------------------------------------------------------------------------------------


def test_a_launch_that_is_refused_fails_alone(one: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = one.devices
    work, runtime = Work(device, long=True), device.context.runtime
    real = type(work.instance).launch

    def refused(self: Any, stream: Any, given: Any) -> None:
        real(self, stream, given)
        raise runtime.CUDARuntimeError(LAUNCH_OUT_OF_RESOURCES)

    with monkeypatch.context() as patch:
        patch.setattr(type(work.instance), "launch", refused)
        one.machine.hang(0)
        handle = work.submit()
        assert handle.completion.wait(0.05) is WaitStatus.TIMEOUT, "what it launched before is still under way"
        one.machine.release(0)
        with pytest.raises(CudaError, match="the launch failed on cuda:0") as caught:
            handle.wait(PATIENCE_S)
    assert caught.value.status == LAUNCH_OUT_OF_RESOURCES
    assert device.lost is None
    work.submit().wait(PATIENCE_S)
    assert work.is_done


@pytest.mark.parametrize("at", ["malloc", "pinned", "event", "stream", "compile"])
def test_what_is_lacking_once_is_no_loss(make: Callable[..., Doubled], at: Any) -> None:
    """Each place that allocates, at its first call: some call says so, and the next ones work."""
    one = make()
    (device,) = one.devices
    one.machine.inject_error(0, NO_MEMORY, at=at, times=1 if at != "malloc" else 2)
    errors = list[Exception]()
    for _ in range(3):
        try:
            work = Work(device, long=True)
            for _ in range(4):
                work.submit().wait(PATIENCE_S)
            assert work.is_done
        except DeviceError as error:
            errors.append(error)
    assert device.lost is None
    assert len(errors) == 1
    assert all(isinstance(error, OutOfMemory | KernelFailed) for error in errors)
    assert work.is_done


def test_a_large_copy_that_fails_says_why_and_the_next_one_works(one: Doubled) -> None:
    (device,) = one.devices
    count = 3 << 18
    there = device.memory.allocate_array((count,), DType.F32)
    up = device.copy_lane(CPU_DEVICE, device.location)
    assert up is not None
    one.machine.inject_error(0, NO_MEMORY, at="pinned")
    with pytest.raises(OutOfMemory, match="cudaHostAlloc"):
        up.submit_copy(values(count), there).wait(PATIENCE_S)
    up.submit_copy(values(count), there).wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(count))


def test_a_copy_that_crashes_makes_a_device_lost(one: Doubled) -> None:
    (device,) = one.devices
    there, up = put(device, values(64)), device.copy_lane(CPU_DEVICE, device.location)
    assert up is not None
    one.machine.inject_error(0, ILLEGAL_ADDRESS, at="copy")
    with pytest.raises(DeviceLost):
        up.submit_copy(values(64), there).wait(PATIENCE_S)
    assert device.lost is not None


def test_a_stream_that_cannot_wait_fails_that_submission_alone(one: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = one.devices
    works = [Work(device, seed) for seed in range(2)]
    lane, events = device.lanes[1], device.context.events

    def refuse(event: Any) -> None:
        raise device.context.runtime.CUDARuntimeError(INVALID_VALUE)

    one.machine.hang(0)
    first = works[0].submit()
    with monkeypatch.context() as patch:
        patch.setattr(lane.stream.raw, "wait_event", refuse)
        with pytest.raises(CudaError, match="the launch failed on cuda:0"):
            works[1].submit([first], lane=1).wait(PATIENCE_S)
    one.machine.release(0)
    wait_all([first, works[1].submit(lane=1)])
    assert all(work.is_done for work in works)
    assert events.free_count == events.made
    assert device.lost is None


def test_a_copy_that_is_refused_half_way_waits_for_what_it_began(one: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = one.devices
    count, runtime = 3 << 18, device.context.runtime
    there, up = device.memory.allocate_array((count,), DType.F32), device.copy_lane(CPU_DEVICE, device.location)
    assert up is not None
    real, calls = runtime.memcpyAsync, iter(range(100))

    def second(*args: Any) -> None:
        if next(calls) == 1:
            raise runtime.CUDARuntimeError(INVALID_VALUE)
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(runtime, "memcpyAsync", second)
        with pytest.raises(CudaError, match="cudaMemcpyAsync failed"):
            up.submit_copy(values(count), there).wait(PATIENCE_S)
    assert one.machine.leaks().pending == 0
    up.submit_copy(values(count), there).wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(count))
    assert device.context.events.free_count == device.context.events.made


def test_a_system_without_threads_refuses_work(one: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = one.devices
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


# --- hanging ------------------------------------------------------------------------------------------------------


def test_a_device_that_hangs_is_given_up(make: Callable[..., Doubled]) -> None:
    one = make(deadline_s=0.8)
    (device,) = one.devices
    told, works = heard(device), [Work(device, seed) for seed in range(3)]
    back = np.zeros(64, np.float32)
    down = device.copy_lane(device.location, CPU_DEVICE)
    assert down is not None
    one.machine.hang(0)
    handles = [works[0].submit(), works[1].submit(), works[2].submit(lane=1)]
    handles.append(down.submit_copy(works[0].y, back, [handles[0]]))
    for handle in handles:
        with pytest.raises(DeviceLost, match="has worked on one submission for 0"):
            handle.wait(PATIENCE_S)
    assert (told, inflight_count(device.location)) == ([1], 0)
    assert [line.pending_count for line in device.lines] == [0] * 5
    with pytest.raises(DeviceLost):
        works[0].submit().wait(PATIENCE_S)


def test_a_device_that_wakes_up_again_stays_lost_and_disturbs_nobody(make: Callable[..., Doubled]) -> None:
    one = make(deadline_s=0.8)
    (device,) = one.devices
    work: Any = Work(device)
    one.machine.hang(0)
    handle = work.submit()
    with pytest.raises(DeviceLost):
        handle.wait(PATIENCE_S)
    place = work.y.ptr
    del work
    gc.collect()
    one.machine.release(0)  # it writes to what it was given, which nobody has got meanwhile
    device.lanes[0].close()
    device.lanes[0].join(PATIENCE_S)
    assert not device.lanes[0].is_running
    block = one.machine.addresses.find(place)
    assert block is not None
    assert block.is_live


def test_waiting_for_others_is_no_hanging(make: Callable[..., Doubled]) -> None:
    """What counts for the deadline begins when nothing is waited for: neither the host nor another device."""
    both = make(2)
    first, second = both.devices
    elsewhere, works, slow = Elsewhere(), [Work(second), Work(second, 1, count=32)], Work(first, 2)
    lane = second.lanes[0]
    held = works[0].submit([elsewhere.handle])
    assert held.completion.wait(0.2) is WaitStatus.TIMEOUT
    assert lane.worked_ns(perf_counter_ns()) == 0
    elsewhere.end()
    held.wait(PATIENCE_S)
    both.machine.hang(0)
    blocked = slow.submit()
    behind = works[1].submit([blocked])
    assert behind.completion.wait(0.2) is WaitStatus.TIMEOUT
    assert lane.worked_ns(perf_counter_ns()) == 0
    both.machine.hang(1)
    both.machine.release(0)
    blocked.wait(PATIENCE_S)
    lane.worked_ns(perf_counter_ns())
    assert behind.completion.wait(0.1) is WaitStatus.TIMEOUT
    assert lane.worked_ns(perf_counter_ns()) > 0.05e9, "now it is its own time"
    both.machine.release(1)
    behind.wait(PATIENCE_S)
    assert second.lost is None


# --- executors ----------------------------------------------------------------------------------------------------


def graph() -> fa.Graph:
    g = fa.Graph("work")
    x = g.input("x", (16, 16), fa.f32)
    g.output("y", (x @ x).relu())
    return g


FEED = values(256).reshape(16, 16)
WANTED = np.maximum(FEED @ FEED, 0)


@pytest.mark.parametrize("at", ["malloc", "pinned", "stream", "compile"])
def test_out_of_memory_at_each_allocation_in_turn_fails_a_run_and_no_more(at: Any) -> None:
    """Each place is refused at its first to its third call of a first run; then the run works."""
    for after in range(3):
        one = Doubled()

        async def scenario(one: Doubled = one, after: int = after) -> None:
            async with fa.Executor(one.devices) as executor:
                one.machine.inject_error(0, NO_MEMORY, at=at, after=after)
                (first,) = await asyncio.gather(executor.run(graph(), x=FEED), return_exceptions=True)
                second = await executor.run(graph(), x=FEED)
            if isinstance(first, BaseException):
                assert isinstance(first, OutOfMemory | KernelFailed)
                assert "cudaErrorMemoryAllocation" in str(first)
            for found in (second, *([first] if isinstance(first, dict) else [])):  # it may ask less often
                np.testing.assert_allclose(found["y"], WANTED, rtol=1e-4, atol=1e-5)

        asyncio.run(scenario())
        gc.collect()
        (device,) = one.devices
        assert (device.memory.used_nbytes, inflight_count(device.location), device.lost) == (0, 0, None)
        del device
        one.close()


@pytest.mark.parametrize("at", ["launch", "copy", "sync"])
def test_a_run_on_a_device_that_is_lost_fails_and_the_next_goes_elsewhere(one: Doubled, at: Any) -> None:
    (device,) = one.devices

    async def scenario() -> None:
        async with fa.Executor([device, "cpu:0"], placement=lambda offers: offers[0]) as executor:
            await executor.run(graph(), x=FEED)
            one.machine.inject_error(0, ILLEGAL_ADDRESS, at=at)
            with pytest.raises(DeviceLost, match="cuda:0 is lost"):
                await executor.run(graph(), x=FEED)
            found = await executor.run(graph(), x=FEED)
            np.testing.assert_allclose(found["y"], WANTED, rtol=1e-4, atol=1e-5)
            told = executor.statistics().devices[device.location]
            assert told.lost is not None
            assert "illegal memory access" in told.lost
            assert executor.statistics().devices[CPU_DEVICE].lost is None

    asyncio.run(scenario())


def test_what_could_not_be_captured_is_told(one: Doubled) -> None:
    (device,) = one.devices

    async def scenario() -> None:
        async with fa.Executor([device]) as executor:
            one.machine.inject_error(0, 901, at="capture")
            captured = graph()
            for _ in range(5):
                await executor.run(captured, x=FEED)
            (note,) = executor.statistics().devices[device.location].notes
            assert "capture failed: cudaErrorStreamCaptureInvalidated" in note

    asyncio.run(scenario())


def test_storages_of_two_devices_do_not_meet_in_one_kernel(make: Callable[..., Doubled]) -> None:
    from fuel_async.backends.cuda.once import run_once
    from fuel_async.dispatch import NoParams
    from fuel_async.errors import KernelArgumentError
    from fuel_async.ir import BackendId, Layout, OpKind
    from fuel_async.registry import global_bindings
    from fuel_async.storage import from_array, stored

    first, second = make(2).devices
    x, y = stored(put(first, values(4)), first.location), stored(put(second, values(4)), second.location)
    kernel: Any = global_bindings().lookup(OpKind.NegElementwise, (DType.F32, DType.F32), BackendId.CUDA)
    layouts = [Layout.contiguous((4,))] * 2
    with pytest.raises(KernelArgumentError, match="the devices of its operands"):
        run_once(kernel, [x], [y], layouts, NoParams())
    with pytest.raises(KernelArgumentError, match="host_bytes"):
        run_once(kernel, [x], [from_array(values(4))], layouts, NoParams())


LEAVING = """
    import asyncio, os, sys
    from fuel_async.testing.cuda_double import DeviceModel
    from tests.backends.cuda.support import Doubled, Elsewhere, Work

    one = Doubled([DeviceModel(kernel_s=0.5)])
    works = [Work(one.devices[0], seed) for seed in range(2)]
    elsewhere = Elsewhere()
    held = works[0].submit([elsewhere.handle])
    {how}
"""

WAYS = {
    "end of the script": "works[1].submit()",
    "sys.exit": "works[1].submit()\nsys.exit(0)",
    "hanging": "one.machine.hang(0)\nworks[1].submit()",
    "closed loop": """
    async def wait():
        await held
    loop = asyncio.new_event_loop()
    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0.01))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    elsewhere.end()
    held.wait(10)
    assert works[0].is_done
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_process_may_leave_with_work_in_flight(way: str) -> None:
    code = textwrap.dedent(LEAVING).format(how=textwrap.dedent(WAYS[way]).strip())
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_a_program_for_another_devices_memory_is_refused_by_the_device(make: Callable[..., Doubled]) -> None:
    """Arrays of the wrong device: the driver says so, in its own way."""
    both = make([DeviceModel(is_peer=False)] * 2)
    first, second = both.devices
    instance = first.instantiate(copied(first), [])
    x, y = put(second, values(64)), put(first, values(64))
    with pytest.raises(DeviceLost, match="illegal memory access"):
        first.lanes[0].submit(instance, [x], [y]).wait(PATIENCE_S)
    assert second.lost is None
