"""One kernel, once: over storages instead of slots, recorded for this call alone, and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.operands import Bound, bound
from fuel_async.backends.vulkan.memory import VulkanArray
from fuel_async.backends.vulkan.queue import Submission
from fuel_async.backends.vulkan.script import Script
from fuel_async.backends.vulkan.timeline import Point, Timeline
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, Layout, SubstrateClass, TensorType
from fuel_async.storage import read_storage, write_storage
from fuel_async.streams import WaitStatus, fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import GridKernel
    from fuel_async.backends.vulkan.site import Site
    from fuel_async.dispatch import OpParams
    from fuel_async.storage import Storage


def run_once(
    kernel: GridKernel,
    inputs: Sequence[Storage],
    outputs: Sequence[Storage],
    layouts: Sequence[Layout],
    params: OpParams,
) -> None:
    """Run a kernel over storages of one device, and wait for it. Blocks.

    `KernelArgumentError` for storages that do not lie there, `DeviceError` for what the device may do.
    """
    op, storages = kernel.op.value, (*inputs, *outputs)
    arrays = [_array(op, storage) for storage in storages]
    site = arrays[0].memory.site
    if any(array.memory.site is not site for array in arrays):
        raise KernelArgumentError(op, "the devices of its operands", "not one", "one")
    operands = [
        _bound(site, storage.dtype, layout, place)
        for place, (storage, layout) in enumerate(zip(storages, layouts, strict=True))
    ]
    types = [
        TensorType(layout.shape, storage.dtype, layout.count * storage.dtype.nbytes)
        for storage, layout in zip(storages, layouts, strict=True)
    ]
    for nbytes in kernel.scratch_nbytes(params, types[:-1], types[-1:]):
        operands.append(_bound(site, DType.U8, Layout.contiguous((nbytes,)), len(arrays)))
        arrays.append(site.memory.allocate_array((nbytes,), DType.U8))
    leases: list[Any] = [read_storage(storage) for storage in inputs if storage not in outputs]
    leases += [write_storage(storage) for storage in outputs]
    held = []
    try:
        for lease in leases:
            lease.__enter__()
            held.append(lease)
        _play(kernel, operands, arrays, params, site)
    finally:
        while held:
            held.pop().__exit__(None, None, None)


def _play(
    kernel: GridKernel, operands: Sequence[Bound], arrays: Sequence[VulkanArray], params: OpParams, site: Site
) -> None:
    script = Script(site)
    for dispatch in kernel.dispatches([one.operand for one in operands], params, site.limits):
        script.add(dispatch, operands)
    recording = script.record(lambda space: arrays[space[1]])
    timeline = Timeline(site.context)
    code = site.queue.submit(Submission(site.context, timeline, None, site.peers), recording.commands, 1)
    site.context.check(code, "vkQueueSubmit")
    point = Point(timeline, None)
    point.value = 1
    if point.wait(None) is WaitStatus.LOST and site.context.lost is not None:
        raise fresh(site.context.lost)


def _array(op: str, storage: Storage) -> VulkanArray:
    array = storage.buffer
    if not isinstance(array, VulkanArray):
        raise KernelArgumentError(op, storage.describe(), storage.substrate, SubstrateClass.VulkanBuffer)
    return array


def _bound(site: Site, dtype: DType, layout: Layout, place: int) -> Bound:
    return bound(dtype, layout, (0, place), 0, site.memory.alignment, site.limits)
