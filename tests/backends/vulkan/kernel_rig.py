"""Runs single kernels on the software devices there are, beside the host's kernels."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.base import Absent
from fuel_async.backends.grids.operands import bound
from fuel_async.backends.vulkan.discovery import physical_devices
from fuel_async.backends.vulkan.script import Recording, Script
from fuel_async.ir import DType, Layout
from tests.backends.vulkan.support import DEMANDED, DRIVERS, opened, options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, GridKernel, Limits
    from fuel_async.backends.grids.operands import Bound
    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.backends.vulkan.memory import VulkanArray
    from fuel_async.dispatch import OpParams

Array: TypeAlias = npt.NDArray[Any]

#: What memory holds before it is written: NaN in every float type.
FILL = 0xFF
#: Bytes before and behind an output that no kernel may write.
GUARD = 256


class _Played:
    """A recorded script as a lane takes it."""

    predicted_ns = 0

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def commands(self, given: Sequence[Sequence[Any]]) -> Any:
        return self._recording.commands


class Rig:
    """One device for tests of kernels."""

    def __init__(self, device: VulkanDevice) -> None:
        self.device, self.name, self.limits = device, device.info.name, device.site.limits
        self.dispatches: Sequence[Dispatch] = ()
        self.barriers = 0

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
        held = [self._fed(raw) for _, _, raw in lying]
        spaces = [over if at == place and over is not None else at for at in range(len(lying))]
        alignment = self.device.memory.alignment
        operands = [
            bound(kind, layout, (0, space), 0, alignment, limits)
            for space, (kind, layout, _) in zip(spaces, lying, strict=True)
        ]
        self.dispatches = kernel.dispatches([one.operand for one in operands], params, limits)
        self._play(operands, held)
        for at, (array, (_, _, raw)) in enumerate(zip(held[:place], lying, strict=False)):
            assert at == over or array.read().tobytes() == raw.tobytes(), f"input {at} was written"
        got = held[spaces[place]].read()
        start = lying[place][1].offset * out.nbytes
        if over is None:
            assert (got[:start] == FILL).all(), "bytes before the output were written"
            assert (got[start + size :] == FILL).all(), "bytes behind the output were written"
        return got[start : start + size].view(out.require_np()).reshape(shape)

    def _fed(self, raw: Array) -> VulkanArray:
        array = self.device.memory.allocate_array((len(raw),), DType.U8)
        host = array.host
        assert host is not None  # software devices have the host's memory
        host[...] = raw
        return array

    def _play(self, operands: Sequence[Bound], held: Sequence[VulkanArray]) -> None:
        script = Script(self.device.site)
        for dispatch in self.dispatches:
            script.add(dispatch, operands)
        self.barriers = script.barriers
        recording = script.record(lambda space: held[space[1]])
        self.device.lanes[0].submit(_Played(recording)).wait(60.0)


def rigs() -> Iterator[list[Rig]]:
    """Yield a rig for each software device, and close the devices after that; skips where there is none."""
    there = [name for name in DRIVERS if not isinstance(physical_devices(options(devices=(name,))), Absent)]
    if not there and not os.environ.get(DEMANDED):
        pytest.skip("no software Vulkan driver, or the package vulkan is missing; on Debian: mesa-vulkan-drivers")
    held = [opened(name) for name in (DRIVERS if os.environ.get(DEMANDED) else there)]
    yield [Rig(each.device) for each in held]
    for each in held:
        each.close()


def _lying(kind: DType, array: Array) -> tuple[DType, Layout, Array]:
    """An array as type, layout, and all bytes that it is a view of."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    steps = tuple([step // kind.nbytes for step in array.strides])
    return kind, Layout(array.shape, steps, start // kind.nbytes), np.frombuffer(base.tobytes(), np.uint8)
