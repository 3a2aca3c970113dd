"""A device's memory: stretches of blocks, the budget, kinds of memory, and copies in and out."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends import blocks
from fuel_async.backends.vulkan import staging
from fuel_async.backends.vulkan.memory import choose_type, staging_type
from fuel_async.backends.vulkan.physical import (
    DEVICE_LOCAL,
    HOST_CACHED,
    HOST_COHERENT,
    HOST_VISIBLE,
    MemoryType,
)
from fuel_async.errors import OutOfMemory, ShapeMismatch
from fuel_async.ir import CPU_DEVICE, DType
from tests.backends.grids.devices import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice

SEEN = HOST_VISIBLE | HOST_COHERENT


def test_kinds_of_memory_are_chosen_by_what_the_host_can_do_with_them() -> None:
    """A discrete card, one with a small window, an integrated one, and the option that hides it."""
    own, window = MemoryType(0, DEVICE_LOCAL, 0, 8 << 30), MemoryType(3, DEVICE_LOCAL | SEEN, 2, 256 << 20)
    slow, cached = MemoryType(1, SEEN, 1, 16 << 30), MemoryType(2, SEEN | HOST_CACHED, 1, 16 << 30)
    whole = MemoryType(4, DEVICE_LOCAL | SEEN, 0, 8 << 30)
    shared = MemoryType(0, DEVICE_LOCAL | SEEN | HOST_CACHED, 0, 4 << 30)
    assert choose_type([own, slow, cached]) == (own, False)
    assert choose_type([own, slow, cached, window]) == (own, False)
    assert choose_type([own, slow, cached, whole]) == (own, False), "reading through an uncached window is slow"
    assert choose_type([shared]) == (shared, True)
    assert choose_type([shared], staged=True) == (shared, False)
    assert staging_type([own, slow, cached, window]) == cached


@pytest.mark.parametrize("nbytes", [0, 4, 1_000, 70_000, 3 * staging.SLOT_NBYTES + 4, 9 * staging.SLOT_NBYTES])
def test_bytes_come_back_as_they_went(make: Callable[..., VulkanDevice], staged: bool, nbytes: int) -> None:
    device = make(staged=staged)
    source = np.random.default_rng(0).integers(0, 256, nbytes // 4 * 4, np.uint8).view(np.int32)
    there = device.memory.allocate_array(source.shape, DType.I32)
    up, down = device.copy_lane(CPU_DEVICE, device.location), device.copy_lane(device.location, CPU_DEVICE)
    assert up is not None
    assert down is not None
    sent = up.submit_copy(source, there)
    back = np.zeros_like(source)
    down.submit_copy(there, back, [sent]).wait(PATIENCE_S)
    np.testing.assert_array_equal(back, source)
    np.testing.assert_array_equal(there.read(), source)


def test_a_strided_array_is_sent_as_it_reads(make: Callable[..., VulkanDevice], staged: bool) -> None:
    device = make(staged=staged)
    source = np.arange(60, dtype=np.float32).reshape(6, 10)[::2, ::-1]
    there = device.memory.allocate_array((3, 10), DType.F32)
    up, down = device.copy_lane(CPU_DEVICE, device.location), device.copy_lane(device.location, CPU_DEVICE)
    assert up is not None
    assert down is not None
    up.submit_copy(source, there).wait(PATIENCE_S)
    back = np.zeros((10, 3), np.float32).T
    down.submit_copy(there, back).wait(PATIENCE_S)
    np.testing.assert_array_equal(back, source)


def test_copies_of_other_shapes_are_refused(device: VulkanDevice) -> None:
    up = device.copy_lane(CPU_DEVICE, device.location)
    assert up is not None
    with pytest.raises(ShapeMismatch):
        up.submit_copy(np.zeros(3, np.float32), device.memory.allocate_array((4,), DType.F32)).wait(PATIENCE_S)


def test_the_budget_is_kept_and_freed_bytes_are_given_again(make: Callable[..., VulkanDevice]) -> None:
    device = make(memory_nbytes=1 << 20)
    assert device.memory.budget_nbytes == 1 << 20
    half: Any = device.memory.allocate_array((1 << 19,), DType.U8)
    with pytest.raises(OutOfMemory, match="its budget is 1,048,576 bytes, of which 524,288 are in use"):
        device.memory.allocate_array(((1 << 19) + 1,), DType.U8)
    place = (half.block.number, half.offset)
    del half
    gc.collect()
    whole = device.memory.allocate(1 << 20)
    assert (whole.bytes.block.number, whole.bytes.offset) == place
    assert device.memory.used_nbytes == device.memory.reserved_nbytes == 1 << 20


def test_a_block_that_nobody_uses_makes_room_for_a_larger_one(make: Callable[..., VulkanDevice]) -> None:
    device = make(memory_nbytes=3 << 20)
    size = 1 << 20
    small = [device.memory.allocate_array((size,), DType.U8)]
    device.memory.allocate_array((size // 2,), DType.U8)
    del small[0]
    gc.collect()
    device.memory.allocate_array((3 << 20,), DType.U8)
    assert device.memory.reserved_nbytes <= 3 << 20


def test_arrays_are_aligned_for_every_device(device: VulkanDevice) -> None:
    arrays = [device.memory.allocate_array((size,), DType.U8) for size in (1, 0, 255, 257, 4_096)]
    assert all(array.offset % 256 == 0 for array in arrays)
    ends = sorted((array.offset, array.offset + max(array.nbytes, 1)) for array in arrays)
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_what_one_allocation_may_not_have_is_refused_before_the_driver_is_asked(
    make: Callable[..., VulkanDevice],
) -> None:
    device = make(memory_nbytes=1 << 45)
    with pytest.raises(OutOfMemory, match="the most that one allocation may have"):
        device.memory.allocate(1 << 44)
    assert device.memory.used_nbytes == 0


def test_a_block_is_large_unless_the_budget_is_small(device: VulkanDevice) -> None:
    device.memory.allocate_array((4,), DType.U8)
    assert device.memory.reserved_nbytes == blocks.BLOCK_NBYTES
