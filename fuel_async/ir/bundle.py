"""Bundles: how the outputs of one node that has several lie in one piece of memory, as plain values.

The outputs are *slots*, packed in order: each begins at the next multiple of its dtype's size. The node's own type is
a `BundleType`: shape and dtype are those of slot 0, and the views say where every slot lies. Offsets are known once
the sizes are; until then they are -1.

    >>> compose_bundle([(DType.F32, (2, 3)), (DType.F64, (3,))])[0]
    48
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.errors import BundleMisuse
from fuel_async.ir.layout import Layout
from fuel_async.ir.op import TensorType
from fuel_async.ir.symbol import is_static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Shape


@dataclass(frozen=True, slots=True)
class OutputView:
    """One slot of a bundle: dtype, shape, and its first byte within the bundle; row-major."""

    dtype: DType
    shape: Shape
    #: In bytes, a multiple of the dtype's size; -1 while the sizes before it are not known.
    offset: int

    @property
    def layout(self) -> Layout:
        """How the slot lies in the bundle's bytes, counted in elements of its dtype. Its sizes are known."""
        return Layout.contiguous(self.shape, self.offset // self.dtype.nbytes)  # type: ignore[arg-type]  # concrete

    @property
    def end(self) -> int:
        """The byte behind its last one. Its sizes are known."""
        return self.offset + _count(self.shape) * self.dtype.nbytes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(dim) for dim in self.shape)}]"


@dataclass(frozen=True, slots=True, eq=False)
class BundleType(TensorType):
    """The type of a node with several outputs: that of slot 0, with all slots. Interned like any other type."""

    views: tuple[OutputView, ...]
    #: Bytes of all slots together, -1 while a dimension is symbolic.
    total_nbytes: int

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.views))})"


def compose_bundle(slots: Sequence[tuple[DType, Shape]]) -> tuple[int, tuple[OutputView, ...]]:
    """Pack slots of concrete shapes; return the bytes of the bundle, and the slots' views in the order given.

    `BundleMisuse` when there is no slot, or one of a dtype of which no array can be made.
    """
    if not slots:
        raise BundleMisuse("bundle", "wanted at least one slot, got none")
    end, views = 0, list[OutputView]()
    for dtype, shape in slots:
        size = _element_nbytes(dtype)
        view = OutputView(dtype, shape, -(-end // size) * size)
        views.append(view)
        end = view.end
    return end, tuple(views)


def bundle_type(slots: Sequence[TensorType]) -> BundleType:
    """Return the type of a node whose outputs have the types `slots`. Errors are those of `compose_bundle`."""
    packed = [(slot.dtype, slot.shape) for slot in slots]
    if all(is_static(slot.shape) for slot in slots):
        total, views = compose_bundle(packed)
    else:
        total, views = -1, tuple([OutputView(dtype, shape, -1) for dtype, shape in packed])
    first = slots[0]
    return BundleType(first.shape, first.dtype, first.nbytes, views, total)


def _element_nbytes(dtype: DType) -> int:
    if dtype.np is None:
        raise BundleMisuse("bundle", f"no array can hold {dtype}; use another dtype for the slot")
    return dtype.nbytes


def _count(shape: Shape) -> int:
    count = 1
    for dim in shape:
        count *= int(dim)  # type: ignore[arg-type]  # concrete
    return count
