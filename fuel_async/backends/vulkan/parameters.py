"""Numbers that change from run to run: a block of memory that the host writes before each submission.

So a recording holds for all of them: what is pushed or specialized is part of it, what a number is is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.vulkan.memory import VulkanArray, make_block, staging_type
from fuel_async.dispatch import SlotClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.site import Site
    from fuel_async.dispatch import LaneProgram


class Parameters:
    """The scalars of one instance. Written while no submission of it is under way."""

    __slots__ = ("_views", "arrays")

    def __init__(self, site: Site, program: LaneProgram) -> None:
        """One aligned place for each scalar that the program takes. `OutOfMemory` when the driver refuses."""
        places, slots = program.ports[3], program.slots
        kinds = {
            slots.places[slot]: slots.types[slot] for slot, cls in enumerate(slots.classes) if cls == SlotClass.SCALAR
        }
        step, context = site.memory.alignment, site.context
        kind = staging_type(context.physical.memory_types)
        block = make_block(context, kind, step * len(places), -1, mapped=True)
        #: By place among those that a submission gives: the number as shaders see it.
        self.arrays: list[VulkanArray] = []
        self._views: list[Any] = []
        for number, place in enumerate(places):
            shape: Any = kinds[place].shape
            array = VulkanArray(site.memory, block, step * number, shape, kinds[place].dtype)
            self.arrays.append(array)
            self._views.append(array.host)

    def write(self, values: Sequence[Any]) -> None:
        """Put the numbers of the next submission where its shaders find them."""
        for view, value in zip(self._views, values, strict=True):
            view[...] = np.asarray(value)
