"""Host arenas: the one block of bytes behind all temporaries of an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.dispatch import SlotClass, SlotTable
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuel_async.ir import Layout, TensorType

#: Alignment of an arena's first byte: a page, so that offsets keep whatever alignment the plan gave them.
ALIGNMENT = 4_096


class HostArena:
    """Bytes for the temporary slots of one plan, and the arrays over them. Belongs to one run at a time."""

    __slots__ = ("__weakref__", "_base", "_buffer", "arrays", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Allocate `nbytes`. Pages are touched when a kernel first writes them."""
        self.nbytes = nbytes
        self._buffer = np.empty(nbytes + ALIGNMENT, np.uint8)
        self._base = -self._buffer.ctypes.data % ALIGNMENT
        #: Arrays by slot, shared by all program instances of the plan: temporaries here, and the plan's constants.
        self.arrays: dict[int, NDArray[Any]] = {}

    def array(self, slots: SlotTable, slot: int) -> NDArray[Any]:
        """Return the array of a temporary slot; the same object each time.

        So an op that writes over its input is given one array twice, which numpy recognises at once; two arrays over
        the same bytes cost it half as much again to tell apart.
        """
        found = self.arrays.get(slot)
        if found is None:
            if slots.classes[slot] != SlotClass.TEMPORARY:
                raise InternalError(f"slot {slot} of class {slots.classes[slot]} is not in the arena")
            place, kind, layout = slots.places[slot], slots.types[slot], slots.layouts[slot]
            found = self.arrays[slot] = _array(self._buffer, self._base + place, kind, layout)
        return found


def _array(buffer: NDArray[np.uint8], place: int, kind: TensorType, layout: Layout | None) -> NDArray[Any]:
    dtype = kind.dtype.require_np()
    if layout is None:
        return np.ndarray(kind.shape, dtype, buffer, place)  # type: ignore[arg-type]  # shapes are concrete
    size = dtype.itemsize
    strides = tuple([stride * size for stride in layout.strides])
    return np.ndarray(layout.shape, dtype, buffer, place + layout.offset * size, strides)


def laid_out(array: NDArray[Any], layout: Layout | None) -> NDArray[Any]:
    """Return the view that `layout` describes over a row-major array; the array itself for None."""
    if layout is None:
        return array
    size = array.dtype.itemsize
    strides = tuple([stride * size for stride in layout.strides])
    if 0 in layout.shape:
        return np.empty(layout.shape, array.dtype)
    return np.ndarray(layout.shape, array.dtype, array, layout.offset * size, strides)
