"""Tensor: the handle by which users compose a graph, with operators and names of the Array API standard.

A tensor has a shape and a dtype and no value. Methods append nodes to its graph; mixed dtypes are cast
explicitly after the standard's promotion table, and Python numbers take the tensor's dtype. The graph does
not know its tensors: they die with the user's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from fuel_async.errors import DTypeMismatch, GraphError
from fuel_async.ir import views
from fuel_async.ir.dtype import DType, promote
from fuel_async.ir.folds import Folds
from fuel_async.ir.inplace import InPlace
from fuel_async.ir.op import OpSpec, TensorType, require_array_dtype
from fuel_async.ir.ops.elementwise import (
    AFFINE,
    BINARIES,
    CAST,
    CLAMP,
    COMPARISONS,
    POWI,
    UNARIES,
    Affine,
    Cast,
    Clamp,
    PowI,
)
from fuel_async.ir.ops.indexing import INDEX_SELECT, IndexSelect
from fuel_async.ir.ops.matmul import MATMUL
from fuel_async.ir.ops.movement import COPY
from fuel_async.ir.products import matmul
from fuel_async.ir.shape import integer, normal_axis, number
from fuel_async.ir.symbol import Dim, Shape, Symbolic, count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    from fuel_async.ir.device import DeviceLocation
    from fuel_async.ir.graph import Graph

Scalar: TypeAlias = "bool | int | float"
Axis: TypeAlias = "int | Sequence[int] | None"
Index: TypeAlias = "int | Symbolic | slice | EllipsisType | None"

_ADD, _SUB, _MUL, _DIV, _POW, _REM = (BINARIES[name] for name in ("add", "sub", "mul", "div", "pow", "rem"))


class Tensor(Folds, InPlace):
    """A value of a graph: node id, shape and dtype. `Graph.input` and `Graph.constant` begin."""

    __slots__ = ("graph", "index", "type")
    # numpy must not broadcast over a tensor: `array + tensor` comes to `__radd__`, which says what to do.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, index: int, kind: TensorType) -> None:
        """Users do not call this."""
        self.graph, self.index, self.type = graph, index, kind

    # --- facts ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The dimensions: integers, or symbols that a run's feeds bind."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return count(self.type.shape)

    def __repr__(self) -> str:
        return f"<Tensor %{self.index} {self.graph._ops[self.index].name} {self.type}>"

    def __bool__(self) -> bool:
        raise GraphError("bool", "a tensor has no value while its graph is built; use where()", [self.type])

    def __iter__(self) -> NoReturn:
        raise GraphError("iteration", "a tensor is not iterable; index it", [self.type])

    # --- arithmetic -----------------------------------------------------------------------------------------

    def __add__(self, other: Tensor | Scalar) -> Tensor:
        return binary(_ADD, self, other)

    def __radd__(self, other: Scalar) -> Tensor:
        return binary(_ADD, other, self)

    def __sub__(self, other: Tensor | Scalar) -> Tensor:
        return binary(_SUB, self, other)

    def __rsub__(self, other: Scalar) -> Tensor:
        return binary(_SUB, other, self)

    def __mul__(self, other: Tensor | Scalar) -> Tensor:
        return binary(_MUL, self, other)

    def __rmul__(self, other: Scalar) -> Tensor:
        return binary(_MUL, other, self)

    def __truediv__(self, other: Tensor | Scalar) -> Tensor:
        return binary(_DIV, self, other)

    def __rtruediv__(self, other: Scalar) -> Tensor:
        return binary(_DIV, other, self)

    def __pow__(self, other: Tensor | Scalar) -> Tensor:
        return binary(_POW, self, other)

    def __rpow__(self, other: Scalar) -> Tensor:
        return binary(_POW, other, self)

    def __mod__(self, other: Tensor | Scalar) -> Tensor:
        return binary(_REM, self, other)

    def __rmod__(self, other: Scalar) -> Tensor:
        return binary(_REM, other, self)

    def __matmul__(self, other: Tensor) -> Tensor:
        graph = self.graph
        if other.__class__ is not Tensor or other.graph is not graph:
            graph.own("matmul", other)
        if self.type.dtype is other.type.dtype and len(self.type.shape) == len(other.type.shape) == 2:
            return graph.node(MATMUL, (self, other))
        left, right = promoted("matmul", self, other)
        return matmul(left, right)

    def __rmatmul__(self, other: object) -> NoReturn:
        # A tensor on the left comes to its own __matmul__.
        got = type(other).__name__
        raise GraphError("matmul", f"wanted a Tensor, got {got}; wrap arrays with Graph.constant()", [self.type])

    def __neg__(self) -> Tensor:
        return self._unary("neg")

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return self._unary("abs")

    # --- comparisons: uint8 here, bool when delivered -------------------------------------------------------

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return binary(COMPARISONS["eq"], self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return binary(COMPARISONS["ne"], self, other)

    def __lt__(self, other: Tensor | Scalar) -> Tensor:
        return binary(COMPARISONS["lt"], self, other)

    def __le__(self, other: Tensor | Scalar) -> Tensor:
        return binary(COMPARISONS["le"], self, other)

    def __gt__(self, other: Tensor | Scalar) -> Tensor:
        return binary(COMPARISONS["gt"], self, other)

    def __ge__(self, other: Tensor | Scalar) -> Tensor:
        return binary(COMPARISONS["ge"], self, other)

    __hash__ = object.__hash__

    # --- elementwise ----------------------------------------------------------------------------------------

    def _unary(self, name: str) -> Tensor:
        op, kind = UNARIES[name], self.type
        if kind.dtype.is_int:  # some refuse integers; otherwise the result has the operand's type
            op.infer((kind,), None)
        return self.graph._append(op, (self.index,), kind, None)

    def exp(self) -> Tensor:
        """The exponential of each element."""
        return self._unary("exp")

    def log(self) -> Tensor:
        """Natural logarithm: -inf at 0, NaN below."""
        return self._unary("log")

    def sqrt(self) -> Tensor:
        """Square root: NaN below 0."""
        return self._unary("sqrt")

    def rsqrt(self) -> Tensor:
        """1 / sqrt(x): inf at 0."""
        return self._unary("rsqrt")

    def reciprocal(self) -> Tensor:
        """1 / x: inf at 0."""
        return self._unary("recip")

    def square(self) -> Tensor:
        """The element times itself."""
        return self._unary("sqr")

    def sin(self) -> Tensor:
        """Sine of an angle in radians."""
        return self._unary("sin")

    def cos(self) -> Tensor:
        """Cosine of an angle in radians."""
        return self._unary("cos")

    def tanh(self) -> Tensor:
        """Hyperbolic tangent."""
        return self._unary("tanh")

    def erf(self) -> Tensor:
        """Gauss error function."""
        return self._unary("erf")

    def floor(self) -> Tensor:
        """Round towards minus infinity."""
        return self._unary("floor")

    def ceil(self) -> Tensor:
        """Round towards plus infinity."""
        return self._unary("ceil")

    def round(self) -> Tensor:
        """Round to the nearest integer, halves to even."""
        return self._unary("round")

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN stays NaN."""
        return self._unary("sign")

    def relu(self) -> Tensor:
        """max(x, 0); NaN stays NaN."""
        return self._unary("relu")

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self._unary("sigmoid")

    def silu(self) -> Tensor:
        """The element times its sigmoid."""
        return self._unary("silu")

    def gelu(self, approximate: Literal["none", "tanh"] = "none") -> Tensor:
        """Gaussian error linear unit: by erf ("none"), or by its tanh approximation ("tanh")."""
        if approximate not in ("none", "tanh"):
            raise GraphError("gelu", f'wanted approximate "none" or "tanh", got {approximate!r}', [self.type])
        return self._unary("gelu" if approximate == "tanh" else "gelu_erf")

    def clip(self, min: Scalar | None = None, max: Scalar | None = None) -> Tensor:  # noqa: A002 - the standard's
        """Clamp each element into [min, max]; an absent bound is open."""
        low = float("-inf") if min is None else number("clip", min)
        high = float("inf") if max is None else number("clip", max)
        return self.graph.node(CLAMP, (self,), Clamp(low, high))

    def affine(self, mul: Scalar, add: Scalar) -> Tensor:
        """Each element times `mul`, plus `add`: two numbers, one kernel."""
        return self.graph.node(AFFINE, (self,), Affine(number("affine", mul), number("affine", add)))

    def powi(self, exp: int) -> Tensor:
        """Each element to an integer power of at most 32 bits; 1 when `exp` is 0."""
        return self.graph.node(POWI, (self,), PowI(integer("powi", "exp", exp)))

    def astype(self, dtype: DType) -> Tensor:
        """Cast to `dtype`; the tensor itself when it has that dtype already."""
        if dtype is self.type.dtype:
            return self
        require_array_dtype("cast", dtype)
        return self.graph.node(CAST, (self,), Cast(dtype.code))

    # --- movement -------------------------------------------------------------------------------------------

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        return views.transpose(self)

    @property
    def mT(self) -> Tensor:
        """The last two axes swapped."""
        return views.transpose(self, batched=True)

    def permute_dims(self, axes: Sequence[int]) -> Tensor:
        """Reorder the axes: result axis i is axis `axes[i]`."""
        return views.permute_dims(self, axes)

    def reshape(self, shape: Sequence[int | str | Symbolic]) -> Tensor:
        """Give the same elements in row-major order another shape; one dimension may be -1."""
        return views.reshape(self, shape)

    def broadcast_to(self, shape: Sequence[int | str | Symbolic]) -> Tensor:
        """Repeat dimensions of size 1, and add dimensions in front, without copying."""
        return views.broadcast_to(self, shape)

    def expand_dims(self, axis: int | Sequence[int]) -> Tensor:
        """Insert dimensions of size 1 so that they are at `axis` of the result."""
        return views.expand_dims(self, axis)

    def squeeze(self, axis: int | Sequence[int]) -> Tensor:
        """Drop dimensions of size 1."""
        return views.squeeze(self, axis)

    def flip(self, axis: Axis = None) -> Tensor:
        """Reverse the order along `axis` (all axes when None)."""
        return views.flip(self, axis)

    def contiguous(self) -> Tensor:
        """The same values laid out in row-major order; free when they are already."""
        return views.contiguous(self)

    def to(self, device: DeviceLocation | str) -> Tensor:
        """Copy the values, on `device` and nowhere else; see `Graph.on`."""
        with self.graph.on(device):
            return self.graph.node(COPY, (self,))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Tensor:
        # Integers, slices, `...` and None. A bound may be a symbol; along a symbolic dimension numbers must
        # lie inside of it, which is checked when the symbol is bound.
        return views.getitem(self, index if isinstance(index, tuple) else (index,))

    def take(self, indices: Tensor, *, axis: int = 0) -> Tensor:
        """Pick entries along `axis` by a u32 tensor of one dimension; an index out of range fails the run."""
        place = normal_axis("take", axis, self.ndim, [self.type])
        return self.graph.node(INDEX_SELECT, (self, indices), IndexSelect(place))


def binary(op: OpSpec, left: object, right: object) -> Tensor:
    """Append a two-operand elementwise op; numbers become rank-0 constants, mixed dtypes are cast."""
    if not isinstance(left, Tensor):
        if not isinstance(right, Tensor):
            raise GraphError(op.name, "wanted at least one Tensor")
        left = weak(op.name, left, right)
    elif not isinstance(right, Tensor):
        right = weak(op.name, right, left)
    graph, kind = left.graph, left.type
    if kind is right.type and graph is right.graph and not op.boolean and kind.dtype.is_float:
        return graph._append(op, (left.index, right.index), kind, None)
    if kind.dtype is right.type.dtype:
        return graph.node(op, (left, right))
    return graph.node(op, promoted(op.name, left, right))


def owned(op: str, *operands: Tensor) -> tuple[Tensor, ...]:
    """Return the operands; `GraphError` unless all are tensors of one graph."""
    for operand in operands:
        if operand.__class__ is not Tensor:
            got = type(operand).__name__
            raise GraphError(op, f"wanted a Tensor, got {got}; wrap arrays with Graph.constant()")
        operands[0].graph.own(op, operand)
    return operands


def promoted(op: str, *operands: Tensor) -> tuple[Tensor, ...]:
    """Return the operands cast to their common dtype after the Array API table."""
    graph, dtype = operands[0].graph, operands[0].dtype
    for operand in operands[1:]:
        graph.own(op, operand)
        if operand.dtype is not dtype:
            try:
                dtype = promote(dtype, operand.dtype)
            except DTypeMismatch as error:
                raise DTypeMismatch(op, error.reason, [t.type for t in operands]) from None
    return tuple([operand.astype(dtype) for operand in operands])


def weak(op: str, value: object, beside: Tensor) -> Tensor:
    """Return the Python number `value` as a constant of the dtype of the tensor `beside` it."""
    if isinstance(value, bool | int | float):
        try:
            return beside.graph.scalar(value, beside.dtype)
        except DTypeMismatch as error:
            raise DTypeMismatch(op, error.reason, [beside.type]) from None
    got = type(value).__name__
    reason = f"wanted a Tensor or a number, got {got}; wrap arrays with Graph.constant()"
    raise GraphError(op, reason, [beside.type])
