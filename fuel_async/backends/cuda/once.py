"""One kernel, once: over storages instead of slots, launched for this call alone, and waited for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.memory import CudaArray
from fuel_async.backends.cuda.script import Launches, Script
from fuel_async.backends.grids.operands import Bound, bound
from fuel_async.errors import DeviceError, KernelArgumentError
from fuel_async.ir import DType, Layout, SubstrateClass, TensorType
from fuel_async.storage import read_storage, write_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.grids.kernel import GridKernel
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

    `KernelArgumentError` for storages that do not lie there, `DeviceError` for what the device may do: then the outputs
    are poisoned.
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
    with ExitStack() as leases:
        for storage in inputs:
            if storage not in outputs:
                leases.enter_context(read_storage(storage))
        for storage in outputs:
            leases.enter_context(write_storage(storage))
        script = Script(site)
        for dispatch in kernel.dispatches([one.operand for one in operands], params, site.limits):
            script.add(dispatch, operands)
        handle = site.lane.submit(_Once(script.bind(lambda space: arrays[space[1]])), arrays)
        try:
            handle.wait()
        except DeviceError:  # it may have written half
            for storage in outputs:
                storage.poison()
            raise


class _Once:
    """Launches as a lane takes them."""

    predicted_ns = 0

    def __init__(self, launches: Launches) -> None:
        self._launches = launches

    def launch(self, stream: Stream, given: Sequence[Sequence[Any]]) -> None:
        """See `lane.Launched`."""
        self._launches.run(stream)


def _array(op: str, storage: Storage) -> CudaArray:
    array = storage.buffer
    if not isinstance(array, CudaArray):
        raise KernelArgumentError(op, storage.describe(), storage.substrate, SubstrateClass.CudaUntyped)
    return array


def _bound(site: Site, dtype: DType, layout: Layout, place: int) -> Bound:
    return bound(dtype, layout, (0, place), 0, site.memory.alignment, site.limits)
