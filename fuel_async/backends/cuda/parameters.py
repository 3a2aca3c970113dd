"""Numbers that change from run to run: a block that the host writes, and that is copied before each launch.

So a recording, and a captured graph, hold for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cuda.staging import HOST_TO_DEVICE, Pinned
from fuel_async.dispatch import SlotClass
from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.memory import CudaArray
    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.dispatch import LaneProgram


class Parameters:
    """The scalars of one instance. Written while no submission of it is under way."""

    __slots__ = ("_nbytes", "_pinned", "_views", "_whole", "arrays")

    def __init__(self, site: Site, program: LaneProgram) -> None:
        """One aligned place for each scalar that the program takes. `OutOfMemory` when the driver refuses."""
        places, slots, step = program.ports[3], program.slots, site.memory.alignment
        kinds = {
            slots.places[slot]: slots.types[slot] for slot, cls in enumerate(slots.classes) if cls == SlotClass.SCALAR
        }
        self._nbytes = step * len(places)
        self._pinned = Pinned(site.context, 1, self._nbytes)
        self._whole = whole = site.memory.allocate_array((self._nbytes,), DType.U8)
        #: By place among those that a submission gives: the number as kernels see it.
        self.arrays: list[CudaArray] = []
        self._views: list[Any] = []
        for number, place in enumerate(places):
            kind = kinds[place]
            shape: Any = kind.shape
            offset = step * number
            array = whole.part(offset, shape, kind.dtype)
            seen = self._pinned.piece(0)[offset : offset + array.nbytes]
            self.arrays.append(array)
            self._views.append(seen.view(kind.dtype.require_np()).reshape(shape))

    def write(self, values: Sequence[Any], stream: Stream) -> None:
        """Put the numbers of the next launch on their way. Within `Context.here`; raises what the driver raises."""
        for view, value in zip(self._views, values, strict=True):
            view[...] = np.asarray(value)
        target, source = self._whole.ptr, self._pinned.address(0)
        stream.context.runtime.memcpyAsync(target, source, self._nbytes, HOST_TO_DEVICE, stream.ptr)
