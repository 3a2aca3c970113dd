"""A device's memory: arenas and arrays cut from plain allocations, within a budget.

Work holds what it is given until its event has been reached. So the bytes of an array that was collected are used by
nothing that is under way, on whatever stream, and may be given again at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.blocks import DEFAULT_BUDGET_SHARE, Block, Blocks, Stretch
from fuel_async.backends.cuda.interchange import DLPACK_CUDA, array_interface, exported
from fuel_async.backends.cuda.statuses import error_of
from fuel_async.dispatch import SlotClass, SlotTable
from fuel_async.errors import DeviceLost, InternalError
from fuel_async.ir import DType
from fuel_async.streams import fresh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.staging import Ring

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


class CudaArray:
    """A row-major array in a device's memory. Its bytes are its own, or those of the array that it is a part of."""

    __slots__ = ("__weakref__", "block", "dtype", "memory", "nbytes", "offset", "owner", "ptr", "shape")

    def __init__(
        self,
        memory: CudaMemory,
        block: CudaBlock,
        offset: int,
        shape: tuple[int, ...],
        dtype: DType,
        owner: Any = None,
    ) -> None:
        self.memory, self.block, self.offset, self.shape, self.dtype = memory, block, offset, shape, dtype
        self.nbytes = math.prod(shape) * dtype.nbytes
        self.ptr = block.ptr + offset
        #: Whose bytes they are; kept alive by this.
        self.owner = owner

    def read(self) -> NDArray[Any]:
        """A copy in the host's memory, of what no submission under way writes. Blocks. `DeviceError`."""
        copy = np.empty(self.shape, self.dtype.require_np())
        memory = self.memory
        if memory.context.lost is not None:
            raise fresh(memory.context.lost)
        memory.ring.download(self, copy)
        return copy

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

    def __repr__(self) -> str:
        return f"<CudaArray {self.dtype}{list(self.shape)} on {self.memory.context.name}>"


class CudaArena:
    """Bytes for the temporaries of one plan, as one array; belongs to one run at a time."""

    __slots__ = ("__weakref__", "_arrays", "bytes", "nbytes")

    def __init__(self, whole: CudaArray) -> None:
        self.bytes, self.nbytes = whole, whole.nbytes
        self._arrays: dict[int, CudaArray] = {}

    def array(self, slots: SlotTable, slot: int) -> CudaArray:
        """A temporary as copies take it; an output of a bundle lies row-major some bytes into that."""
        found = self._arrays.get(slot)
        if found is None:
            if slots.classes[slot] != SlotClass.TEMPORARY:
                raise InternalError(f"slot {slot} of class {slots.classes[slot]} is not in the arena")
            kind, layout, whole = slots.types[slot], slots.layouts[slot], self.bytes
            shape: Any = kind.shape  # concrete: plans are made of nothing else
            offset = whole.offset + slots.places[slot] + (layout.offset * kind.dtype.nbytes if layout else 0)
            found = self._arrays[slot] = CudaArray(whole.memory, whole.block, offset, shape, kind.dtype, whole)
        return found


class CudaMemory:
    """A device's memory. Any thread."""

    def __init__(self, context: Context, ring: Ring, budget_nbytes: int | None = None) -> None:
        """`ring` is what callers read arrays through."""
        self.context, self.ring, self.alignment = context, ring, ALIGNMENT
        self.budget_nbytes = budget_nbytes or int(context.physical.total_nbytes * DEFAULT_BUDGET_SHARE)
        poison = self._poison if context.options.poison else None
        self._blocks = Blocks(context.name, self.budget_nbytes, ALIGNMENT, self._make, poison)
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

    def allocate(self, nbytes: int) -> CudaArena:
        """An arena. `OutOfMemory` when it does not fit beside what is in use, or the driver refuses."""
        return CudaArena(self.allocate_array((nbytes,), DType.U8))

    def allocate_array(self, shape: tuple[int, ...], dtype: DType) -> CudaArray:
        """A row-major array. `OutOfMemory` as for an arena, `DeviceLost` on a lost device."""
        if self.context.lost is not None:
            raise fresh(self.context.lost)
        try:
            taken = self._blocks.take(math.prod(shape) * dtype.nbytes)
        except DeviceLost as error:  # noted here: who hears of it may allocate, so no lock may be held
            raise self.context.noted(error) from None
        made = CudaArray(self, taken.block, taken.offset, shape, dtype)
        self._blocks.free_with(made, taken)
        return made

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
