"""Ops that take one output of a node that has several: as a view of its bytes, or as a copy.

They are the only ops that take a bundle, and a bundle is nothing but their operand: no output, and no operand of
others. A view keeps the bytes of all slots alive; a copy has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

from fuel_async.errors import BundleMisuse, InternalError
from fuel_async.ir.bundle import BundleType
from fuel_async.ir.op import Attrs, Infer, OpSpec, TensorType
from fuel_async.ir.opkind import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.layout import Layout
    from fuel_async.ir.symbol import Shape


class Slot(NamedTuple):
    """Which output, counted from 0."""

    slot: int


def _slot_of(name: str) -> Infer:
    def infer(operands: Sequence[TensorType], attrs: Slot) -> tuple[Shape, DType]:
        (bundle,) = operands
        if not isinstance(bundle, BundleType):
            raise BundleMisuse(name, "wanted a bundle: the operand has one output, itself", operands)
        if not 0 <= attrs.slot < len(bundle.views):
            reason = f"slot {attrs.slot} is out of range; the bundle has {len(bundle.views)}, from 0"
            raise BundleMisuse(name, reason, operands)
        view = bundle.views[attrs.slot]
        return view.shape, view.dtype

    return infer


def _told_by_the_bundle(layout: Layout, attrs: Attrs, shape: tuple[int, ...]) -> NoReturn:
    raise InternalError("where a slot lies is told by its bundle: see FrozenGraph.bundles")


# Slot `slot` over the bytes of the bundle.
VIEW_SLOT = OpSpec(
    name="view_slot",
    arity=1,
    infer=_slot_of("view_slot"),
    view=_told_by_the_bundle,
    attrs=Slot,
    takes_bundle=True,
)

# The same values in bytes of their own.
VIEW_OWNED = OpSpec(
    name="view_owned",
    arity=1,
    infer=_slot_of("view_owned"),
    kind=OpKind.Copy,
    attrs=Slot,
    takes_bundle=True,
)

BUNDLES = (VIEW_SLOT, VIEW_OWNED)
