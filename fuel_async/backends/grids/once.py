"""One kernel, once: over storages instead of slots, launched for this call alone, and waited for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fuel_async.backends.grids.memory import GridArray, Site
from fuel_async.backends.grids.operands import Bound, bound
from fuel_async.errors import DeviceError, KernelArgumentError
from fuel_async.ir import DType, Layout, SubstrateClass, TensorType
from fuel_async.storage import read_storage, write_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, GridKernel
    from fuel_async.dispatch import OpParams
    from fuel_async.storage import Storage


A = TypeVar("A", bound=GridArray)
S = TypeVar("S", bound=Site)


class Alone(Generic[A, S]):
    """Runs single kernels for one backend. Any thread."""

    def __init__(
        self,
        kind: type[A],
        substrate: SubstrateClass,
        launch: Callable[[S, Sequence[Dispatch], Sequence[Bound], Sequence[A]], Callable[[], object]],
    ) -> None:
        """Storages lie in arrays of `kind`, whose substrate is told where one does not.

        `launch` starts dispatches over operands, whose spaces are places among the arrays, and gives what blocks until
        they have ended. `DeviceError` from itself means that nothing was started.
        """
        self._kind, self._substrate, self._launch = kind, substrate, launch

    def run(
        self,
        kernel: GridKernel,
        inputs: Sequence[Storage],
        outputs: Sequence[Storage],
        layouts: Sequence[Layout],
        params: OpParams,
    ) -> None:
        """Run a kernel over storages of one device, and wait for it. Blocks.

        `KernelArgumentError` for storages that do not lie there, `DeviceError` for what the device may do: when that
        came while it was under way, the outputs are poisoned.
        """
        op, storages = kernel.op.value, (*inputs, *outputs)
        arrays = [self._array(op, storage) for storage in storages]
        site: Any = arrays[0].memory.site
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
            dispatches = kernel.dispatches([one.operand for one in operands], params, site.limits)
            wait = self._launch(site, dispatches, operands, arrays)
            try:
                wait()
            except DeviceError:  # it may have written half
                for storage in outputs:
                    storage.poison()
                raise

    def _array(self, op: str, storage: Storage) -> A:
        array = storage.buffer
        if not isinstance(array, self._kind):
            raise KernelArgumentError(op, storage.describe(), storage.substrate, self._substrate)
        return array


def _bound(site: Site, dtype: DType, layout: Layout, place: int) -> Bound:
    return bound(dtype, layout, (0, place), 0, site.memory.alignment, site.limits)
