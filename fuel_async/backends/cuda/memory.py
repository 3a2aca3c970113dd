"""A device's memory: arenas and arrays cut from plain allocations, within a budget.

Work holds what it is given until its event has been reached. So the bytes of an array that was collected are used by
nothing that is under way, on whatever stream, and may be given again at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fuel_async.backends.blocks import Block, Stretch
from fuel_async.backends.cuda.interchange import DLPACK_CUDA, array_interface, exported
from fuel_async.backends.cuda.statuses import error_of
from fuel_async.backends.grids.memory import GridArray, GridMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.staging import Ring
    from fuel_async.ir import DType

#: What arrays begin at multiples of, as allocations of the driver do.
ALIGNMENT = 256

#: What freed bytes are filled with, where that is asked for.
POISON = 0xDD


class CudaBlock(Block):
    """One allocation of the driver's."""

    __slots__ = ("ptr",)

    def __init__(self, number: int, nbytes: int, ptr: int) -> None:
        super().__init__(number, nbytes)
        self.ptr = ptr


class CudaArray(GridArray):
    """An array as kernels and other libraries see it: by its address."""

    __slots__ = ("ptr",)

    memory: CudaMemory
    block: CudaBlock

    def __init__(
        self,
        memory: CudaMemory,
        block: CudaBlock,
        offset: int,
        shape: tuple[int, ...],
        dtype: DType,
        owner: Any = None,
    ) -> None:
        super().__init__(memory, block, offset, shape, dtype, owner)
        self.ptr = block.ptr + offset

    def _read_into(self, copy: NDArray[Any]) -> None:
        self.memory.ring.download(self, copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return array_interface(self)

    def exported(self, shown: Any, **asked: Any) -> Any:
        """See `interchange.exported`."""
        return exported(self.memory.context, shown, **asked)

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's (device type, device number)."""
        return DLPACK_CUDA, self.memory.context.ordinal


class CudaMemory(GridMemory[CudaArray]):
    """A device's memory. Any thread."""

    context: Context
    site: Site

    def __init__(self, context: Context, ring: Ring, budget_nbytes: int | None = None) -> None:
        """`ring` is what callers read arrays through."""
        self.ring = ring
        poison = self._poison if context.options.poison else None
        super().__init__(context, CudaArray, context.physical.total_nbytes, budget_nbytes, ALIGNMENT, poison)

    def adopt(self, ptr: int, shape: tuple[int, ...], dtype: DType, owner: Any) -> CudaArray:
        """An array over memory of somebody else's, which `owner` keeps; it counts in no budget.

        Its block is named by its address: arrays at one place are the same to recordings and graphs.
        """
        return CudaArray(self, CudaBlock(-ptr, math.prod(shape) * dtype.nbytes, ptr), 0, shape, dtype, owner)

    def _make(self, nbytes: int, number: int) -> CudaBlock:
        context = self.context
        try:
            with context.here():
                memory = context.cuda.Memory(nbytes)
        except Exception as error:
            raise error_of(context.name, "cudaMalloc", error, nbytes, self.budget_nbytes) from None
        block = CudaBlock(number, nbytes, int(memory.ptr))
        context.end_with(block, memory)
        return block

    def _poison(self, freed: Stretch[CudaBlock]) -> None:
        if self.context.lost is None:
            self.ring.fill(freed.block.ptr + freed.offset, POISON, freed.nbytes)
