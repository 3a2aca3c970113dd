"""Ops that pick elements by the values of an index operand, or add elements to the places that it names.

Indices are u32. One out of range fails the run, before anything is written. Where several sources go to one place they
are added in the order of the sources, so that equal operands give equal bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import DTypeMismatch, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import OpSpec, TensorType
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import check_axes, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class IndexSelect(NamedTuple):
    """The axis whose entries are picked."""

    axis: int


class Along(NamedTuple):
    """The axis along which an index operand counts."""

    axis: int


def _index_select(operands: Sequence[TensorType], attrs: IndexSelect) -> tuple[Shape, DType]:
    source, index = operands
    if index.dtype is not DType.U32 or index.ndim != 1:
        raise DTypeMismatch("index_select", "wanted an index of dtype u32 and one dimension", operands)
    check_axes("index_select", [attrs.axis], source.ndim, operands)
    return (*source.shape[: attrs.axis], index.shape[0], *source.shape[attrs.axis + 1 :]), source.dtype


def _check_index(name: str, operands: Sequence[TensorType], axis: int, rank: int) -> None:
    """The index, operand 1, is u32 and of that rank, and the axis is one of operand 0."""
    source, index = operands[0], operands[1]
    if index.dtype is not DType.U32:
        raise DTypeMismatch(name, f"wanted an index of dtype u32, got {index.dtype}", operands)
    if index.ndim != rank:
        raise ShapeMismatch(name, f"wanted an index of rank {rank}, got {index.ndim}", operands)
    check_axes(name, [axis], source.ndim, operands)


def _check_within(name: str, operands: Sequence[TensorType], axis: int) -> None:
    """No dimension of the index but `axis` is larger than operand 0's, as far as both are known."""
    for place, (dim, of) in enumerate(zip(operands[1].shape, operands[0].shape, strict=True)):
        if place != axis and isinstance(dim, int) and isinstance(of, int) and dim > of:
            reason = f"wanted at most {of} entries of the index along axis {place}, got {dim}"
            raise ShapeMismatch(name, reason, operands)


def _check_added(name: str, operands: Sequence[TensorType], wanted: Shape) -> None:
    """The source, operand 2, has the base's dtype and the shape wanted."""
    base, _, source = operands
    if source.dtype is not base.dtype:
        raise DTypeMismatch(name, "wanted base and source of one dtype; cast one with astype()", operands)
    if source.shape != wanted:
        raise ShapeMismatch(name, f"wanted a source of shape {show(wanted)}, got {show(source.shape)}", operands)


def _gather(operands: Sequence[TensorType], attrs: Along) -> tuple[Shape, DType]:
    source, index = operands
    _check_index("gather", operands, attrs.axis, source.ndim)
    return index.shape, source.dtype


def _index_add(operands: Sequence[TensorType], attrs: Along) -> tuple[Shape, DType]:
    base, index, _ = operands
    _check_index("index_add", operands, attrs.axis, 1)
    taken = (*base.shape[: attrs.axis], index.shape[0], *base.shape[attrs.axis + 1 :])
    _check_added("index_add", operands, taken)
    return base.shape, base.dtype


def _scatter_add(operands: Sequence[TensorType], attrs: Along) -> tuple[Shape, DType]:
    base, index, _ = operands
    _check_index("scatter_add", operands, attrs.axis, base.ndim)
    _check_added("scatter_add", operands, index.shape)
    return base.shape, base.dtype


# Entries of `source` along one axis, in the order of a rank-1 u32 index. An index out of range fails the run.
INDEX_SELECT = OpSpec(name="index_select", arity=2, infer=_index_select, kind=OpKind.IndexSelect, attrs=IndexSelect)

# result[i.., j, k..] = source[i.., index[i.., j, k..], k..], with j along the axis. The index has the source's rank and
# at most its size along the other axes.
GATHER = OpSpec(
    name="gather",
    arity=2,
    infer=_gather,
    check=lambda operands, attrs, result: _check_within("gather", operands, attrs.axis),
    kind=OpKind.Gather,
    attrs=Along,
)

# base, with source[.., j, ..] added to its entry index[j] along the axis.
INDEX_ADD = OpSpec(name="index_add", arity=3, infer=_index_add, kind=OpKind.IndexAdd, attrs=Along)

# base, with source[i.., j, k..] added to its element [i.., index[i.., j, k..], k..]: gather the other way round.
SCATTER_ADD = OpSpec(
    name="scatter_add",
    arity=3,
    infer=_scatter_add,
    check=lambda operands, attrs, result: _check_within("scatter_add", operands, attrs.axis),
    kind=OpKind.ScatterAdd,
    attrs=Along,
)

INDEXING = (INDEX_SELECT, GATHER, INDEX_ADD, SCATTER_ADD)
