"""Memory belongs to devices, has an end, and is told from what was freed; copies say what they copy."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from fuel_async.testing.cuda_double import DeviceModel
from tests.testing.cuda_double.support import LONG_S, SHORT_S, Rig, bytes_at

H2H, H2D, D2H, D2D, DEFAULT = range(5)


def test_allocations_count_against_the_device(rig: Rig) -> None:
    total = rig.machine.gpus[0].model.memory_nbytes
    rig.cupy.cuda.Device(0).use()
    memory = rig.cupy.cuda.Memory(1 << 20)
    assert memory.ptr % 512 == 0
    assert (memory.size, memory.device_id, memory.device.id) == (1 << 20, 0, 0)
    assert rig.runtime.memGetInfo() == rig.cupy.cuda.Device(0).mem_info == (total - (1 << 20), total)
    assert rig.cupy.cuda.Device(1).mem_info == (total, total)
    del memory
    assert rig.runtime.memGetInfo() == (total, total)
    assert rig.machine.counts().peak_nbytes == (1 << 20, 0)


def test_a_device_that_is_full_refuses_and_goes_on() -> None:
    rig = Rig.of([DeviceModel(memory_nbytes=1000)])
    held = rig.cupy.cuda.Memory(600)
    assert rig.status_of(rig.cupy.cuda.Memory, 401) == 2
    rest = rig.cupy.cuda.Memory(400)
    del held
    assert rig.cupy.cuda.Memory(600).ptr
    assert rest.ptr


def test_new_memory_is_not_zero_and_freed_memory_is_filled(rig: Rig) -> None:
    memory = rig.cupy.cuda.Memory(64)
    ptr = memory.ptr
    assert bytes_at(ptr, 64) == b"\xcd" * 64
    del memory
    assert bytes_at(ptr, 64) == b"\xdd" * 64


def test_freeing_waits_for_what_its_device_was_given(rig: Rig) -> None:
    stream = rig.stream()
    memory = rig.cupy.cuda.Memory(64)
    ptr = memory.ptr
    rig.gate(stream)
    freed = threading.Event()
    held = [memory]
    del memory

    def free() -> None:
        held.clear()
        freed.set()

    thread = threading.Thread(target=free)
    thread.start()
    assert not freed.wait(SHORT_S)
    assert rig.machine.leaks().blocks == 1
    rig.gates.open()
    assert freed.wait(LONG_S)
    thread.join(LONG_S)
    assert rig.machine.leaks().blocks == 0
    assert bytes_at(ptr, 1) == b"\xdd"


def test_a_kernel_that_uses_freed_memory_ends_the_device(rig: Rig) -> None:
    stream = rig.stream()
    memory = rig.memory(64)
    ptr = memory.ptr
    del memory
    rig.launch(stream, "note", np.uint64(ptr))
    assert rig.status_of(stream.synchronize) == 700
    assert rig.noted == []


def test_freed_memory_is_found_whatever_an_address_is_given_as(rig: Rig) -> None:
    stream = rig.stream(1)
    memory = rig.memory(64)
    ptr = memory.ptr
    del memory
    rig.launch(stream, "note", ptr + 8)
    assert rig.status_of(stream.synchronize) == 700


def test_a_copy_of_freed_memory_is_refused(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    pinned, _ = rig.pinned(np.zeros(64, np.uint8))
    ptr = memory.ptr
    del memory
    assert rig.status_of(rig.runtime.memcpyAsync, ptr, pinned.ptr, 64, H2D, stream.ptr) == 1
    assert rig.status_of(rig.runtime.memsetAsync, ptr, 0, 64, stream.ptr) == 1
    stream.synchronize()


def test_freeing_twice_is_refused(rig: Rig) -> None:
    ptr = rig.runtime.malloc(64)
    rig.runtime.free(ptr)
    assert rig.status_of(rig.runtime.free, ptr) == 1
    assert rig.status_of(rig.runtime.freeHost, ptr) == 1


def test_a_write_beside_a_block_is_told(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    rig.launch(stream, "add_one", np.uint64(memory.ptr), 65)
    stream.synchronize()
    with pytest.raises(AssertionError, match="a write beside 64 bytes"):
        rig.machine.check()
    del memory
    with pytest.raises(AssertionError, match="a write beside 64 bytes of gpu:0"):
        rig.machine.check()
    rig.machine.violations.clear()


# --- copies -----------------------------------------------------------------------------------------------------------


def test_pinned_memory_goes_to_the_device_and_back(rig: Rig) -> None:
    stream = rig.stream()
    memory = rig.upload(stream, np.arange(100, dtype=np.int32))
    pinned, back = rig.pinned(np.zeros(100, np.int32))
    rig.runtime.memcpyAsync(pinned.ptr, memory.ptr, 400, D2H, stream.ptr)
    event = stream.record(rig.event())
    event.synchronize()
    assert back.tolist() == list(range(100))
    counts = rig.machine.counts()
    assert (counts.copies, counts.pageable_copies, counts.copied_nbytes) == (2, 0, 800)


def test_a_copy_reads_pinned_memory_when_it_runs(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(4)
    pinned, array = rig.pinned(np.array([1], np.int32))
    rig.gate(stream)
    rig.runtime.memcpyAsync(memory.ptr, pinned.ptr, 4, H2D, stream.ptr)
    array[0] = 2
    rig.gates.open()
    stream.synchronize()
    assert bytes_at(memory.ptr, 4) == b"\2\0\0\0"


def test_a_copy_reads_pageable_memory_during_the_call(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(4)
    array = np.array([1], np.int32)
    rig.gate(stream)
    rig.runtime.memcpyAsync(memory.ptr, array.ctypes.data, 4, H2D, stream.ptr)
    array[0] = 2
    rig.gates.open()
    stream.synchronize()
    assert bytes_at(memory.ptr, 4) == b"\1\0\0\0"


def test_a_copy_to_pageable_memory_is_done_when_the_call_returns(rig: Rig) -> None:
    stream = rig.stream()
    memory = rig.upload(stream, np.array([7], np.int32))
    array, returned = np.zeros(1, np.int32), threading.Event()
    rig.gate(stream)

    def copy() -> None:
        rig.runtime.memcpyAsync(array.ctypes.data, memory.ptr, 4, D2H, stream.ptr)
        returned.set()

    thread = threading.Thread(target=copy)
    thread.start()
    assert not returned.wait(SHORT_S)
    rig.gates.open()
    assert returned.wait(LONG_S)
    thread.join(LONG_S)
    assert array.tolist() == [7]
    assert rig.machine.counts().pageable_copies == 1


@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D])
def test_the_kind_of_a_copy_must_be_true(rig: Rig, kind: int) -> None:
    stream, one, other = rig.stream(), rig.memory(8), rig.memory(8)
    here, _ = rig.pinned(np.zeros(8, np.uint8))
    there, _ = rig.pinned(np.zeros(8, np.uint8))
    ends = {H2H: (here, there), H2D: (one, here), D2H: (here, one), D2D: (one, other)}
    for true, (to, source) in ends.items():
        status = rig.status_of(rig.runtime.memcpyAsync, to.ptr, source.ptr, 8, kind, stream.ptr)
        assert status == (0 if true == kind else 1)
        rig.runtime.memcpyAsync(to.ptr, source.ptr, 8, DEFAULT, stream.ptr)
    stream.synchronize()


@pytest.mark.parametrize("beyond", [1, 100])
def test_a_copy_beyond_a_block_is_refused(rig: Rig, beyond: int) -> None:
    stream, memory, runtime = rig.stream(), rig.memory(64), rig.runtime
    pinned, _ = rig.pinned(np.zeros(64, np.uint8))
    assert rig.status_of(runtime.memcpyAsync, memory.ptr + beyond, pinned.ptr, 64, H2D, stream.ptr) == 1
    assert rig.status_of(runtime.memcpyAsync, memory.ptr, pinned.ptr + beyond, 64, H2D, stream.ptr) == 1
    assert rig.status_of(runtime.memsetAsync, memory.ptr + beyond, 0, 64, stream.ptr) == 1
    assert rig.status_of(runtime.memsetAsync, 0, 0, 64, stream.ptr) == 1
    assert rig.status_of(runtime.memsetAsync, pinned.ptr, 0, 64, stream.ptr) == 1
    runtime.memcpyAsync(memory.ptr + 32, pinned.ptr + 32, 32, H2D, stream.ptr)
    stream.synchronize()


def test_copies_and_fills_keep_to_the_streams_device(rig: Rig) -> None:
    stream = rig.stream(1)
    rig.cupy.cuda.Device(0).use()
    memory = rig.memory(8)
    pinned, _ = rig.pinned(np.zeros(8, np.uint8))
    assert rig.status_of(rig.runtime.memcpyAsync, memory.ptr, pinned.ptr, 8, H2D, stream.ptr) == 400
    assert rig.status_of(rig.runtime.memsetAsync, memory.ptr, 0, 8, stream.ptr) == 400


def test_pointers_copy_and_fill(rig: Rig) -> None:
    stream, one, other = rig.stream(), rig.memory(8), rig.memory(8)
    pinned, array = rig.pinned(np.zeros(8, np.uint8))
    one.memset_async(3, 8, stream)
    with stream:
        (other + 4).copy_from_device_async(one, 4)
        other.memset_async(5, 4)
        other.copy_to_host_async(pinned.ptr, 8)
    stream.synchronize()
    assert array.tolist() == [5] * 4 + [3] * 4
    one.copy_from_host_async(pinned.ptr, 8, stream)
    stream.synchronize()
    assert bytes_at(one.ptr, 8) == array.tobytes()


# --- between devices --------------------------------------------------------------------------------------------------


def test_copies_between_devices(rig: Rig) -> None:
    stream = rig.stream(0)
    source = rig.upload(stream, np.arange(8, dtype=np.uint8))
    rig.cupy.cuda.Device(1).use()
    to = rig.memory(8)
    copy = rig.runtime.memcpyPeerAsync
    assert rig.status_of(copy, to.ptr, 0, source.ptr, 1, 8, stream.ptr) == 1
    assert rig.status_of(copy, to.ptr, 1, source.ptr, 2, 8, stream.ptr) == 101
    assert rig.status_of(copy, to.ptr, 1, source.ptr, 0, 9, stream.ptr) == 1
    copy(to.ptr, 1, source.ptr, 0, 8, stream.ptr)
    stream.synchronize()
    assert bytes_at(to.ptr, 8) == bytes(range(8))
    assert rig.machine.counts().staged_peer_copies == 1
    rig.runtime.deviceEnablePeerAccess(0)
    copy(to.ptr, 1, source.ptr, 0, 8, stream.ptr)
    stream.synchronize()
    assert rig.machine.counts().staged_peer_copies == 1


def test_a_kernel_reaches_other_devices_once_that_is_enabled(rig: Rig) -> None:
    stream, enable = rig.stream(0), rig.runtime.deviceEnablePeerAccess
    rig.cupy.cuda.Device(1).use()
    memory = rig.memory(8)
    rig.cupy.cuda.Device(0).use()
    enable(1)
    rig.launch(stream, "note", np.uint64(memory.ptr))
    stream.synchronize()
    assert rig.status_of(enable, 1) == 704
    assert rig.status_of(enable, 0) == 101
    rig.runtime.deviceDisablePeerAccess(1)
    assert rig.status_of(rig.runtime.deviceDisablePeerAccess, 1) == 705
    rig.launch(stream, "note", np.uint64(memory.ptr))
    assert rig.status_of(stream.synchronize) == 700


def test_a_device_may_refuse_its_peers() -> None:
    rig = Rig.of([DeviceModel(), DeviceModel(is_peer=False), DeviceModel()])
    assert rig.runtime.deviceCanAccessPeer(0, 2) == 1
    assert rig.runtime.deviceCanAccessPeer(0, 1) == rig.runtime.deviceCanAccessPeer(1, 2) == 0
    assert rig.runtime.deviceCanAccessPeer(0, 0) == 0
    assert rig.status_of(rig.runtime.deviceEnablePeerAccess, 1) == 217


# --- pinned memory and leaks ------------------------------------------------------------------------------------------


def test_kernels_reach_pinned_memory(rig: Rig) -> None:
    stream = rig.stream()
    pinned, array = rig.pinned(np.zeros(4, np.uint8))
    rig.launch(stream, "add_one", np.uint64(pinned.ptr), 4)
    stream.synchronize()
    assert array.tolist() == [1] * 4
    pageable = np.zeros(4, np.uint8)
    rig.launch(stream, "add_one", np.uint64(pageable.ctypes.data), 4)
    assert rig.status_of(stream.synchronize) == 700


def test_memory_that_is_registered_counts_as_pinned(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(8)
    array = np.arange(8, dtype=np.uint8)
    rig.runtime.hostRegister(array.ctypes.data, 8, 0)
    assert rig.status_of(rig.runtime.hostRegister, array.ctypes.data, 8, 0) == 1
    rig.runtime.memcpyAsync(memory.ptr, array.ctypes.data, 8, H2D, stream.ptr)
    stream.synchronize()
    rig.runtime.hostUnregister(array.ctypes.data)
    assert rig.machine.counts().pageable_copies == 0
    rig.runtime.memcpyAsync(memory.ptr, array.ctypes.data, 8, H2D, stream.ptr)
    assert rig.machine.counts().pageable_copies == 1


def test_an_array_over_pinned_memory_keeps_it(rig: Rig) -> None:
    pinned, array = rig.pinned(np.zeros(8, np.uint8))
    assert pinned.size() == 8
    del pinned
    gc.collect()
    assert rig.machine.leaks().pinned == 1
    del array
    gc.collect()
    assert rig.machine.leaks().pinned == 0


def test_what_is_alive_is_counted(rig: Rig) -> None:
    assert not rig.machine.leaks()
    stream, memory, (pinned, array) = rig.stream(), rig.memory(64), rig.pinned(np.zeros(8, np.uint8))
    event = rig.event()
    rig.gate(stream)
    leaks = rig.machine.leaks()
    assert (leaks.streams, leaks.events, leaks.blocks, leaks.nbytes) == (1, 1, 1, 64)
    assert (leaks.pinned, leaks.pinned_nbytes, leaks.pending) == (1, 8, 1)
    rig.gates.open()
    stream.synchronize()
    del stream, memory, pinned, array, event
    gc.collect()
    assert not rig.machine.leaks()


# --- arrays -----------------------------------------------------------------------------------------------------------


def test_arrays_are_exchanged(rig: Rig) -> None:
    stream = rig.stream(1)
    with stream:
        array = rig.cupy.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        assert array.get().tolist() == [[0, 1, 2], [3, 4, 5]]
        shown = array.__cuda_array_interface__
        assert (shown["shape"], shown["typestr"], shown["data"]) == ((2, 3), "<f4", (array.data.ptr, False))
        assert shown["stream"] == stream.ptr
        assert array.__dlpack_device__() == (2, 1)
        assert array.device == rig.cupy.cuda.Device(1)

        class Foreign:
            __cuda_array_interface__ = shown

        again = rig.cupy.asarray(Foreign())
        assert (again.data.ptr, again.device.id) == (array.data.ptr, 1)
        assert rig.cupy.asnumpy(again).tolist() == array.get().tolist()
        assert rig.cupy.zeros(3, "i4").get().tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(array)
