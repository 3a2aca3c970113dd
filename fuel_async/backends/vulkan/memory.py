"""A device's memory: arenas and arrays cut from a few large blocks, within a budget.

The budget is enforced here, since drivers enforce none: some give gigabytes beyond their heaps.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.grids.blocks import Block, Blocks
from fuel_async.backends.vulkan.physical import DEVICE_LOCAL, HOST_CACHED, HOST_COHERENT, HOST_VISIBLE, MemoryType
from fuel_async.dispatch import SlotClass, SlotTable
from fuel_async.errors import InternalError, OutOfMemory
from fuel_async.ir import DType
from fuel_async.streams import fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.site import Site
    from fuel_async.backends.vulkan.staging import StagingRing

#: The share of a device's largest heap that may be in use unless an executor says otherwise.
DEFAULT_BUDGET_SHARE = 0.8

#: Storage buffer, source and destination of copies.
_USAGE = 0x20 | 0x1 | 0x2

#: Memory that the host reads and writes where it lies, without flushing, and not slower than its own.
MAPPED = HOST_VISIBLE | HOST_COHERENT | HOST_CACHED


class VulkanBlock(Block):
    """One allocation of the driver's, with a buffer over all of it; mapped where the host can see it."""

    __slots__ = ("buffer", "host")

    def __init__(self, number: int, buffer: Any, nbytes: int, host: NDArray[np.uint8] | None) -> None:
        super().__init__(number, nbytes)
        self.buffer, self.host = buffer, host


class VulkanArray:
    """A row-major array in a device's memory. Its bytes are its own, or those of the array that it is a part of."""

    __slots__ = ("__weakref__", "_host", "block", "dtype", "memory", "nbytes", "offset", "owner", "shape")

    def __init__(
        self,
        memory: VulkanMemory,
        block: VulkanBlock,
        offset: int,
        shape: tuple[int, ...],
        dtype: DType,
        owner: VulkanArray | None = None,
    ) -> None:
        self.memory, self.block, self.offset, self.shape, self.dtype = memory, block, offset, shape, dtype
        self.nbytes = math.prod(shape) * dtype.nbytes
        #: Whose bytes they are; kept alive by this.
        self.owner = owner
        self._host: NDArray[Any] | None = None

    @property
    def host(self) -> NDArray[Any] | None:
        """The array as the host sees it; None where it cannot."""
        if self._host is None and self.block.host is not None:
            self._host = np.ndarray(self.shape, self.dtype.require_np(), self.block.host, self.offset)
        return self._host

    def read(self) -> NDArray[Any]:
        """A copy in the host's memory, of what no submission under way writes. Blocks. `DeviceError`."""
        copy = np.empty(self.shape, self.dtype.require_np())
        memory, seen = self.memory, self.host
        if memory.context.lost is not None:
            raise fresh(memory.context.lost)
        if memory.ring is not None:
            memory.ring.download(self, copy)
        elif seen is not None:
            np.copyto(copy, seen)
        return copy

    def __repr__(self) -> str:
        return f"<VulkanArray {self.dtype}{list(self.shape)} on {self.memory.context.name}>"


class VulkanArena:
    """Bytes for the temporaries of one plan, as one array; belongs to one run at a time."""

    __slots__ = ("__weakref__", "_arrays", "bytes", "nbytes")

    def __init__(self, whole: VulkanArray) -> None:
        self.bytes, self.nbytes = whole, whole.nbytes
        self._arrays: dict[int, VulkanArray] = {}

    def array(self, slots: SlotTable, slot: int) -> VulkanArray:
        """A temporary as copies take it; an output of a bundle lies row-major some bytes into that."""
        found = self._arrays.get(slot)
        if found is None:
            if slots.classes[slot] != SlotClass.TEMPORARY:
                raise InternalError(f"slot {slot} of class {slots.classes[slot]} is not in the arena")
            kind, layout, whole = slots.types[slot], slots.layouts[slot], self.bytes
            shape: Any = kind.shape  # concrete: plans are made of nothing else
            offset = whole.offset + slots.places[slot] + (layout.offset * kind.dtype.nbytes if layout else 0)
            found = VulkanArray(whole.memory, whole.block, offset, shape, kind.dtype, whole)
            self._arrays[slot] = found
        return found


class VulkanMemory:
    """A device's memory. Any thread."""

    def __init__(self, context: Context, budget_nbytes: int | None = None) -> None:
        self.context = context
        self.kind, self.is_mapped = choose_type(context.physical.memory_types, staged=context.options.staged)
        self.budget_nbytes = budget_nbytes or int(self.kind.heap_nbytes * DEFAULT_BUDGET_SHARE)
        self.alignment = context.physical.alignment
        self._blocks = Blocks(context.name, self.budget_nbytes, self.alignment, self._make)
        #: What copies go through where the host cannot see the bytes.
        self.ring: StagingRing | None = None
        #: The device that it belongs to; set by that.
        self.site: Site

    @property
    def used_nbytes(self) -> int:
        """Bytes in use, as they count against the budget."""
        return self._blocks.used_nbytes

    @property
    def reserved_nbytes(self) -> int:
        """Bytes that the driver has given."""
        return self._blocks.reserved_nbytes

    def allocate(self, nbytes: int) -> VulkanArena:
        """An arena. `OutOfMemory` when it does not fit beside what is in use, or the driver refuses."""
        return VulkanArena(self.allocate_array((nbytes,), DType.U8))

    def allocate_array(self, shape: tuple[int, ...], dtype: DType) -> VulkanArray:
        """A row-major array. `OutOfMemory` as for an arena, `DeviceLost` on a lost device."""
        context = self.context
        if context.lost is not None:
            raise fresh(context.lost)
        place = self._blocks.take(math.prod(shape) * dtype.nbytes)
        made = VulkanArray(self, place[0], place[1], shape, dtype)
        self._blocks.give_with(made, place)
        return made

    def _make(self, nbytes: int, number: int) -> VulkanBlock:
        return make_block(self.context, self.kind, nbytes, number, mapped=self.is_mapped)


def choose_type(kinds: Sequence[MemoryType], *, staged: bool = False) -> tuple[MemoryType, bool]:
    """The kind of memory that arrays lie in, and whether the host works on them where they are.

    The device's own, of its largest heap; the host's view of it is used only where it is coherent and cached, since
    reading through an uncached one is slower than copying.
    """
    own = [kind for kind in kinds if kind.has(DEVICE_LOCAL)] or list(kinds)
    largest = max(kind.heap_nbytes for kind in own)
    own = [kind for kind in own if kind.heap_nbytes == largest]
    mapped = next((kind for kind in own if kind.has(MAPPED)), None)
    if mapped is not None and not staged:
        return mapped, True
    return min(own, key=lambda kind: (kind.has(HOST_VISIBLE), kind.number)), False


def staging_type(kinds: Sequence[MemoryType]) -> MemoryType:
    """The kind of memory that copies go through: every device has one that is visible and coherent."""
    visible = [kind for kind in kinds if kind.has(HOST_VISIBLE | HOST_COHERENT)]
    return max(visible, key=lambda kind: (kind.has(HOST_CACHED), kind.heap_nbytes))


def make_block(context: Context, kind: MemoryType, nbytes: int, number: int, *, mapped: bool) -> VulkanBlock:
    """Allocate, bind and map. `OutOfMemory` when the driver refuses any of it; then nothing is left behind."""
    ffi, lib, keep, handle = context.ffi, context.lib, context.keep(), context.handle
    if nbytes > context.physical.max_allocation_nbytes:
        most = context.physical.max_allocation_nbytes
        raise OutOfMemory(context.name, nbytes, most, ", the most that one allocation may have")
    made: list[tuple[Any, Any]] = []
    try:
        info = keep.struct("BufferCreateInfo", "BUFFER_CREATE_INFO", size=nbytes, usage=_USAGE, sharingMode=0)
        buffer = context.create("vkCreateBuffer", info, "VkBuffer")
        made.append((lib.vkDestroyBuffer, buffer))
        needs = keep.struct("MemoryRequirements")
        lib.vkGetBufferMemoryRequirements(handle, buffer, needs)
        info = keep.struct(
            "MemoryAllocateInfo", "MEMORY_ALLOCATE_INFO", allocationSize=needs.size, memoryTypeIndex=kind.number
        )
        memory = ffi.new("VkDeviceMemory *")
        code = lib.vkAllocateMemory(handle, info, ffi.NULL, memory)
        context.check(code, "vkAllocateMemory", nbytes, kind.heap_nbytes)
        made.append((lib.vkFreeMemory, memory[0]))
        context.check(lib.vkBindBufferMemory(handle, buffer, memory[0], 0), "vkBindBufferMemory", nbytes)
        host: NDArray[np.uint8] | None = None
        if mapped:
            place = ffi.new("void **")
            context.check(lib.vkMapMemory(handle, memory[0], 0, nbytes, 0, place), "vkMapMemory", nbytes)
            host = np.frombuffer(ffi.buffer(place[0], nbytes), np.uint8)
    except BaseException:
        _destroy(made, context)
        raise
    block = VulkanBlock(number, buffer, nbytes, host)
    weakref.finalize(block, _destroy, made, context).atexit = False
    return block


def _destroy(made: list[tuple[Any, Any]], context: Context) -> None:
    """The buffer, then its memory; the context is kept until then."""
    for destroy, one in made:
        context.destroy(destroy, one)
