"""Ops that pick elements by the values of an index operand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import DTypeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import OpSpec, TensorType
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import check_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class IndexSelect(NamedTuple):
    """The axis whose entries are picked."""

    axis: int


def _index_select(operands: Sequence[TensorType], attrs: IndexSelect) -> tuple[Shape, DType]:
    source, index = operands
    if index.dtype is not DType.U32 or index.ndim != 1:
        raise DTypeMismatch("index_select", "wanted an index of dtype u32 and one dimension", operands)
    check_axes("index_select", [attrs.axis], source.ndim, operands)
    return (*source.shape[: attrs.axis], index.shape[0], *source.shape[attrs.axis + 1 :]), source.dtype


# Entries of `source` along one axis, in the order of a rank-1 u32 index. An index out of range fails the run.
INDEX_SELECT = OpSpec(name="index_select", arity=2, infer=_index_select, kind=OpKind.IndexSelect, attrs=IndexSelect)

INDEXING = (INDEX_SELECT,)
