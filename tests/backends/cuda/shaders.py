"""The shaders that plans for CUDA devices make: those of the fixed modules, and those that are printed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids import elementwise
from fuel_async.backends.grids.catalog import MODULES
from fuel_async.dispatch import AffineParams, ClampParams, OpParams, PowIParams
from tests.backends.cuda.source_rig import LIMITS
from tests.backends.grids.calls import CALLS
from tests.backends.grids.test_plans import KERNELS, operand, planned, sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fuel_async.backends.grids.kernel import GridKernel, Operand, Shader

#: Parameters of elementwise kernels that take some.
PARAMS: dict[type[OpParams], list[OpParams]] = {
    ClampParams: [ClampParams(-1.0, 0.5)],
    AffineParams: [AffineParams(1.7, -0.3)],
    PowIParams: [PowIParams(exp) for exp in (0, 3, -2, 7)],
}
#: Rows of the samples: few, more than a block has, and many.
ROWS = (6, 203, 3_000, 40_000)


@cache
def fixed(rows: tuple[int, ...] = ROWS) -> Mapping[str, tuple[Shader, ...]]:
    """The shaders of each module of the catalog, as plans make them for samples of so many rows and for calls."""
    asked = [(kernel, *sampled(kernel, count)) for kernel in KERNELS.values() for count in rows]
    asked += [(KERNELS[call.op, call.dtypes], [*call.inputs, call.shape], call.params) for call in CALLS]
    found: dict[str, dict[Shader, None]] = {name: {} for name in MODULES}
    for asking in asked:
        for dispatch in planned(*asking, LIMITS):
            found[dispatch.shader.name][dispatch.shader] = None
    return {name: tuple(made) for name, made in found.items()}


@cache
def printed() -> Mapping[GridKernel, tuple[Shader, ...]]:
    """The shaders of each elementwise kernel: over dense, strided and single operands."""
    return {kernel: tuple(dict.fromkeys(_printed(kernel))) for kernel in elementwise.kernels()}


def _printed(kernel: GridKernel) -> Iterator[Shader]:
    views = [operand(kind, 6, 7) for kind in kernel.operands]
    for params in PARAMS.get(kernel.takes) or [kernel.takes()]:
        for look in (_as_they_are, _turned, _single):
            given = [*map(look, views[:-1]), views[-1]]
            yield from (dispatch.shader for dispatch in kernel.dispatches(given, params, LIMITS))


def _as_they_are(view: Operand) -> Operand:
    return view


def _turned(view: Operand) -> Operand:
    """The same from its end to its start."""
    last = sum(step * (size - 1) for size, step in zip(view.shape, view.strides, strict=True))
    return replace(view, strides=tuple([-step for step in view.strides]), offset=last)


def _single(view: Operand) -> Any:
    return replace(view, strides=(0,) * len(view.shape))
