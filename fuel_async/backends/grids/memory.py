"""The memory of a device of grids: arrays and arenas cut from blocks of its driver's, within a budget.

A backend says what a block is and how one is made, and how an array is read; everything else is the same for all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from fuel_async.backends.blocks import DEFAULT_BUDGET_SHARE, Block, Blocks, Stretch
from fuel_async.dispatch import SlotClass, SlotTable
from fuel_async.errors import DeviceLost, FuelError, InternalError
from fuel_async.ir import DType
from fuel_async.streams import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fuel_async.backends.grids.kernel import Limits


class InUse(Protocol):
    """The device as its memory knows it."""

    name: str
    lost: FuelError | None

    def lose(self, error: DeviceLost) -> None:
        """Note that it is lost."""


class Site(Protocol):
    """A device as single kernels need it."""

    @property
    def memory(self) -> GridMemory[Any]:
        """Where working memory comes from."""

    @property
    def limits(self) -> Limits:
        """What dispatches keep to."""


class GridArray(ABC):
    """A row-major array in a device's memory. Its bytes are its own, or those of the array that it is a part of."""

    __slots__ = ("__weakref__", "block", "dtype", "memory", "nbytes", "offset", "owner", "shape")

    memory: GridMemory[Any]
    block: Block

    def __init__(
        self, memory: Any, block: Any, offset: int, shape: tuple[int, ...], dtype: DType, owner: Any = None
    ) -> None:
        """It begins `offset` bytes into the block, at a multiple of the memory's alignment where it is its own."""
        self.memory, self.block, self.offset, self.shape, self.dtype = memory, block, offset, shape, dtype
        self.nbytes = math.prod(shape) * dtype.nbytes
        #: Whose bytes they are; kept alive by this.
        self.owner = owner

    def part(self, offset: int, shape: tuple[int, ...], dtype: DType) -> Self:
        """An array over bytes of this one, `offset` bytes into it."""
        return type(self)(self.memory, self.block, self.offset + offset, shape, dtype, self)

    def read(self) -> NDArray[Any]:
        """A copy in the host's memory, of what no submission under way writes. Blocks. `DeviceError`."""
        copy = np.empty(self.shape, self.dtype.require_np())
        lost = self.memory.context.lost
        if lost is not None:
            raise fresh(lost)
        self._read_into(copy)
        return copy

    @abstractmethod
    def _read_into(self, copy: NDArray[Any]) -> None: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dtype}{list(self.shape)} on {self.memory.context.name}>"


A = TypeVar("A", bound=GridArray)


class GridArena(Generic[A]):
    """Bytes for the temporaries of one plan, as one array; belongs to one run at a time."""

    __slots__ = ("__weakref__", "_arrays", "bytes", "nbytes")

    def __init__(self, whole: A) -> None:
        self.bytes, self.nbytes = whole, whole.nbytes
        self._arrays: dict[int, A] = {}

    def array(self, slots: SlotTable, slot: int) -> A:
        """A temporary as copies take it; an output of a bundle lies row-major some bytes into that."""
        found = self._arrays.get(slot)
        if found is None:
            if slots.classes[slot] != SlotClass.TEMPORARY:
                raise InternalError(f"slot {slot} of class {slots.classes[slot]} is not in the arena")
            kind, layout = slots.types[slot], slots.layouts[slot]
            shape: Any = kind.shape  # concrete: plans are made of nothing else
            offset = slots.places[slot] + (layout.offset * kind.dtype.nbytes if layout else 0)
            found = self._arrays[slot] = self.bytes.part(offset, shape, kind.dtype)
        return found


class GridMemory(ABC, Generic[A]):
    """A device's memory. Any thread."""

    context: InUse
    #: The device that it belongs to; set by that.
    site: Site

    def __init__(
        self,
        context: Any,
        kind: type[A],
        total_nbytes: int,
        budget_nbytes: int | None,
        alignment: int,
        freed: Callable[[Stretch[Any]], None] | None = None,
    ) -> None:
        """Arrays are of `kind`. Without a budget it is a share of the total; `freed` is called as `Blocks` does."""
        self.context, self.alignment, self._kind = context, alignment, kind
        self.budget_nbytes = budget_nbytes or int(total_nbytes * DEFAULT_BUDGET_SHARE)
        self._blocks: Blocks[Any] = Blocks(self.context.name, self.budget_nbytes, alignment, self._make, freed)

    @property
    def used_nbytes(self) -> int:
        """Bytes in use, as they count against the budget."""
        return self._blocks.used_nbytes

    @property
    def reserved_nbytes(self) -> int:
        """Bytes that the driver has given."""
        return self._blocks.reserved_nbytes

    def allocate(self, nbytes: int) -> GridArena[A]:
        """An arena. `OutOfMemory` when it does not fit beside what is in use, or the driver refuses."""
        return GridArena(self.allocate_array((nbytes,), DType.U8))

    def allocate_array(self, shape: tuple[int, ...], dtype: DType) -> A:
        """A row-major array. `OutOfMemory` as for an arena, `DeviceLost` on a lost device."""
        if self.context.lost is not None:
            raise fresh(self.context.lost)
        try:
            taken = self._blocks.take(math.prod(shape) * dtype.nbytes)
        except DeviceLost as error:  # noted here: who hears of it may allocate, so no lock may be held
            self.context.lose(error)
            raise
        made = self._kind(self, taken.block, taken.offset, shape, dtype)
        self._blocks.free_with(made, taken)
        return made

    @abstractmethod
    def _make(self, nbytes: int, number: int) -> Block:
        """Ask the driver for a block. `OutOfMemory` when it refuses, `DeviceLost`."""
