"""Recording command buffers: pools that an instance owns, and the few commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.vulkan.pipelines import COMPUTE_STAGE, STORAGE_BUFFER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.pipelines import Pipeline

_COMPUTE = 1  # VK_PIPELINE_BIND_POINT_COMPUTE

# Stages and accesses of Vulkan 1.3, tables 3 and 4.
_STAGE_COMPUTE, _STAGE_TRANSFER, _STAGE_HOST = 0x800, 0x1000, 0x4000
_SHADER_READ, _SHADER_WRITE, _TRANSFER_READ, _TRANSFER_WRITE = 0x20, 0x40, 0x800, 0x1000
_HOST_READ, _HOST_WRITE = 0x2000, 0x4000


class Barriers:
    """The three barriers there are, with structs made once a device.

    Whatever was submitted before precedes what follows a leading one: the order of a queue alone is no dependency of
    memory. A trailing one lets the host read.
    """

    __slots__ = ("_between", "_keep", "_leading", "_lib", "_null", "_trailing")

    def __init__(self, context: Context) -> None:
        keep = self._keep = context.keep()
        self._lib, self._null = context.lib, context.ffi.NULL

        def barrier(before: int, after: int) -> Any:
            return keep.struct("MemoryBarrier", "MEMORY_BARRIER", srcAccessMask=before, dstAccessMask=after)

        device_writes = _SHADER_WRITE | _TRANSFER_WRITE
        device = device_writes | _SHADER_READ | _TRANSFER_READ
        self._leading = barrier(device_writes | _HOST_WRITE, device)
        self._between = barrier(_SHADER_WRITE, _SHADER_READ | _SHADER_WRITE)
        self._trailing = barrier(device_writes, _HOST_READ)

    def leading(self, commands: Any) -> None:
        """Begin a command buffer with this."""
        work = _STAGE_COMPUTE | _STAGE_TRANSFER
        self._put(commands, work | _STAGE_HOST, work, self._leading)

    def between(self, commands: Any) -> None:
        """Put this between two dispatches of which the second depends on the first."""
        self._put(commands, _STAGE_COMPUTE, _STAGE_COMPUTE, self._between)

    def trailing(self, commands: Any) -> None:
        """End a command buffer with this."""
        self._put(commands, _STAGE_COMPUTE | _STAGE_TRANSFER, _STAGE_HOST, self._trailing)

    def _put(self, commands: Any, before: int, after: int, barrier: Any) -> None:
        null = self._null
        self._lib.vkCmdPipelineBarrier(commands, before, after, 0, 1, barrier, 0, null, 0, null)


class Commands:
    """A pool and the command buffers from it. One thread at a time; freed with it."""

    __slots__ = ("__weakref__", "_context", "_info", "_keep", "_pool")

    def __init__(self, context: Context) -> None:
        self._context, keep = context, context.keep()
        self._keep = keep
        reset_each = 0x2
        info = keep.struct(
            "CommandPoolCreateInfo", "COMMAND_POOL_CREATE_INFO", flags=reset_each, queueFamilyIndex=context.family
        )
        self._pool = context.create("vkCreateCommandPool", info, "VkCommandPool")
        context.end_with(self, "vkDestroyCommandPool", self._pool)
        self._info = keep.struct("CommandBufferBeginInfo", "COMMAND_BUFFER_BEGIN_INFO")

    def allocate(self) -> Any:
        """One more command buffer, as the array of one that a submission takes."""
        context, keep = self._context, self._context.keep()
        info = keep.struct(
            "CommandBufferAllocateInfo",
            "COMMAND_BUFFER_ALLOCATE_INFO",
            commandPool=self._pool,
            commandBufferCount=1,
        )
        made = context.ffi.new("VkCommandBuffer[1]")
        context.check(context.lib.vkAllocateCommandBuffers(context.handle, info, made), "vkAllocateCommandBuffers")
        return made

    def begin(self, commands: Any) -> None:
        """Begin anew; what was recorded is gone."""
        self._context.check(self._context.lib.vkBeginCommandBuffer(commands, self._info), "vkBeginCommandBuffer")

    def end(self, commands: Any) -> None:
        """End the recording. `OutOfMemory` may come only here."""
        self._context.check(self._context.lib.vkEndCommandBuffer(commands), "vkEndCommandBuffer")


class DescriptorSets:
    """A pool with the sets of one instance. Freed with it."""

    __slots__ = ("__weakref__", "_context", "_keep", "_pool", "sets")

    def __init__(self, context: Context, pipelines: Sequence[Pipeline]) -> None:
        """One set for each of `pipelines`, in order. `OutOfMemory` when the driver refuses."""
        self._context, keep = context, context.keep()
        self._keep = keep
        count = len(pipelines)
        sizes = keep.struct(
            "DescriptorPoolSize",
            type=STORAGE_BUFFER,
            descriptorCount=max(sum([pipeline.bindings for pipeline in pipelines]), 1),
        )
        info = keep.struct(
            "DescriptorPoolCreateInfo",
            "DESCRIPTOR_POOL_CREATE_INFO",
            maxSets=max(count, 1),
            poolSizeCount=1,
            pPoolSizes=sizes,
        )
        self._pool = context.create("vkCreateDescriptorPool", info, "VkDescriptorPool")
        context.end_with(self, "vkDestroyDescriptorPool", self._pool)
        self.sets = context.ffi.new("VkDescriptorSet[]", max(count, 1))
        if count:
            info = keep.struct(
                "DescriptorSetAllocateInfo",
                "DESCRIPTOR_SET_ALLOCATE_INFO",
                descriptorPool=self._pool,
                descriptorSetCount=count,
                pSetLayouts=keep.array("VkDescriptorSetLayout", [pipeline.set_layout for pipeline in pipelines]),
            )
            code = context.lib.vkAllocateDescriptorSets(context.handle, info, self.sets)
            context.check(code, "vkAllocateDescriptorSets")

    def write(self, entries: Iterable[tuple[int, int, Any, int, int]]) -> None:
        """Fill bindings: (set, binding, buffer, offset, bytes). No command buffer that uses them may be under way."""
        ffi, rows = self._context.ffi, list(entries)
        infos = ffi.new("VkDescriptorBufferInfo[]", len(rows) or 1)
        writes = ffi.new("VkWriteDescriptorSet[]", len(rows) or 1)
        tag = self._context.lib.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
        for place, (number, binding, buffer, offset, nbytes) in enumerate(rows):
            info, write = infos[place], writes[place]
            info.buffer, info.offset, info.range = buffer, offset, nbytes
            write.sType, write.dstSet, write.dstBinding = tag, self.sets[number], binding
            write.descriptorCount, write.descriptorType, write.pBufferInfo = 1, STORAGE_BUFFER, infos + place
        self._context.lib.vkUpdateDescriptorSets(self._context.handle, len(rows), writes, 0, ffi.NULL)


def bind(lib: Any, commands: Any, pipeline: Any, layout: Any, sets: Any, null: Any) -> None:
    """Bind a pipeline and one descriptor set; `pipeline` None leaves the one that is bound."""
    if pipeline is not None:
        lib.vkCmdBindPipeline(commands, _COMPUTE, pipeline)
    lib.vkCmdBindDescriptorSets(commands, _COMPUTE, layout, 0, 1, sets, 0, null)


def push(lib: Any, commands: Any, layout: Any, data: Any, nbytes: int) -> None:
    """Give push constants."""
    lib.vkCmdPushConstants(commands, layout, COMPUTE_STAGE, 0, nbytes, data)
