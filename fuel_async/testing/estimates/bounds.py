"""A value with a bound on its error, and the arithmetic of such bounds: what the rules of all ops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from fuel_async.ir import DType

Array: TypeAlias = NDArray[Any]


class Estimate(NamedTuple):
    """A value in its own dtype, and a bound on the error of each element (float64, of the same shape)."""

    value: Array
    error: NDArray[np.float64]


class Operand(NamedTuple):
    """An operand as rules see it: floats widened to float64, integers as they are."""

    x: Array
    e: NDArray[np.float64]


class Precision(NamedTuple):
    """Of one dtype: the distance from 1 to the next number, and a number below which digits may be lost."""

    unit: float
    least: float


class Node(NamedTuple):
    """What a rule may know of the node: parameters, and shape and dtype of the result, symbols bound."""

    attrs: Any
    shape: tuple[int, ...]
    dtype: DType
    #: Of the result's dtype, and of the dtype in which the op computes: half types compute in float32.
    own: Precision
    long: Precision


Result: TypeAlias = tuple[Array, Array]
Rule: TypeAlias = Callable[[Node, Sequence[Operand]], Result]
#: Of an op with several outputs: it is told each as a node, with the same parameters.
SlotsRule: TypeAlias = Callable[[Sequence[Node], Sequence[Operand]], Sequence[Result]]


def _precision(dtype: DType) -> Precision:
    limits = ml_dtypes.finfo(dtype.require_np())  # type: ignore[no-untyped-call]
    least = limits.smallest_normal if dtype.bits > 16 else limits.smallest_subnormal
    return Precision(float(limits.eps), float(least))


_EXACT = Precision(0.0, 0.0)
_PRECISIONS = {dtype: _precision(dtype) for dtype in DType if dtype.is_float and dtype.np is not None}


def precision_of(dtype: DType) -> Precision:
    """The precision of a floating dtype; integers are exact."""
    return _PRECISIONS.get(dtype, _EXACT)


def rounded(node: Node, ulps: float, y: Array, e: Array) -> Result:
    """`y`, whose operands' errors shift it by up to `e`, computed within `ulps` and rounded to its dtype.

    The units are those of the dtype in which the op computes: float32 for half types.
    """
    size = np.abs(y) + e
    return y, e + ulps * node.long.unit * size + node.own.unit * size + 2 * node.own.least


def between(f: Callable[[Array], Array], x: Array, e: Array) -> tuple[Array, Array]:
    """`f(x)` of a monotone `f`, and how far it moves while x moves by `e`."""
    y = f(x)
    moved = np.maximum(np.abs(f(x + e) - y), np.abs(f(x - e) - y))
    return y, np.where(e == 0, 0.0, moved)
