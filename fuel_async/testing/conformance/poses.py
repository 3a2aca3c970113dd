"""How operands lie in memory and what they hold: layouts, classes of shapes, and classes of values.

A layout is a way to write a value as views over a larger or turned input, so that what a kernel is given has those
strides; the value stays the same, but for `broadcast`, which repeats its beginning.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.ir import DType, Tensor
    from fuel_async.testing.estimates.bounds import Array

    View = Callable[[Tensor], Tensor]
    #: value -> the array that is fed, and the views that make the value of it
    Pose = Callable[[Array], tuple[Array, View]]

# --- layouts ------------------------------------------------------------------------------------------------


def _contiguous(value: Array) -> tuple[Array, View]:
    return value, lambda t: t


def _strided(value: Array) -> tuple[Array, View]:
    if not value.ndim:
        return _offset(value)
    base = np.ones((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
    base[..., ::2] = value
    return base, lambda t: t[..., ::2]


def _negative(value: Array) -> tuple[Array, View]:
    return np.flip(value).copy(), lambda t: t.flip()


def _transposed(value: Array) -> tuple[Array, View]:
    axes = list(range(value.ndim))[::-1]
    return value.T.copy(), lambda t: t.permute_dims(axes)


def _offset(value: Array) -> tuple[Array, View]:
    if not value.ndim:
        return np.stack([np.ones_like(value), value]), lambda t: t[1]
    base = np.ones([size + 2 for size in value.shape], value.dtype)
    inner = (slice(1, -1),) * value.ndim
    base[inner] = value
    return base, lambda t: t[inner]


def _broadcast(value: Array) -> tuple[Array, View]:
    axis = next((axis for axis, size in enumerate(value.shape) if size > 1), None)
    if axis is None:
        return value, lambda t: t
    shape = value.shape
    return np.take(value, [0], axis), lambda t: t.broadcast_to(shape)


LAYOUTS: Mapping[str, Pose] = {
    "contiguous": _contiguous,
    "strided": _strided,
    "negative": _negative,
    "transposed": _transposed,
    "broadcast": _broadcast,
    "offset": _offset,
}

# --- shapes -------------------------------------------------------------------------------------------------

#: Of these a case picks one that its op takes. The large one ends neither with a vector register nor with a block.
SHAPES: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "scalar": ((),),
    "empty": ((0, 5), (3, 0), (2, 0, 3)),
    "odd": ((5, 7), (7,), (3, 1, 5), (1, 1), (2, 3, 5)),
    "large": ((67, 1031),),
}
#: A value without dimensions can lie at an offset and nowhere else.
SCALAR_LAYOUTS = ("contiguous", "offset")

# --- values -------------------------------------------------------------------------------------------------


def _of_float(dtype: DType, *, modest: bool) -> dict[str, tuple[float, ...]]:
    limits: Any = ml_dtypes.finfo(dtype.require_np())  # type: ignore[no-untyped-call]
    most, normal, least = map(float, (limits.max, limits.smallest_normal, limits.smallest_subnormal))
    if modest:  # squares and small sums stay finite
        most, normal = math.sqrt(most) / 64, math.sqrt(normal) * 64
    found: dict[str, tuple[float, ...]] = {
        "nan": (math.nan,),
        "zeros": (0.0, -0.0),
        "subnormal": (least, -least, 3 * least, -5 * least),
        "extreme": (most, -most, normal, -normal, 1 + float(limits.eps)),
    }
    return found if dtype.bits == 8 else {**found, "inf": (math.inf, -math.inf)}


def specials(dtype: DType, *, modest: bool = False) -> Mapping[str, tuple[float | int, ...]]:
    """Return the special values of a dtype by class; `modest` extremes can be squared and summed."""
    if dtype.is_float:
        return _of_float(dtype, modest=modest)
    limits = np.iinfo(dtype.require_np())
    return {"extreme": (int(limits.min), int(limits.max), int(limits.max) - 1)}


#: Classes of values, those that all dtypes have first.
VALUES = ("plain", "extreme", "nan", "inf", "zeros", "subnormal")
