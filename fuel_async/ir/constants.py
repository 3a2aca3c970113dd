"""Arrays of constants: what users give, as read-only arrays that nobody else can write."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.errors import GraphError
from fuel_async.ir.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: What Python's numbers become where no dtype is named.
_PLAIN: Mapping[str, np.dtype[Any]] = {"f": np.dtype(np.float32), "i": np.dtype(np.int64)}


def scalar_array(value: float, dtype: DType) -> NDArray[Any] | None:
    """Return a read-only rank-0 array of `value`, or None when `dtype` cannot hold it."""
    with np.errstate(over="ignore"):
        try:
            array = np.asarray(value, dtype=dtype.require_np())
        except OverflowError:
            return None
    lost = dtype.is_float and math.isfinite(value) and not math.isfinite(array)
    array.flags.writeable = False
    return None if lost else array


def constant_array(value: object, dtype: DType | None) -> NDArray[Any]:
    """Return `value` as a read-only, native, C-contiguous array that nobody else can write.

    Read-only arrays that own their bytes are adopted, others copied. Python numbers and lists become float32 or int64
    when `dtype` is None; bool becomes uint8. `GraphError` when numpy can make no such array of it.
    """
    try:
        array = np.asarray(value, order="C", dtype=None if dtype is None else dtype.np)
        if dtype is None and not hasattr(value, "dtype"):
            array = array.astype(_PLAIN.get(array.dtype.kind, array.dtype), copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise GraphError("constant", f"numpy makes no array of it: {error}") from error
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    DType.from_numpy(array.dtype)
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if not (_is_fresh(array, value) or _is_immutable(array)):
        array = array.copy()
    array.flags.writeable = False
    return array


def _is_fresh(array: NDArray[Any], value: object) -> bool:
    """Whether numpy made the bytes of `array` just now: of Python numbers, or by converting another array."""
    if value.__class__ in (bool, int, float, list, tuple):
        return True
    return isinstance(value, np.ndarray) and array is not value and array.base is None


def _is_immutable(array: NDArray[Any]) -> bool:
    """Whether the array is plain and nobody else can write it: a view of a writable array is writable too."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        return False
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or isinstance(base, bytes)
