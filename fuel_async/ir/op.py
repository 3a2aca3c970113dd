"""What an op of the graph is: one frozen paragraph each, in `ir.ops.<family>`.

Everything true of an op on every device stands in its `OpSpec`; nothing device-specific does. Ops come in
three forms: a *leaf* (its value comes from outside), a *view* (a new layout over the bytes of its operand), a
*kernel* (computed by a registered kernel of its `kind`). Prices live in `cost.layer1`, keyed by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias
from zlib import crc32

from fuel_async.errors import DTypeMismatch, InternalError, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.layout import Layout
from fuel_async.ir.symbol import Shape

if TYPE_CHECKING:
    from fuel_async.ir.opkind import OpKind

#: The parameters of one node: a NamedTuple of the op's own class, or None for an op without any. Hashable,
#: and made of numbers only, so that the cyclic garbage collector forgets it at its first pass.
Attrs: TypeAlias = "tuple[Any, ...] | None"


@dataclass(frozen=True, slots=True, eq=False)
class TensorType:
    """Shape and dtype of a value. Interned by its graph: within one graph equal types are one object.

    `nbytes` is -1 while a dimension is symbolic.
    """

    shape: Shape
    dtype: DType
    nbytes: int

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(str(dim) for dim in self.shape)}]"


class Form(Enum):
    """How a node's value comes about."""

    LEAF = "leaf"
    VIEW = "view"
    KERNEL = "kernel"


#: (operand types, attrs) -> (shape, dtype) of the result; raises `ShapeMismatch` or `DTypeMismatch`.
Infer: TypeAlias = Callable[[Sequence[TensorType], Any], tuple[Shape, DType]]
#: (operand types, attrs, result shape): raises `ShapeMismatch` when they cannot belong together. What depends
#: on symbols is let pass; it is checked again once they are bound.
Check: TypeAlias = Callable[[Sequence[TensorType], Any, Shape], None]
#: (operand types, attrs) -> (shape, dtype) of each output; raises as `Infer` does.
Outputs: TypeAlias = Callable[[Sequence[TensorType], Any], tuple[tuple[Shape, DType], ...]]
#: (operand layout, attrs, result shape) -> layout of the result over the same bytes, or None when it must be
#: copied.
ViewRule: TypeAlias = Callable[[Layout, Any, tuple[int, ...]], "Layout | None"]


def require_float(op: str, operands: Sequence[TensorType]) -> None:
    """Refuse an integer first operand."""
    if not operands[0].dtype.is_float:
        raise DTypeMismatch(op, "wanted a floating dtype; cast with astype()", operands)


def require_alike(op: str, operands: Sequence[TensorType]) -> None:
    """Refuse operands that differ in dtype or shape: these are never cast nor broadcast."""
    first, *others = operands
    if any(other.dtype is not first.dtype for other in others):
        raise DTypeMismatch(op, "operands differ in dtype; cast one with astype()", operands)
    if any(other.shape != first.shape for other in others):
        raise ShapeMismatch(op, "wanted operands of one shape", operands)


def require_array_dtype(op: str, dtype: object) -> None:
    """Refuse what is no dtype, and dtypes of which no array can be made."""
    if not isinstance(dtype, DType):
        raise DTypeMismatch(op, f"wanted a DType such as DType.F32, got {dtype!r}")
    if dtype.np is None:
        raise DTypeMismatch(op, f"no array can hold {dtype}; use another dtype")


def given(operands: Sequence[TensorType], attrs: Attrs) -> NoReturn:
    """The `infer` of ops whose result shape is given when a node is built."""
    raise InternalError("the result shape of this op is given when a node is built, never inferred")


@dataclass(frozen=True, slots=True, eq=False)
class OpSpec:
    """One op: name, arity, typing rule, and either the kind of its kernel or the layout rule of its view."""

    name: str
    #: Number of operands; -1 for one or more.
    arity: int
    infer: Infer
    #: What must hold between operands, attrs and result besides what `infer` refuses; all that is checked
    #: where `infer` is `given`.
    check: Check | None = None
    kind: OpKind | None = None
    view: ViewRule | None = None
    #: The NamedTuple class of the node parameters, or None.
    attrs: type[tuple[Any, ...]] | None = None
    #: The result is 0 or 1 in uint8 and is delivered to callers as bool.
    boolean: bool = False
    #: The operand whose bytes the op may write over, always the first; None for most ops. Whoever else reads that
    #: operand sees what it was before.
    destroys: int | None = None
    #: The rule of all outputs, of an op that has several; `infer` gives the first. None for most ops.
    outputs: Outputs | None = None
    #: What these outputs are called, in order.
    slots: tuple[str, ...] = ()
    #: The operand is a bundle: the node of an op with several outputs. No other op takes one.
    takes_bundle: bool = False

    #: Leaf, view or kernel: follows from `kind` and `view`.
    form: Form = field(init=False)
    #: A number that stands for the op in structural hashes: follows from the name, unique in the table of
    #: ops.
    code: int = field(init=False)

    def __post_init__(self) -> None:
        form = Form.KERNEL if self.kind is not None else Form.VIEW if self.view is not None else Form.LEAF
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "code", crc32(self.name.encode()))

    @property
    def is_given(self) -> bool:
        """Whether the result shape is given when a node is built, instead of inferred."""
        return self.infer is given

    def __repr__(self) -> str:
        return f"<op {self.name}>"
