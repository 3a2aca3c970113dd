"""What a kernel is to the dispatcher: a callable, its capabilities, and one row of the binding table.

Calling a kernel with `(inputs, outputs, layouts, params)` is all that correctness needs. A kernel that also
offers the optional parts of `BindableKernel` is bound once, with all checks made, and then called with raw
arrays. The table of rows is in `dispatch.table`; no kernel is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from fuel_async.dispatch.capability import BackendCapabilities
from fuel_async.dispatch.params import OpParams
from fuel_async.errors import UserError
from fuel_async.ir import (
    CostEstimate,
    DeviceLocation,
    DType,
    Layout,
    OpKind,
    PrecisionGuarantee,
    SubstrateClass,
)

#: Operand dtypes of one kernel: inputs in order, then outputs.
KernelDTypes: TypeAlias = tuple[DType, ...]


class StorageLike(Protocol):
    """What dispatch knows of a storage: the operands of a `KernelRef` are at least this."""

    @property
    def dtype(self) -> DType:
        """Type of the elements."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    @property
    def device(self) -> DeviceLocation:
        """The device whose memory it is."""

    @property
    def substrate(self) -> SubstrateClass:
        """The kind of that memory."""


#: `(inputs, outputs, layouts, params)`: input and output storages (`StorageLike`), input layouts followed by
#: output layouts, parameters. Outputs are allocated by the caller; a kernel of several outputs is given one, with the
#: layout of slot 0, whose `bundle` says where the slots lie. A kernel allocates nothing that outlives
#: the call, raises typed errors for what it cannot take, and on an asynchronous device may only enqueue.
KernelRef: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Sequence[Layout], OpParams], None]

#: What `BindableKernel.bind` returns: a callable and its positional arguments.
Bound: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


class BindableKernel(Protocol):
    """The optional second face of a kernel; each member is looked up by name and may be missing.

    `inputs` and `outputs` are the backend's raw arrays, already laid out (on the host: strided numpy views), the
    outputs of a bundle slot by slot;
    `scratch` are byte arrays of the sizes that `scratch_nbytes` asked for. The arguments that `bind` returns
    contain the operand arrays themselves, the same objects, never arrays derived from them: a run may put
    other arrays in their places.
    """

    #: A callable whose positional arguments are exactly the inputs followed by the outputs; None when there
    #: is none.
    direct: Callable[..., object] | None

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any], params: OpParams, scratch: Sequence[Any]) -> Bound:
        """Check everything once and return the call; nothing it does may allocate arrays."""

    def scratch_nbytes(
        self, params: OpParams, input_types: Sequence[Any], output_types: Sequence[Any]
    ) -> tuple[int, ...]:
        """Return the sizes of the working memory of one call; () when it needs none."""


@dataclass(frozen=True, slots=True)
class KernelCaps:
    """What a kernel can be given beyond contiguous operands and separate outputs."""

    #: Reads inputs through their strides, negative and zero ones included.
    strided_input: bool = False
    #: Has an operand of stride 0 baked in: must never be given a dense one, so the dense pick passes it over.
    requires_broadcast: bool = False
    #: Output 0 may occupy exactly the bytes of an input of the same type; as storages, they are then one object.
    in_place: bool = False


#: The capabilities of a kernel that takes contiguous operands and separate outputs only.
DENSE_ONLY = KernelCaps()

#: `(shapes, dtypes, params, caps)` -> cost; shapes and dtypes list the inputs, then the output. Pure; never
#: raises for parameters it does not know but returns an unpriced estimate.
CostFn: TypeAlias = Callable[[Sequence[tuple[int, ...]], KernelDTypes, OpParams, BackendCapabilities], CostEstimate]


def unknown_cost(
    shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Return an unpriced estimate: the mark, told by identity, of a row nobody has priced yet."""
    return CostEstimate()


class CostExpr(Protocol):
    """A price that a kernel's contract declares."""

    def evaluate(
        self,
        shapes: Sequence[tuple[int, ...]],
        dtypes: KernelDTypes,
        params: OpParams,
        caps: BackendCapabilities,
    ) -> CostEstimate | None:
        """Return the declared cost, or None when the expression does not cover these operands."""


#: Ids of ops fused at run time start here; those below are the fixed ones.
RUNTIME_FUSED_BASE = 0x8000


@dataclass(frozen=True, slots=True)
class RuntimeFused:
    """The key of a kernel that was generated at run time for one fused region."""

    fused_id: int

    def __post_init__(self) -> None:
        if self.fused_id < RUNTIME_FUSED_BASE:
            raise UserError(f"fused op {self.fused_id} is a fixed one; run-time ids start at {RUNTIME_FUSED_BASE}")


def features_needed(kernel: KernelRef) -> frozenset[str]:
    """The device features that a kernel says it cannot run without (its optional attribute `needs`)."""
    needs: frozenset[str] = getattr(kernel, "needs", _NOTHING)
    return needs


_NOTHING: frozenset[str] = frozenset()

#: What a kernel computes: an op kind, or a region fused at run time.
BindingKey: TypeAlias = OpKind | RuntimeFused


@dataclass(frozen=True, slots=True)
class BindingEntry:
    """One row of the binding table: a kernel and everything the planner knows of it."""

    kernel: KernelRef
    caps: KernelCaps = DENSE_ONLY
    precision: PrecisionGuarantee = PrecisionGuarantee.UNAUDITED
    cost: CostFn = unknown_cost
    #: Tells siblings under one key apart, for example the library they come from.
    kernel_source: str = ""
    #: A fallback for operands that no specialised sibling takes.
    is_generic: bool = False
    #: Identifies the kernel's code in what is persisted; 0 means that it is not tracked.
    kernel_revision_hash: int = 0
    cost_expr: CostExpr | None = None
