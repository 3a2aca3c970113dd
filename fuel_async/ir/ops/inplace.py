"""Ops that may write their result over their first operand: unaries in place, writes into a slice, move, release.

Each gives a new value; the operand's bytes are the ones it may take for that. Whoever else reads the operand, itself or
through views, sees what it was before; where that cannot be had by doing the reading first (`ir.ordering`), the op
copies. What is fed, constants, and what callers receive are never written over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.layout import Layout
from fuel_async.ir.op import Attrs, Infer, OpSpec, TensorType
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.ops.elementwise import AFFINE, CLAMP, POWI, UNARIES
from fuel_async.ir.shape import check_axes, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class WriteSlice(NamedTuple):
    """The first place of each axis that is written; as many follow as the source is long."""

    starts: tuple[int, ...]


class WriteSliceDoff(NamedTuple):
    """The axis whose first place is the value of operand 2, and the first place of each axis, 0 for that one."""

    axis: int
    starts: tuple[int, ...]


class WriteSliceRotating(NamedTuple):
    """As `WriteSliceDoff`, but places along the axis are counted round a ring of its first `modulus`."""

    axis: int
    modulus: int
    starts: tuple[int, ...]


AnyWrite: TypeAlias = WriteSlice | WriteSliceDoff | WriteSliceRotating


# --- unaries ------------------------------------------------------------------------------------------------


def _in_place(name: str, op: OpSpec, kind: OpKind) -> OpSpec:
    """Return `op` under another name and kind, allowed to write over its operand."""

    def infer(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
        try:
            return op.infer(operands, attrs)
        except GraphError as error:
            raise error.__class__(name, error.reason, operands) from None

    return OpSpec(name=name, arity=1, infer=infer, kind=kind, attrs=op.attrs, destroys=0)


#: Stems of the unaries that have a form in place, by the name of their op.
_STEMS = {
    "relu": "Relu", "silu": "Silu", "gelu": "Gelu", "tanh": "Tanh", "sigmoid": "Sigmoid", "neg": "Neg", "abs": "Abs",
    "sqr": "Sqr", "sqrt": "Sqrt", "rsqrt": "Rsqrt", "recip": "Recip", "exp": "Exp", "log": "Log", "sin": "Sin",
    "cos": "Cos", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round", "erf": "Erf",
    "gelu_erf": "GeluErf",
}  # fmt: skip

#: By the name of the op that leaves its operand alone.
IN_PLACE = {
    **{name: _in_place(f"{name}_inplace", UNARIES[name], OpKind[f"{stem}Inplace"]) for name, stem in _STEMS.items()},
    "clamp": _in_place("clamp_inplace", CLAMP, OpKind.ClampInplace),
    "powi": _in_place("powi_inplace", POWI, OpKind.PowIInplace),
    "affine": _in_place("inplace_affine", AFFINE, OpKind.InplaceAffine),
}


# --- writes into a slice ------------------------------------------------------------------------------------


def _writing(name: str, index: DType | None) -> Infer:
    """The rule of a write whose place along an axis is a number of type `index`; without one when None."""

    def infer(operands: Sequence[TensorType], attrs: AnyWrite) -> tuple[Shape, DType]:
        dest, source = operands[:2]
        if source.dtype is not dest.dtype:
            raise DTypeMismatch(name, "wanted two operands of one dtype; cast one with astype()", operands)
        if source.ndim != dest.ndim:
            raise ShapeMismatch(name, f"wanted a source of rank {dest.ndim}, got {source.ndim}", operands)
        if len(attrs.starts) != dest.ndim or any(start < 0 for start in attrs.starts):
            wanted = f"wanted a first place from 0 for each of {dest.ndim} axes, got {attrs.starts}"
            raise ShapeMismatch(name, wanted, operands)
        if index is not None and (operands[2].dtype is not index or operands[2].ndim):
            raise DTypeMismatch(name, f"wanted a place of dtype {index} and no dimensions", operands)
        if not isinstance(attrs, WriteSlice):
            check_axes(name, [attrs.axis], dest.ndim, operands)
        return dest.shape, dest.dtype

    return infer


def _check_inside(name: str, operands: Sequence[TensorType], starts: Sequence[int]) -> None:
    """The source lies inside, from its first places on, as far as the sizes are known."""
    for axis, (dim, length, start) in enumerate(zip(operands[0].shape, operands[1].shape, starts, strict=True)):
        if isinstance(dim, int) and isinstance(length, int) and start + length > dim:
            reason = f"wanted at most {dim} places along axis {axis}, got {length} from {start} on"
            raise ShapeMismatch(name, reason, operands)


def _check_slice(operands: Sequence[TensorType], attrs: WriteSlice, result: Shape) -> None:
    _check_inside("write_slice", operands, attrs.starts)


def _check_doff(operands: Sequence[TensorType], attrs: WriteSliceDoff, result: Shape) -> None:
    _check_inside("write_slice_doff", operands, attrs.starts)
    if attrs.starts[attrs.axis]:
        raise GraphError("write_slice_doff", f"the place along axis {attrs.axis} is operand 2: wanted 0", operands)


def _check_rotating(operands: Sequence[TensorType], attrs: WriteSliceRotating, result: Shape) -> None:
    name, axis = "write_slice_rotating", attrs.axis
    _check_inside(name, operands, attrs.starts)
    if attrs.starts[axis]:
        raise GraphError(name, f"the place along axis {axis} is operand 2: wanted 0", operands)
    dim, length = operands[0].shape[axis], operands[1].shape[axis]
    if attrs.modulus < 1 or (isinstance(dim, int) and attrs.modulus > dim):
        raise ShapeMismatch(name, f"wanted a modulus from 1 to {dim}, got {attrs.modulus}", operands)
    if isinstance(length, int) and length > attrs.modulus:
        raise ShapeMismatch(name, f"wanted at most {attrs.modulus} places in {show((dim,))}, got {length}", operands)


# dest, with source in place of what lies there from `starts` on.
WRITE_SLICE = OpSpec(
    name="write_slice",
    arity=2,
    infer=_writing("write_slice", None),
    check=_check_slice,
    kind=OpKind.WriteSlice,
    attrs=WriteSlice,
    destroys=0,
)

# The same, with the first place along one axis read at each run, an i64. Outside of dest the run fails.
WRITE_SLICE_DOFF = OpSpec(
    name="write_slice_doff",
    arity=3,
    infer=_writing("write_slice_doff", DType.I64),
    check=_check_doff,
    kind=OpKind.WriteSliceDoff,
    attrs=WriteSliceDoff,
    destroys=0,
)

# Entry j of source goes to (position + j) % modulus along the axis: a ring buffer. The position is a u32.
WRITE_SLICE_ROTATING = OpSpec(
    name="write_slice_rotating",
    arity=3,
    infer=_writing("write_slice_rotating", DType.U32),
    check=_check_rotating,
    kind=OpKind.WriteSliceRotating,
    attrs=WriteSliceRotating,
    destroys=0,
)


# --- placement and lifetime ---------------------------------------------------------------------------------


def _same(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    return operands[0].shape, operands[0].dtype


def _nothing(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    return (0,), operands[0].dtype


# The operand's values somewhere else; the operand itself is not needed any more. Its kernel is that of copy.
MOVE = OpSpec(name="move", arity=1, infer=_same, kind=OpKind.Copy, destroys=0)

# No elements: says that the operand is not needed any more. It is there wherever its operand is, read or not.
RELEASE = OpSpec(
    name="release",
    arity=1,
    infer=_nothing,
    view=lambda layout, attrs, shape: Layout.contiguous(shape),
    destroys=0,
)

INPLACE = (*IN_PLACE.values(), WRITE_SLICE, WRITE_SLICE_DOFF, WRITE_SLICE_ROTATING, MOVE, RELEASE)
