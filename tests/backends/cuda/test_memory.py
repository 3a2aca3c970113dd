"""A device's memory, and copies into it, out of it and between devices."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends import blocks
from fuel_async.backends.cuda import staging
from fuel_async.errors import OutOfMemory, ShapeMismatch
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.streams import WaitStatus
from fuel_async.testing.cuda_double import DeviceModel
from tests.backends.cuda.support import NO_MEMORY, PATIENCE_S, Doubled, Elsewhere, Work, put, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.copying import CopyLane
    from fuel_async.backends.cuda.device import CudaDevice

LARGE = staging.POCKET_NBYTES // 4 + 1


def ways(device: CudaDevice) -> tuple[CopyLane, CopyLane]:
    up, down = device.copy_lane(CPU_DEVICE, device.location), device.copy_lane(device.location, CPU_DEVICE)
    assert up is not None
    assert down is not None
    return up, down


@pytest.mark.parametrize("nbytes", [0, 4, 1_000, 65_536, 65_540, 3 * staging.SLOT_NBYTES + 4, 9 * staging.SLOT_NBYTES])
def test_bytes_come_back_as_they_went(device: CudaDevice, nbytes: int) -> None:
    source = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8).view(np.int32)
    up, down = ways(device)
    for _ in range(2):  # the first copy makes the pockets
        there = device.memory.allocate_array(source.shape, DType.I32)
        sent = up.submit_copy(source, there)
        back = np.zeros_like(source)
        down.submit_copy(there, back, [sent]).wait(PATIENCE_S)
        np.testing.assert_array_equal(back, source)
        np.testing.assert_array_equal(there.read(), source)


@pytest.mark.parametrize("rows", [3, 30_000])
def test_a_strided_array_is_sent_as_it_reads(device: CudaDevice, rows: int) -> None:
    source = np.arange(rows * 20, dtype=np.float32).reshape(2 * rows, 10)[::2, ::-1]
    there, (up, down) = device.memory.allocate_array((rows, 10), DType.F32), ways(device)
    for _ in range(2):
        up.submit_copy(source, there).wait(PATIENCE_S)
        back = np.zeros((10, rows), np.float32).T
        down.submit_copy(there, back).wait(PATIENCE_S)
        np.testing.assert_array_equal(back, source)


def test_scalars_are_copied(device: CudaDevice) -> None:
    there, (up, down) = device.memory.allocate_array((), DType.F32), ways(device)
    for number in (1.5, 2.5):
        up.submit_copy(np.float32(number).reshape(()), there).wait(PATIENCE_S)
        back = np.zeros((), np.float32)
        down.submit_copy(there, back).wait(PATIENCE_S)
        assert back == there.read() == number


def test_copies_of_other_shapes_are_refused(device: CudaDevice) -> None:
    up, _ = ways(device)
    with pytest.raises(ShapeMismatch):
        up.submit_copy(np.zeros(3, np.float32), device.memory.allocate_array((4,), DType.F32)).wait(PATIENCE_S)


def test_nothing_goes_by_the_hosts_own_pages(one: Doubled) -> None:
    (device,) = one.devices
    for count in (64, LARGE):
        there = put(device, values(count))
        np.testing.assert_array_equal(there.read(), values(count))
    counts = one.machine.counts()
    assert counts.copies > 3
    assert counts.pageable_copies == 0


def test_a_small_copy_needs_no_thread_before_a_stream_waits_for_it(one: Doubled) -> None:
    """Upload, program and download are on their streams before the first of them has run."""
    (device,) = one.devices
    up, down = ways(device)
    work = Work(device)
    back = np.zeros(64, np.float32)
    down.submit_copy(work.x, back).wait(PATIENCE_S)  # the way down has its pockets
    before = one.machine.counts()
    one.machine.hang(0)
    sent = up.submit_copy(values(64, 3), work.x)
    ran = work.submit([sent])
    handle = down.submit_copy(work.y, back, [ran])
    after = one.machine.counts()
    assert after.calls["memcpyAsync"] - before.calls["memcpyAsync"] == 2
    assert after.calls["streamWaitEvent"] - before.calls.get("streamWaitEvent", 0) == 2
    assert handle.completion.wait(0.02) is WaitStatus.TIMEOUT
    one.machine.release(0)
    handle.wait(PATIENCE_S)
    np.testing.assert_array_equal(back, values(64, 3))


def test_a_small_upload_has_read_its_source_when_it_is_submitted(one: Doubled) -> None:
    (device,) = one.devices
    up, _ = ways(device)
    there, source = put(device, values(8)), values(8, 1)
    one.machine.hang(0)
    handle = up.submit_copy(source, there)
    source[:] = 0
    one.machine.release(0)
    handle.wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(8, 1))


def test_more_small_copies_than_pockets_keep_their_order(one: Doubled) -> None:
    (device,) = one.devices
    up, _ = ways(device)
    there = put(device, values(8))
    one.machine.hang(0)
    handles = [up.submit_copy(values(8, seed), there) for seed in range(3 * staging.POCKETS)]
    one.machine.release(0)
    for handle in handles:
        handle.wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(8, 3 * staging.POCKETS - 1))
    assert len(up.pockets._free) == staging.POCKETS


def test_a_small_copy_stays_behind_a_large_one(device: CudaDevice) -> None:
    up, down = ways(device)
    whole = put(device, np.zeros(LARGE, np.float32))
    big, small = up.submit_copy(values(LARGE), whole), up.submit_copy(values(LARGE, 1)[:8], put(device, values(8)))
    small.wait(PATIENCE_S)
    assert big.done()
    back = np.zeros(LARGE, np.float32)
    down.submit_copy(whole, back, [big]).wait(PATIENCE_S)
    np.testing.assert_array_equal(back, values(LARGE))


def test_an_upload_waits_until_the_host_has_its_source(device: CudaDevice) -> None:
    up, _ = ways(device)
    there, source, elsewhere = put(device, np.zeros(8, np.float32)), np.zeros(8, np.float32), Elsewhere()
    handle = up.submit_copy(source, there, [elsewhere.handle])
    assert handle.completion.wait(0.02) is WaitStatus.TIMEOUT
    source[:] = values(8)
    elsewhere.end()
    handle.wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(8))


def test_an_upload_waits_with_the_host_for_a_download(device: CudaDevice) -> None:
    """The event of a download says that bytes are in a pocket, not where the next copy reads them."""
    up, down = ways(device)
    first, second, between = put(device, values(8)), put(device, values(8, 1)), np.zeros(8, np.float32)
    came = down.submit_copy(first, between)
    up.submit_copy(between, second, [came]).wait(PATIENCE_S)
    np.testing.assert_array_equal(second.read(), values(8))


# --- between devices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [64, LARGE])
def test_devices_that_reach_each_other_copy_straight(make: Callable[..., Doubled], count: int) -> None:
    both = make(2)
    first, second = both.devices
    lane = second.copy_lane(first.location, second.location)
    assert lane is not None
    assert second.link(first.location, second.location) is not None
    assert first.copy_lane(first.location, second.location) is None, "it is the destination's"
    for seed in range(2):
        here, there = put(first, values(count, seed)), second.memory.allocate_array((count,), DType.F32)
        lane.submit_copy(here, there).wait(PATIENCE_S)
        np.testing.assert_array_equal(there.read(), values(count, seed))
    assert both.machine.counts().calls["memcpyPeerAsync"] == 2
    assert both.machine.counts().staged_peer_copies == 0


def test_devices_that_do_not_reach_each_other_have_no_lane(make: Callable[..., Doubled]) -> None:
    for models, options in (([DeviceModel(), DeviceModel(is_peer=False)], {}), (2, {"peers": False})):
        first, second = make(models, **options).devices
        assert second.copy_lane(first.location, second.location) is None
        assert second.link(first.location, second.location) is None


def test_a_refusal_at_the_first_copy_leads_it_through_the_host(
    make: Callable[..., Doubled], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as too many mappings: it is known only then. The next copies are sent another way."""
    both = make(2)
    first, second = both.devices
    lane, here = second.copy_lane(first.location, second.location), put(first, values(64))
    there = second.memory.allocate_array((64,), DType.F32)
    runtime: Any = second.context.runtime

    def refuse(peer: int) -> None:
        raise runtime.CUDARuntimeError(711)

    monkeypatch.setattr(runtime, "deviceEnablePeerAccess", refuse)
    assert lane is not None
    lane.submit_copy(here, there).wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(64))
    assert second.copy_lane(first.location, second.location) is None
    assert "memcpyPeerAsync" not in both.machine.counts().calls


def test_memory_that_somebody_else_has_mapped_is_mapped(make: Callable[..., Doubled]) -> None:
    """CuPy, or torch, in the same process."""
    both = make(2)
    first, second = both.devices
    lane, here = second.copy_lane(first.location, second.location), put(first, values(64))
    with second.context.here():
        second.context.runtime.deviceEnablePeerAccess(0)
    there = second.memory.allocate_array((64,), DType.F32)
    assert lane is not None
    lane.submit_copy(here, there).wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(64))
    assert both.machine.counts().calls["memcpyPeerAsync"] == 1


# --- budget and blocks --------------------------------------------------------------------------------------------


def test_the_budget_is_kept_and_freed_bytes_are_given_again(make: Callable[..., Doubled]) -> None:
    (device,) = make(memory_nbytes=1 << 20).devices
    assert device.memory.budget_nbytes == 1 << 20
    half: Any = device.memory.allocate_array((1 << 19,), DType.U8)
    with pytest.raises(OutOfMemory, match="its budget is 1,048,576 bytes, of which 524,288 are in use"):
        device.memory.allocate_array(((1 << 19) + 1,), DType.U8)
    place = half.ptr
    del half
    gc.collect()
    assert device.memory.allocate(1 << 20).bytes.ptr == place
    assert device.memory.used_nbytes == 0
    assert device.memory.reserved_nbytes == 1 << 20


def test_a_device_that_has_less_than_was_asked_for_gives_what_it_has(make: Callable[..., Doubled]) -> None:
    """Somebody else has taken most of it: a block of the usual size is refused, one that is just large enough not."""
    one = make([DeviceModel(memory_nbytes=8 << 20)], memory_nbytes=1 << 30)
    (device,) = one.devices
    array = device.memory.allocate_array((1 << 20,), DType.U8)
    assert device.memory.reserved_nbytes == 1 << 20
    with pytest.raises(OutOfMemory, match="cudaMalloc said cudaErrorMemoryAllocation"):
        device.memory.allocate_array((8 << 20,), DType.U8)
    assert array.nbytes == 1 << 20


def test_a_refusal_gives_back_what_idles_and_asks_once_more(make: Callable[..., Doubled]) -> None:
    one = make([DeviceModel(memory_nbytes=40 << 20)], memory_nbytes=1 << 30)
    (device,) = one.devices
    array: Any = device.memory.allocate_array((16,), DType.U8)
    assert device.memory.reserved_nbytes == blocks.BLOCK_NBYTES
    del array
    gc.collect()
    device.memory.allocate_array((36 << 20,), DType.U8)
    assert one.machine.counts().calls["malloc"] == 3


def test_an_allocation_that_fails_leaves_nothing(one: Doubled) -> None:
    (device,) = one.devices
    one.machine.inject_error(0, NO_MEMORY, at="malloc", times=2)
    with pytest.raises(OutOfMemory):
        device.memory.allocate(1_000)
    assert (device.memory.used_nbytes, device.memory.reserved_nbytes) == (0, 0)
    device.memory.allocate(1_000)


def test_arrays_are_aligned_for_every_kernel(device: CudaDevice) -> None:
    arrays = [device.memory.allocate_array((size,), DType.U8) for size in (1, 0, 255, 257, 4_096)]
    assert all(array.ptr % 256 == 0 for array in arrays)
    ends = sorted((array.ptr, array.ptr + max(array.nbytes, 1)) for array in arrays)
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_freed_bytes_are_filled_where_that_is_asked_for(make: Callable[..., Doubled]) -> None:
    (device,) = make(poison=True).devices
    array = put(device, values(64))
    place = array.ptr
    del array
    gc.collect()
    again = device.memory.allocate_array((256,), DType.U8)
    assert again.ptr == place
    assert set(again.read().tolist()) == {0xDD}


def test_bytes_come_back_only_behind_the_work_that_uses_them(one: Doubled) -> None:
    """The caller lets go of everything while the device works: the work holds what it was given."""
    (device,) = one.devices
    work: Any = Work(device)
    x = work.x.ptr
    one.machine.hang(0)
    handle = work.submit()
    del work
    gc.collect()
    taken = [device.memory.allocate_array((64,), DType.F32) for _ in range(4)]
    assert x not in [array.ptr for array in taken]
    one.machine.release(0)
    handle.wait(PATIENCE_S)
    gc.collect()
    taken += [device.memory.allocate_array((64,), DType.F32) for _ in range(4)]
    assert x in [array.ptr for array in taken]
