"""A device's memory: which of its kinds arrays lie in, and arenas and arrays cut from blocks of that."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.blocks import Block
from fuel_async.backends.grids.memory import GridArray, GridMemory
from fuel_async.backends.vulkan.physical import DEVICE_LOCAL, HOST_CACHED, HOST_COHERENT, HOST_VISIBLE, MemoryType
from fuel_async.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.site import Site
    from fuel_async.backends.vulkan.staging import StagingRing
    from fuel_async.ir import DType

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


class VulkanArray(GridArray):
    """An array as copies see it: a view of the host's, where that sees the memory."""

    __slots__ = ("_host",)

    memory: VulkanMemory
    block: VulkanBlock

    def __init__(
        self,
        memory: VulkanMemory,
        block: VulkanBlock,
        offset: int,
        shape: tuple[int, ...],
        dtype: DType,
        owner: VulkanArray | None = None,
    ) -> None:
        super().__init__(memory, block, offset, shape, dtype, owner)
        self._host: NDArray[Any] | None = None

    @property
    def host(self) -> NDArray[Any] | None:
        """The array as the host sees it; None where it cannot."""
        if self._host is None and self.block.host is not None:
            self._host = np.ndarray(self.shape, self.dtype.require_np(), self.block.host, self.offset)
        return self._host

    def _read_into(self, copy: NDArray[Any]) -> None:
        if self.memory.ring is not None:
            self.memory.ring.download(self, copy)
        elif self.host is not None:
            np.copyto(copy, self.host)


class VulkanMemory(GridMemory[VulkanArray]):
    """A device's memory. Any thread."""

    context: Context
    site: Site

    def __init__(self, context: Context, budget_nbytes: int | None = None) -> None:
        physical = context.physical
        self.kind, self.is_mapped = choose_type(physical.memory_types, staged=context.options.staged)
        super().__init__(context, VulkanArray, self.kind.heap_nbytes, budget_nbytes, physical.alignment)
        #: What copies go through where the host cannot see the bytes.
        self.ring: StagingRing | None = None

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
