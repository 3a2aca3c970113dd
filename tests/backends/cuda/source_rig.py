"""CUDA C on the CPU as a device for tests of single kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cuda.kernels.code import ENTRY, code_of
from fuel_async.backends.grids.kernel import Limits
from fuel_async.testing.cuda_double.compiling import compiled
from tests.backends.grids.rig import Array, Rig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch
    from fuel_async.backends.grids.operands import Bound

#: What CUDA devices have, as far as kernels care.
LIMITS = Limits(
    max_invocations=256,
    max_groups=(2**31 - 1, 65_535, 65_535),
    shared_nbytes=49_152,
    subgroup=32,
    features=frozenset({"float64", "float16", "int8_storage", "int16_storage", "int64"}),
    max_range_nbytes=1 << 32,
)
#: Where allocations begin. Operands begin anywhere that suits their elements.
ALLOCATED, ALIGNMENT = 256, 16


class SourceRig(Rig):
    """The host as a device of CUDA C."""

    def __init__(self) -> None:
        super().__init__("g++", LIMITS, ALIGNMENT)

    def hold(self, raw: Array) -> Array:
        room = np.empty(len(raw) + 2 * ALLOCATED, np.uint8)
        start = -int(room.ctypes.data) % ALLOCATED
        room[start : start + len(raw)] = raw
        return room[start : start + len(raw)]

    def read(self, held: Array) -> Array:
        return held

    def play(self, operands: Sequence[Bound], held: Sequence[Array]) -> None:
        for dispatch in self.dispatches:
            self._launch(dispatch, operands, held)

    def _launch(self, dispatch: Dispatch, operands: Sequence[Bound], held: Sequence[Array]) -> None:
        shader = dispatch.shader
        function = compiled(*code_of(shader)).function(ENTRY)
        assert function.sizes == (*[8] * shader.bindings, len(dispatch.push)), "the words pushed are not the kernel's"
        seen = [operands[place] for place in dispatch.operands]
        pointers = [int(held[one.space[1]].ctypes.data) + one.start for one in seen]
        function(dispatch.groups, (shader.threads,), [*pointers, dispatch.push])
