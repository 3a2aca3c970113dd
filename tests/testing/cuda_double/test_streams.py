"""Streams are queues with threads, and each thread of the host has its own current device and streams."""

from __future__ import annotations

import threading
import time
from importlib import import_module

import numpy as np
import pytest

from fuel_async.testing.cuda_double import DeviceModel, LegacyStreamUsed, uninstall
from fuel_async.testing.cuda_double.faults import Faults
from fuel_async.testing.cuda_double.gpu import Gpu
from fuel_async.testing.cuda_double.work import THREAD_PREFIX
from tests.testing.cuda_double.support import LONG_S, SHORT_S, Rig, in_thread


def test_work_runs_in_order_in_the_threads_of_streams(rig: Rig) -> None:
    one, other = rig.stream(), rig.stream()
    for number in range(20):
        rig.launch(one, "note", number)
    one.synchronize()
    rig.launch(other, "note", 20)
    other.synchronize()
    assert rig.noted == list(range(21))
    assert len(set(rig.threads[:20])) == 1
    assert rig.threads[20] != rig.threads[0]
    assert all(name.startswith(THREAD_PREFIX) for name in rig.threads)


def test_a_call_does_not_run_the_work(rig: Rig) -> None:
    stream = rig.stream()
    rig.gate(stream)
    rig.launch(stream, "note", 1)
    assert rig.noted == []
    assert rig.runtime.streamQuery(stream.ptr) == 600
    rig.gates.open()
    stream.synchronize()
    assert rig.noted == [1]
    assert rig.runtime.streamQuery(stream.ptr) == 0


def test_streams_do_not_wait_for_each_other(rig: Rig) -> None:
    one, other = rig.stream(), rig.stream()
    rig.gate(one)
    rig.launch(other, "note", 1)
    other.synchronize()
    assert rig.noted == [1]


def test_a_stream_without_work_has_no_thread(rig: Rig) -> None:
    stream = rig.stream()
    stream.synchronize()
    assert rig.machine.threads() == 0
    rig.launch(stream, "note", 1)
    stream.synchronize()
    assert rig.machine.threads() == 1


def test_a_destroyed_stream_does_what_it_was_given(rig: Rig) -> None:
    stream = rig.stream()
    rig.gate(stream)
    rig.launch(stream, "note", 1)
    ptr = stream.ptr
    del stream
    assert rig.machine.leaks().streams == 0
    assert rig.status_of(rig.runtime.streamSynchronize, ptr) == 400
    rig.gates.open()
    rig.runtime.deviceSynchronize()
    assert rig.noted == [1]


def test_synchronizing_lets_other_threads_run(rig: Rig) -> None:
    stream = rig.stream()
    rig.gate(stream)
    began, ended = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        stream.synchronize()
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert began.wait(LONG_S)
    assert not ended.wait(SHORT_S)
    rig.gates.open()
    thread.join(LONG_S)
    assert ended.is_set()


def test_a_device_waits_for_all_its_streams_and_no_others(rig: Rig) -> None:
    first, second = rig.stream(0), rig.stream(1)
    rig.gate(second)
    rig.cupy.cuda.Device(0).use()
    rig.launch(first, "note", 1)
    rig.runtime.deviceSynchronize()
    assert rig.noted == [1]
    rig.gates.open()
    rig.cupy.cuda.Device(1).synchronize()
    assert rig.runtime.getDevice() == 0


# --- what is current --------------------------------------------------------------------------------------------------


def test_the_current_device_belongs_to_the_thread(rig: Rig) -> None:
    rig.cupy.cuda.Device(1).use()
    assert in_thread(rig.runtime.getDevice) == 0
    assert rig.runtime.getDevice() == 1
    with rig.cupy.cuda.Device(0) as device:
        assert (rig.runtime.getDevice(), device.id) == (0, 0)
    assert rig.runtime.getDevice() == 1


def test_the_current_stream_belongs_to_thread_and_device(rig: Rig) -> None:
    current = rig.cupy.cuda.get_current_stream
    stream, of_other = rig.stream(0), rig.stream(1)
    with of_other:
        assert current() is of_other
        assert current(0).ptr == 0
        assert in_thread(lambda: current(1)).ptr == 0
        rig.cupy.cuda.Device(0).use()
        with stream:
            assert (current(), current(1)) == (stream, of_other)
        rig.cupy.cuda.Device(1).use()
    assert current().ptr == 0
    of_other.use()
    assert current() is of_other


def test_a_stream_is_entered_on_its_own_device_only(rig: Rig) -> None:
    stream = rig.stream(1)
    rig.cupy.cuda.Device(0).use()
    with pytest.raises(RuntimeError, match="does not match with the current device"), stream:
        pass
    with pytest.raises(RuntimeError, match="does not match with the current device"):
        stream.use()


def test_work_goes_to_streams_of_the_current_device_only(rig: Rig) -> None:
    stream = rig.stream(0)
    kernel = rig.cupy.RawModule(code="//").get_function("note")
    with stream:
        rig.cupy.cuda.Device(1).use()
        rig.machine.here.streams[1] = stream  # what `with` and `use` refuse
        assert rig.status_of(kernel, (1,), (1,), (1,)) == 400
        rig.cupy.cuda.Device(0).use()
    assert rig.noted == []


def test_an_unknown_device_is_refused(rig: Rig) -> None:
    assert rig.status_of(rig.runtime.setDevice, 2) == 101
    assert rig.status_of(rig.runtime.setDevice, -1) == 101


# --- the default streams ----------------------------------------------------------------------------------------------


def test_the_legacy_stream_is_refused() -> None:
    rig = Rig.of(1)
    memory = rig.memory(16)
    with pytest.raises(LegacyStreamUsed):
        memory.memset_async(0, 16)
    with pytest.raises(LegacyStreamUsed):
        rig.cupy.cuda.Stream.null.synchronize()
    with pytest.raises(AssertionError, match="legacy default stream"):
        rig.machine.check()


def test_the_legacy_stream_works_where_it_is_allowed() -> None:
    rig = Rig.of(1, strict=False)
    array = rig.cupy.zeros(4, "f4")
    assert array.get().tolist() == [0, 0, 0, 0]


def test_each_thread_has_a_stream_of_its_own(rig: Rig) -> None:
    rig.launch(rig.cupy.cuda.Stream.ptds, "note", 1)
    rig.cupy.cuda.Stream.ptds.synchronize()

    def other() -> None:
        rig.launch(rig.cupy.cuda.Stream.ptds, "note", 2)
        rig.cupy.cuda.Stream.ptds.synchronize()

    in_thread(other)
    assert rig.noted == [1, 2]
    assert len(set(rig.threads)) == 2


# --- time -------------------------------------------------------------------------------------------------------------


def took_s(rig: Rig, *streams: object) -> float:
    begin_s = time.perf_counter()
    for stream in streams:
        rig.launch(stream, "note", 1)
    rig.runtime.deviceSynchronize()
    return time.perf_counter() - begin_s


def test_a_kernel_takes_at_least_its_time() -> None:
    rig = Rig.of([DeviceModel(kernel_s=0.02), DeviceModel(thread_s=0.001)])
    assert took_s(rig, rig.stream(0)) >= 0.02
    stream = rig.stream(1)
    begin_s = time.perf_counter()
    rig.launch(stream, "note", 1, grid=(5,), block=(4,))
    stream.synchronize()
    assert time.perf_counter() - begin_s >= 0.02


def test_streams_of_a_device_share_its_time() -> None:
    rig = Rig.of([DeviceModel(kernel_s=0.02)])
    assert took_s(rig, rig.stream(), rig.stream(), rig.stream()) >= 0.06


def test_copies_each_way_and_kernels_do_not_wait_for_each_other() -> None:
    rig = Rig.of([DeviceModel(link_bytes_per_s=1000.0)])
    up, down, other = rig.stream(), rig.stream(), rig.stream()
    memory, (pinned, _) = rig.memory(100_000), rig.pinned(np.zeros(100_000, np.uint8))
    rig.runtime.memcpyAsync(memory.ptr, pinned.ptr, 100_000, 1, up.ptr)
    rig.runtime.memcpyAsync(pinned.ptr, memory.ptr, 1, 2, down.ptr)
    rig.launch(other, "note", 1)
    other.synchronize()
    down.synchronize()
    assert rig.runtime.streamQuery(up.ptr) == 600
    uninstall()


def test_copies_of_one_way_wait_for_each_other() -> None:
    rig = Rig.of([DeviceModel(link_bytes_per_s=1e4)])
    one, other = rig.stream(), rig.stream()
    memory, (pinned, _) = rig.memory(200), rig.pinned(np.zeros(200, np.uint8))
    begin_s = time.perf_counter()
    for stream in (one, other):
        rig.runtime.memcpyAsync(memory.ptr, pinned.ptr, 200, 1, stream.ptr)
    rig.runtime.deviceSynchronize()
    assert time.perf_counter() - begin_s >= 0.04


def test_the_end_of_a_machine_waits_for_no_time_that_is_made_up() -> None:
    rig = Rig.of([DeviceModel(kernel_s=1000.0)])
    rig.launch(rig.stream(), "note", 1)
    uninstall()


def test_the_log_names_calls_and_threads(rig: Rig) -> None:
    stream = rig.stream(1)
    stream.synchronize()
    call = next(call for call in rig.machine.log if call.name == "streamSynchronize")
    assert (call.thread, call.device) == (threading.current_thread().name, 1)
    assert rig.machine.counts().calls["streamSynchronize"] == 1
    assert import_module("cupy.cuda.runtime") is rig.runtime


def test_an_engine_does_one_thing_after_the_other_however_late_its_threads_are() -> None:
    gpu = Gpu(0, DeviceModel(), Faults())
    assert gpu.book("compute", 10.0, 2.0) == 10.0
    assert gpu.book("compute", 10.5, 3.0) == 12.0
    assert gpu.book("upload", 10.5, 3.0) == 10.5
    assert gpu.book("none", 1.0, 3.0) == 1.0
    gpu.keep("compute", 20.0)
    assert gpu.book("compute", 16.0, 1.0) == 20.0
    assert gpu.book("compute", 30.0, 1.0) == 30.0
