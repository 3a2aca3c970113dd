"""The registry of fused kernels: (fused op, backend) -> the kernels that compute it in one go, in order.

It answers what a fused op would cost, how exact it is and whether a backend has it at all; what it does not have is
decomposed. Runs do not read it: they find the same kernels in the binding table, under the kind of the op.

    >>> registry = FusedKernelRegistry()
    >>> registry.is_empty
    True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.dispatch.fused_ops import FUSED_OPS, FusedOpId
from fuel_async.dispatch.kernel import DENSE_ONLY, CostExpr, CostFn, KernelCaps, KernelDTypes, KernelRef, unknown_cost
from fuel_async.dispatch.node_params import derive_params
from fuel_async.dispatch.revision import KernelRevisionHash
from fuel_async.errors import DuplicateKernel, GraphError, RegistryMisuse
from fuel_async.ir import BackendId, Graph, PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuel_async.dispatch.fused_params import FusedOpParams
    from fuel_async.dispatch.params import OpParams
    from fuel_async.ir import DType


@dataclass(frozen=True, slots=True)
class BackendImpl:
    """One kernel of a fused op, and what is known of it. The key and the parts are those of a binding entry."""

    kernel: KernelRef
    #: Operand dtypes: inputs in order, then the output.
    dtypes: KernelDTypes
    #: Of one call, as in the binding table; `unknown_cost` where the price is that of the op's decomposition.
    cost: CostFn = unknown_cost
    precision: PrecisionGuarantee = PrecisionGuarantee.UNAUDITED
    caps: KernelCaps = DENSE_ONLY
    revision: KernelRevisionHash = KernelRevisionHash.UNTRACKED
    #: A price that the kernel's contract declares; it goes before `cost`.
    cost_expr: CostExpr | None = None


class FusedKernelRegistry:
    """Kernels of fused ops. Mutable until `freeze()`, and its builder's alone; readable from any thread after it."""

    __slots__ = ("_frozen", "_impls", "_slot_names")

    def __init__(self) -> None:
        self._impls: dict[FusedOpId, list[tuple[BackendId, BackendImpl]]] = {}
        self._slot_names: dict[tuple[FusedOpId, BackendId, KernelDTypes], tuple[str, ...]] = {}
        self._frozen = False

    def register(self, id: FusedOpId, backend: BackendId, impl: BackendImpl) -> None:  # noqa: A002 - the seeds' name
        """Append a kernel; the first that fits is the one that is found.

        `RegistryMisuse` after `freeze`, for `FusedOpId.UNASSIGNED`, and for a kernel without dtypes.
        """
        if self._frozen:
            raise RegistryMisuse("this registry of fused kernels is frozen and never changes; fill a new one")
        if id == FusedOpId.UNASSIGNED:
            raise RegistryMisuse("no kernel can be registered for UNASSIGNED, which is no fused op")
        if not impl.dtypes:
            raise RegistryMisuse(f"a kernel of {backend} for {id} names no dtypes; list inputs, then the output")
        self._impls.setdefault(id, []).append((backend, impl))

    def record_bundle_slot_names(
        self,
        id: FusedOpId,  # noqa: A002
        backend: BackendId,
        dtypes: KernelDTypes,
        names: Sequence[str],
    ) -> None:
        """Say what the outputs are called that the kernels under exactly this key give, in order.

        `RegistryMisuse` after `freeze`, when another number of names is given than the op has outputs (an op of one
        output has no slots), when two are equal or one is empty.
        """
        if self._frozen:
            raise RegistryMisuse("this registry of fused kernels is frozen and never changes; fill a new one")
        count = _slot_count(id)
        if len(names) != count or len(set(names)) != count or "" in names:
            raise RegistryMisuse(f"{id} has {count} slots, each with a name of its own; got {list(names)}")
        self._slot_names[id, backend, tuple(dtypes)] = tuple(names)

    def bundle_slot_names(self, id: FusedOpId, backend: BackendId, dtypes: KernelDTypes) -> tuple[str, ...]:  # noqa: A002
        """Return what was recorded under exactly this key, else slot0, slot1 and so on; () for an op of one output."""
        found = self._slot_names.get((id, backend, tuple(dtypes)))
        return tuple([f"slot{slot}" for slot in range(_slot_count(id))]) if found is None else found

    def freeze(self) -> FusedKernelRegistry:
        """Check the registry, make it immutable for good, and return it.

        `DuplicateKernel` when a backend has one kernel object twice for the same op and dtypes.
        """
        for fused, impls in self._impls.items():
            seen = set[tuple[BackendId, KernelDTypes, int]]()
            for backend, impl in impls:
                key = (backend, impl.dtypes, id(impl.kernel))
                if key in seen:
                    raise DuplicateKernel(str(fused), [dtype.name for dtype in impl.dtypes], backend.variant)
                seen.add(key)
        self._frozen = True
        return self

    @property
    def is_frozen(self) -> bool:
        """Whether it can change no more."""
        return self._frozen

    def lookup(self, id: FusedOpId, backend: BackendId) -> BackendImpl | None:  # noqa: A002
        """Return the first kernel that `backend` has for the op, whatever its dtypes; None when it has none."""
        return next(self._of(id, backend), None)

    def lookup_by_dtypes(self, id: FusedOpId, backend: BackendId, dtypes: KernelDTypes) -> BackendImpl | None:  # noqa: A002
        """Return the first kernel for exactly these dtypes; None when the op has to be decomposed there instead."""
        return next((impl for impl in self._of(id, backend) if impl.dtypes == dtypes), None)

    def impls_for(self, id: FusedOpId) -> tuple[tuple[BackendId, BackendImpl], ...]:  # noqa: A002
        """Return all kernels of the op with their backends, in order of registration."""
        return tuple(self._impls.get(id, ()))

    def ids(self) -> tuple[FusedOpId, ...]:
        """Return the ops that have kernels, in order of their first registration."""
        return tuple(self._impls)

    @property
    def is_empty(self) -> bool:
        """Whether it has no kernel at all."""
        return not self._impls

    def __len__(self) -> int:
        """The number of ops that have kernels."""
        return len(self._impls)

    def _of(self, fused: FusedOpId, backend: BackendId) -> Iterator[BackendImpl]:
        return (impl for found, impl in self._impls.get(fused, ()) if found == backend)


def _slot_count(fused: FusedOpId) -> int:
    """How many outputs share the bundle of the op; 0 for an op of one output, and for a number without an entry."""
    entry = FUSED_OPS.get(fused)
    return 0 if entry is None else len(entry.slot_names)


def register_fused(
    registry: FusedKernelRegistry,
    id: FusedOpId,  # noqa: A002 - the seeds' name
    backend: BackendId,
    dtypes: KernelDTypes,
    kernel: KernelRef,
    *,
    cost: CostFn = unknown_cost,
    precision: PrecisionGuarantee = PrecisionGuarantee.UNAUDITED,
    caps: KernelCaps = DENSE_ONLY,
    revision: KernelRevisionHash = KernelRevisionHash.UNTRACKED,
    cost_expr: CostExpr | None = None,
    slot_names: Sequence[str] = (),
) -> None:
    """Append a kernel for (op, backend, dtypes), inputs then output; errors are those of `register`.

    Without a price of its own the kernel has that of the op's decomposition. `slot_names` are those of its outputs, if
    the op has several, as in `record_bundle_slot_names`.
    """
    if slot_names:
        registry.record_bundle_slot_names(id, backend, dtypes, slot_names)
    registry.register(id, backend, BackendImpl(kernel, tuple(dtypes), cost, precision, caps, revision, cost_expr))


@dataclass(frozen=True, slots=True)
class FusedCall:
    """One call of a fused op as a price sees it: shapes and dtypes of inputs, then output, and kernel parameters.

    Of several outputs the first counts, as in the key of the kernel.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: KernelDTypes
    params: OpParams


def fused_call(
    id: FusedOpId,  # noqa: A002 - the seeds' name
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[DType],
    params: FusedOpParams,
) -> FusedCall | None:
    """Return the call on inputs of concrete `shapes` and `dtypes`.

    None when the op refuses them or takes other parameters, and for a number that has no entry.
    """
    entry = FUSED_OPS.get(id)
    if entry is None or not isinstance(params, entry.takes) or not len(shapes) == len(dtypes) == entry.op.arity:
        return None
    op, attrs, scratch = entry.op, params.attrs(entry.op), Graph(entry.name)
    try:
        operands = [
            scratch.input(f"operand {place}", shape, dtype)
            for place, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        output = (scratch.bundle(op, operands, attrs) if op.slots else scratch.node(op, operands, attrs)).type
    except GraphError:
        return None
    kernel_params = derive_params(op, attrs, [operand.type for operand in operands], output)
    return FusedCall((*shapes, output.shape), (*dtypes, output.dtype), kernel_params)  # type: ignore[arg-type]  # no symbols
