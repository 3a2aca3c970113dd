"""Values that are made of their shape: zeros, other numbers, and 0, 1, 2 and so on.

A value of one number is a view of that number: it takes no memory, is sent nowhere, and may have symbolic
dimensions. Whatever needs bytes of its own is given a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.graph import Graph
from fuel_async.ir.op import require_array_dtype
from fuel_async.ir.ops.masks import fill_value
from fuel_async.ir.shape import normal_dims, show
from fuel_async.ir.symbol import Symbolic
from fuel_async.ir.tensor import Scalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def full(graph: Graph, shape: Sequence[int | str | Symbolic], value: Scalar, dtype: DType = DType.F32) -> Tensor:
    """Return a tensor of `graph` that holds `value` everywhere. A dimension may be a symbol."""
    return _full("full", graph, shape, value, dtype)


def zeros(graph: Graph, shape: Sequence[int | str | Symbolic], dtype: DType = DType.F32) -> Tensor:
    """Return a tensor of `graph` that holds 0 everywhere. A dimension may be a symbol."""
    return _full("zeros", graph, shape, 0, dtype)


def full_like(value: Tensor, fill: Scalar, *, dtype: DType | None = None) -> Tensor:
    """Return a tensor of the shape of `value`, and of its dtype where none is said, that holds `fill`."""
    return _like("full_like", value, fill, dtype)


def zeros_like(value: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Return a tensor of the shape of `value`, and of its dtype where none is said, that holds 0."""
    return _like("zeros_like", value, 0, dtype)


def iota(graph: Graph, length: int | str | Symbolic, dtype: DType = DType.F32) -> Tensor:
    """Return 0, 1, 2 and so on, `length` numbers of it: a constant, or sums of ones where the length is a symbol.

    `DTypeMismatch` when `dtype` lacks one of the numbers, which for a symbolic length is not known.
    """
    _graph("iota", graph)
    require_array_dtype("iota", dtype)
    (size,) = normal_dims("iota", [length])
    if isinstance(size, Symbolic):
        return (full(graph, (size,), 1, DType.F64).cumulative_sum() - 1).astype(dtype)
    if size < 0:
        raise ShapeMismatch("iota", f"wanted a length from 0, got {size}")
    exact = np.arange(size)
    with np.errstate(all="ignore"):
        numbers = exact.astype(dtype.require_np())
        held = np.array_equal(numbers.astype(np.float64), exact)
    if not held:
        raise DTypeMismatch("iota", f"{dtype} lacks some of the numbers below {size}; wanted a wider dtype")
    return graph.constant(numbers)


def _like(op: str, value: Tensor, fill: Scalar, dtype: DType | None) -> Tensor:
    if not isinstance(value, Tensor):
        raise GraphError(op, f"wanted a Tensor, got {type(value).__name__}; wrap arrays with Graph.constant()")
    return _full(op, value.graph, value.shape, fill, value.dtype if dtype is None else dtype)


def _full(op: str, graph: Graph, shape: Sequence[int | str | Symbolic], value: Scalar, dtype: DType) -> Tensor:
    _graph(op, graph)
    require_array_dtype(op, dtype)
    dims = normal_dims(op, shape)
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        raise ShapeMismatch(op, f"wanted dimensions from 0, got {show(dims)}")
    return graph.scalar(fill_value(op, value, dtype), dtype).broadcast_to(dims)


def _graph(op: str, graph: object) -> None:
    if not isinstance(graph, Graph):
        raise GraphError(op, f"wanted a Graph, got {type(graph).__name__}")
