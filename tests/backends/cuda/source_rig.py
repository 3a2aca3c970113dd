"""Runs the dispatches of grid kernels over CUDA C on the CPU, where memory is the host's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fuel_async.backends.cuda.sources import ENTRY, block, options, source
from fuel_async.backends.vulkan.kernels.base import Limits
from fuel_async.backends.vulkan.operands import bound
from fuel_async.backends.vulkan.shaders.catalog import MODULES
from fuel_async.ir import DType, Layout
from fuel_async.testing.cuda_double.compiling import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.kernels.base import Dispatch, VulkanKernel
    from fuel_async.backends.vulkan.operands import Bound
    from fuel_async.dispatch import OpParams
    from fuel_async.testing.cuda_double.compiling import Function

Array: TypeAlias = npt.NDArray[Any]

#: What CUDA devices have, as far as kernels care.
LIMITS = Limits(
    max_invocations=256,
    max_groups=(2**31 - 1, 65_535, 65_535),
    shared_nbytes=49_152,
    subgroup=32,
    features=frozenset({"float64", "float16", "int8_storage", "int16_storage", "int64"}),
    max_range_nbytes=1 << 32,
)
#: What memory holds before it is written: NaN in every float type.
FILL = 0xFF
#: Bytes before and behind an output that no kernel may write; and where arrays start.
GUARD, ALIGNMENT = 256, 64


class SourceRig:
    """The host as a device of CUDA C."""

    name, limits = "g++", LIMITS

    def __init__(self) -> None:
        self.dispatches: Sequence[Dispatch] = ()

    def can_run(self, kernel: VulkanKernel) -> bool:
        """Whether the device has the features that the kernel needs."""
        return kernel.needs <= self.limits.features

    def run(
        self,
        kernel: VulkanKernel,
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
        out, place = kernel.dtypes[-1], len(inputs)
        kinds = [kernel.dtypes[0]] * place if kernel.variadic else kernel.operands[:-1]
        lying = [_lying(kind, array) for kind, array in zip(kinds, inputs, strict=True)]
        size = math.prod(shape) * out.nbytes
        lying.append((out, Layout.contiguous(shape, GUARD // out.nbytes), _filled(size + 2 * GUARD)))
        sizes = kernel.scratch(params, [array.shape for array in inputs], shape)
        lying += [(DType.U8, Layout.contiguous((nbytes,)), _filled(nbytes)) for nbytes in sizes]
        if over is not None:
            lying[place] = lying[over]
        held = [_aligned(raw) for _, _, raw in lying]
        spaces = [over if at == place and over is not None else at for at in range(len(lying))]
        operands = [
            bound(kind, layout, (0, space), 0, 16, self.limits)
            for space, (kind, layout, _) in zip(spaces, lying, strict=True)
        ]
        self.dispatches = kernel.dispatches([one.operand for one in operands], params, limits or self.limits)
        for dispatch in self.dispatches:
            launch(dispatch, operands, held)
        for at, (array, (_, _, raw)) in enumerate(zip(held[:place], lying, strict=False)):
            assert at == over or array.tobytes() == raw.tobytes(), f"input {at} was written"
        got = held[spaces[place]]
        start = lying[place][1].offset * out.nbytes
        if over is None:
            assert (got[:start] == FILL).all(), "bytes before the output were written"
            assert (got[start + size :] == FILL).all(), "bytes behind the output were written"
        return got[start : start + size].view(out.require_np()).reshape(shape)


def function_of(dispatch: Dispatch) -> Function:
    """The kernel of a dispatch, compiled for the CPU."""
    shader = dispatch.shader
    module = MODULES[shader.name]
    chosen = options(module.source, module.defines, shader.spec)
    return compiled(source(module.source), chosen).function(ENTRY)


def launch(dispatch: Dispatch, operands: Sequence[Bound], held: Sequence[Array]) -> None:
    """Run one dispatch over arrays, one for each space."""
    shader = dispatch.shader
    function = function_of(dispatch)
    assert function.sizes == (*[8] * shader.bindings, len(dispatch.push)), "the words pushed are not the kernel's"
    pointers = []
    for place in dispatch.operands:
        one = operands[place]
        pointers.append(int(held[one.space[1]].ctypes.data) + one.start)
    threads = block(MODULES[shader.name].source, shader.spec)
    function(dispatch.groups, threads, [*pointers, dispatch.push])


def _lying(kind: DType, array: Array) -> tuple[DType, Layout, Array]:
    """An array as type, layout, and all bytes that it is a view of."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    steps = tuple([step // kind.nbytes for step in array.strides])
    return kind, Layout(array.shape, steps, start // kind.nbytes), np.frombuffer(base.tobytes(), np.uint8)


def _filled(nbytes: int) -> Array:
    return np.full(nbytes, FILL, np.uint8)


def _aligned(raw: Array) -> Array:
    """A copy that starts where allocations of a device start."""
    room = np.empty(len(raw) + 2 * ALIGNMENT, np.uint8)
    start = -int(room.ctypes.data) % ALIGNMENT
    room[start : start + len(raw)] = raw
    return room[start : start + len(raw)]
