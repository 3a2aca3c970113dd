"""Pipelines of shaders, each made once a device: module, layouts, specialization."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from fuel_async.backends.vulkan.kernels.code import code_of
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from fuel_async.backends.grids.kernel import Shader
    from fuel_async.backends.vulkan.context import Context

#: VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, VK_SHADER_STAGE_COMPUTE_BIT.
STORAGE_BUFFER, COMPUTE_STAGE = 7, 0x20


class Pipeline(NamedTuple):
    """What a dispatch binds."""

    handle: Any
    layout: Any
    set_layout: Any
    bindings: int


class Pipelines:
    """All pipelines of a device; they are destroyed with its context. Any thread."""

    def __init__(self, context: Context) -> None:
        self._context, self._lock = context, threading.RLock()
        self._made: dict[Shader, Pipeline] = {}
        #: By the number of bindings; by that and the size of the push constants.
        self._set_layouts: dict[int, Any] = {}
        self._layouts: dict[tuple[int, int], Any] = {}

    def __len__(self) -> int:
        return len(self._made)

    def get(self, shader: Shader) -> Pipeline:
        """The pipeline of a shader. Takes milliseconds the first time. `DeviceError` when the driver refuses it."""
        found = self._made.get(shader)
        if found is None:
            with self._lock:
                found = self._made.get(shader)
                if found is None:
                    found = self._made[shader] = self._make(shader)
        return found

    def _make(self, shader: Shader) -> Pipeline:
        context, keep, ffi, lib = self._context, self._context.keep(), self._context.ffi, self._context.lib
        lacking = shader.needs - context.physical.limits.features
        if lacking:
            raise InternalError(f"shader {shader.name} needs {', '.join(sorted(lacking))}, which {context.name} lacks")
        code = code_of(shader, context.physical.limits.features)
        if len(code) % 4:
            raise InternalError(f"shader {shader.name} has {len(code)} bytes, which is no number of words")
        layout = self._layout(shader.bindings, shader.push_nbytes)
        words = keep.array("uint32_t", len(code) // 4)
        ffi.memmove(words, code, len(code))
        info = keep.struct("ShaderModuleCreateInfo", "SHADER_MODULE_CREATE_INFO", codeSize=len(code), pCode=words)
        module = context.create("vkCreateShaderModule", info, "VkShaderModule")
        try:
            stage = keep.struct(
                "PipelineShaderStageCreateInfo",
                "PIPELINE_SHADER_STAGE_CREATE_INFO",
                stage=COMPUTE_STAGE,
                module=module,
                pName=keep.text("main"),
                pSpecializationInfo=self._specialization(shader.spec, keep),
            )
            info = keep.struct(
                "ComputePipelineCreateInfo",
                "COMPUTE_PIPELINE_CREATE_INFO",
                stage=stage[0],
                layout=layout,
                basePipelineIndex=-1,
            )
            made = ffi.new("VkPipeline *")
            result = lib.vkCreateComputePipelines(context.handle, ffi.NULL, 1, info, ffi.NULL, made)
            context.check(result, f"vkCreateComputePipelines of {shader.name}")
        finally:
            lib.vkDestroyShaderModule(context.handle, module, ffi.NULL)
        context.own("vkDestroyPipeline", made[0])
        return Pipeline(made[0], layout, self._set_layouts[shader.bindings], shader.bindings)

    def _specialization(self, values: tuple[int, ...], keep: Any) -> Any:
        if not values:
            return self._context.ffi.NULL
        entries = keep.array("VkSpecializationMapEntry", len(values))
        for number in range(len(values)):
            entries[number].constantID, entries[number].offset, entries[number].size = number, 4 * number, 4
        data = keep.array("uint32_t", [value & 0xFFFFFFFF for value in values])
        return keep.struct(
            "SpecializationInfo",
            mapEntryCount=len(values),
            pMapEntries=entries,
            dataSize=4 * len(values),
            pData=data,
        )

    def _layout(self, bindings: int, push_nbytes: int) -> Any:
        found = self._layouts.get((bindings, push_nbytes))
        if found is None:
            keep = self._context.keep()
            ranges = keep.struct("PushConstantRange", stageFlags=COMPUTE_STAGE, size=push_nbytes)
            info = keep.struct(
                "PipelineLayoutCreateInfo",
                "PIPELINE_LAYOUT_CREATE_INFO",
                setLayoutCount=1,
                pSetLayouts=keep.array("VkDescriptorSetLayout", [self._set_layout(bindings)]),
                pushConstantRangeCount=1 if push_nbytes else 0,
                pPushConstantRanges=ranges,
            )
            found = self._context.create(
                "vkCreatePipelineLayout", info, "VkPipelineLayout", child="vkDestroyPipelineLayout"
            )
            self._layouts[bindings, push_nbytes] = found
        return found

    def _set_layout(self, bindings: int) -> Any:
        found = self._set_layouts.get(bindings)
        if found is None:
            keep = self._context.keep()
            buffers = keep.array("VkDescriptorSetLayoutBinding", bindings)
            for number in range(bindings):
                one = buffers[number]
                one.binding, one.descriptorType, one.descriptorCount = number, STORAGE_BUFFER, 1
                one.stageFlags = COMPUTE_STAGE
            info = keep.struct(
                "DescriptorSetLayoutCreateInfo",
                "DESCRIPTOR_SET_LAYOUT_CREATE_INFO",
                bindingCount=bindings,
                pBindings=buffers,
            )
            found = self._context.create(
                "vkCreateDescriptorSetLayout", info, "VkDescriptorSetLayout", child="vkDestroyDescriptorSetLayout"
            )
            self._set_layouts[bindings] = found
        return found
