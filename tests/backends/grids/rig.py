"""Runs single kernels of grids on one device over arrays of the host, as they lie, and looks at what was written."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fuel_async.backends.grids.operands import bound
from fuel_async.ir import DType, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch, GridKernel, Limits
    from fuel_async.backends.grids.operands import Bound
    from fuel_async.dispatch import OpParams

Array: TypeAlias = npt.NDArray[Any]

#: What memory holds before it is written: NaN in every float type.
FILL = 0xFF
#: Bytes before and behind an output that no kernel may write.
GUARD = 256


class Rig(ABC):
    """One device for tests of kernels: its name, its limits, and where operands may begin in its memory."""

    def __init__(self, name: str, limits: Limits, alignment: int) -> None:
        self.name, self.limits, self.alignment = name, limits, alignment
        self.dispatches: Sequence[Dispatch] = ()

    @abstractmethod
    def hold(self, raw: Array) -> Any:
        """Bring bytes to the device."""

    @abstractmethod
    def read(self, held: Any) -> Array:
        """The bytes that lie there now."""

    @abstractmethod
    def play(self, operands: Sequence[Bound], held: Sequence[Any]) -> None:
        """Run `dispatches` over operands whose spaces are places in `held`, and wait for them."""

    def can_run(self, kernel: GridKernel) -> bool:
        """Whether the device has the features that the kernel needs."""
        return kernel.needs <= self.limits.features

    def run(
        self,
        kernel: GridKernel,
        inputs: Sequence[Array],
        shape: tuple[int, ...],
        params: OpParams,
        *,
        limits: Limits | None = None,
        over: int | None = None,
    ) -> Array:
        """Run a kernel over arrays as they lie, strides and all; `over` is the input that the output is.

        `AssertionError` when an input or what lies around the output was written.
        """
        limits, out = limits or self.limits, kernel.dtypes[-1]
        kinds = [kernel.dtypes[0]] * len(inputs) if kernel.variadic else kernel.operands[:-1]
        lying = [_lying(kind, array) for kind, array in zip(kinds, inputs, strict=True)]
        size, place = math.prod(shape) * out.nbytes, len(inputs)
        lying.append((out, Layout.contiguous(shape, GUARD // out.nbytes), np.full(size + 2 * GUARD, FILL, np.uint8)))
        sizes = kernel.scratch(params, [array.shape for array in inputs], shape)
        lying += [(DType.U8, Layout.contiguous((nbytes,)), np.full(nbytes, FILL, np.uint8)) for nbytes in sizes]
        if over is not None:
            lying[place] = lying[over]
        held = [self.hold(raw) for _, _, raw in lying]
        spaces = [over if at == place and over is not None else at for at in range(len(lying))]
        operands = [
            bound(kind, layout, (0, space), 0, self.alignment, limits)
            for space, (kind, layout, _) in zip(spaces, lying, strict=True)
        ]
        self.dispatches = kernel.dispatches([one.operand for one in operands], params, limits)
        self.play(operands, held)
        for at, (array, (_, _, raw)) in enumerate(zip(held[:place], lying, strict=False)):
            assert at == over or self.read(array).tobytes() == raw.tobytes(), f"input {at} was written"
        got = self.read(held[spaces[place]])
        start = lying[place][1].offset * out.nbytes
        if over is None:
            assert (got[:start] == FILL).all(), "bytes before the output were written"
            assert (got[start + size :] == FILL).all(), "bytes behind the output were written"
        return got[start : start + size].view(out.require_np()).reshape(shape)


def _lying(kind: DType, array: Array) -> tuple[DType, Layout, Array]:
    """An array as type, layout, and all bytes that it is a view of."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    steps = tuple([step // kind.nbytes for step in array.strides])
    return kind, Layout(array.shape, steps, start // kind.nbytes), np.frombuffer(base.tobytes(), np.uint8)
