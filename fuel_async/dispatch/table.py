"""The binding table: (what, operand dtypes, backend) -> the kernels that serve it, in order of registration.

A table is filled, finalized, and then never changes: whoever holds one decides from it for as long as they
like. `copy()` gives a new one to extend. Lookups are exact: no dtype is promoted and no other backend is
tried, since both are decisions of the planner that it must see. Kernels of any number of inputs (concat) are
registered under (input dtype, output dtype).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.dispatch.kernel import (
    DENSE_ONLY,
    BindingEntry,
    BindingKey,
    CostExpr,
    CostFn,
    KernelCaps,
    KernelDTypes,
    KernelRef,
    RuntimeFused,
    features_needed,
    unknown_cost,
)
from fuel_async.errors import DuplicateKernel, NoBackendForOp, RegistryMisuse
from fuel_async.ir import BackendId, OpKind, PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Key: TypeAlias = tuple[BindingKey, KernelDTypes, BackendId]


class KernelBindingTable:
    """Kernels by (op kind or run-time fused id, operand dtypes, backend); several under one key are siblings.

    Mutable until `finalize()`, and then only its builder's; immutable and readable from any thread after it.
    """

    __slots__ = ("_final", "_rows")

    def __init__(self) -> None:
        self._rows: dict[_Key, tuple[BindingEntry, ...]] = {}
        self._final = False

    # --- filling ---

    def register(
        self,
        op: BindingKey,
        dtypes: KernelDTypes,
        backend: BackendId,
        kernel: KernelRef,
        *,
        caps: KernelCaps = DENSE_ONLY,
        precision: PrecisionGuarantee = PrecisionGuarantee.UNAUDITED,
        cost: CostFn = unknown_cost,
        kernel_source: str = "",
        is_generic: bool = False,
        kernel_revision_hash: int = 0,
        cost_expr: CostExpr | None = None,
    ) -> None:
        """Append a kernel under (op, dtypes, backend); `dtypes` lists the inputs, then the outputs.

        Registering one kernel twice under one key is found by `finalize`. `RegistryMisuse` after `finalize`.
        """
        entry = BindingEntry(kernel, caps, precision, cost, kernel_source, is_generic, kernel_revision_hash, cost_expr)
        self.register_entry(op, dtypes, backend, entry)

    def register_entry(self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId, entry: BindingEntry) -> None:
        """Append a whole row; the errors are those of `register`."""
        self._check_open()
        if not dtypes:
            raise RegistryMisuse(f"{_op_text(op)} of {backend} names no dtypes; list inputs, then outputs")
        key = (op, tuple(dtypes), backend)
        self._rows[key] = (*self._rows.get(key, ()), entry)

    def fill_unset_cpu_precision(self, default: PrecisionGuarantee) -> None:
        """Give `default` to each host entry that claims nothing and was not examined either."""

        def filled(key: _Key, entry: BindingEntry) -> BindingEntry:
            found = entry.precision
            if not key[2].is_host or not found.makes_no_static_claim() or found.is_audited_no_bound():
                return entry
            return replace(entry, precision=default)

        self._fill(filled)

    def fill_unset_cpu_cost(self, dispatcher: Callable[[OpKind], CostFn]) -> None:
        """Price each unpriced host entry with `dispatcher(op)`; fused ones are left alone."""
        self.fill_unset_cost_for_backend(BackendId.CPU, dispatcher)

    def fill_unset_cost_for_backend(self, backend: BackendId, dispatcher: Callable[[OpKind], CostFn]) -> None:
        """Price each unpriced entry of `backend` with `dispatcher(op)`; fused ones are left alone."""

        def filled(key: _Key, entry: BindingEntry) -> BindingEntry:
            op, _, found = key
            if found != backend or isinstance(op, RuntimeFused) or entry.cost is not unknown_cost:
                return entry
            return replace(entry, cost=dispatcher(op))

        self._fill(filled)

    def finalize(self) -> KernelBindingTable:
        """Check the table, make it immutable for good, and return it.

        `DuplicateKernel` when one key holds the same kernel object twice. One kernel under several keys is
        fine.
        """
        for (op, dtypes, backend), entries in self._rows.items():
            if len({id(entry.kernel) for entry in entries}) != len(entries):
                raise DuplicateKernel(_op_text(op), _names(dtypes), backend.variant)
        self._final = True
        return self

    def copy(self) -> KernelBindingTable:
        """Return an open table with the same rows; the kernels themselves are shared."""
        other = KernelBindingTable()
        other._rows = dict(self._rows)
        return other

    @property
    def is_final(self) -> bool:
        """Whether it can change no more."""
        return self._final

    # --- looking up ---

    def lookup_entry(
        self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId, features: frozenset[str] | None = None
    ) -> BindingEntry:
        """Return the row that a dense call takes: the first sibling that requires no broadcast operand.

        With `features`, those of a device, the first whose kernel needs no others. `NoBackendForOp`, with all that the
        table covers, when there is none.
        """
        entry = self._pick(op, dtypes, backend, features)
        if entry is None:
            raise self.refusal(op, dtypes)
        return entry

    def refusal(self, op: BindingKey, dtypes: KernelDTypes) -> NoBackendForOp:
        """Return the error of whoever finds no kernel: it says all that the table covers."""
        available, covered = self.coverage_diagnostic()
        return NoBackendForOp(
            _op_text(op),
            _names(dtypes),
            [other.variant for other in available],
            [(other.variant, kind.value, _names(served)) for other, kind, served in covered],
        )

    def lookup_with_caps(
        self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId
    ) -> tuple[KernelRef, KernelCaps]:
        """Return kernel and capabilities of `lookup_entry`."""
        entry = self.lookup_entry(op, dtypes, backend)
        return entry.kernel, entry.caps

    def lookup(self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId) -> KernelRef:
        """Return the kernel of `lookup_entry`."""
        return self.lookup_entry(op, dtypes, backend).kernel

    def backend_supports(
        self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId, features: frozenset[str] | None = None
    ) -> bool:
        """Whether `lookup_entry` would find a kernel, by the same rule."""
        return self._pick(op, dtypes, backend, features) is not None

    def lookup_alternatives(self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId) -> tuple[BindingEntry, ...]:
        """Return all siblings in order, those that require a broadcast operand included; () when absent."""
        return self._rows.get((op, dtypes, backend), ())

    def lookup_precision(self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId) -> PrecisionGuarantee:
        """Return the precision of the row that `lookup_entry` takes; UNAUDITED when there is none."""
        entry = self._pick(op, dtypes, backend)
        return PrecisionGuarantee.UNAUDITED if entry is None else entry.precision

    def lookup_cost(self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId) -> CostFn:
        """Return the cost function of the row that `lookup_entry` takes; `unknown_cost` if there is none."""
        entry = self._pick(op, dtypes, backend)
        return unknown_cost if entry is None else entry.cost

    def has_runtime_fused(self, fused_id: int, backend: BackendId) -> bool:
        """Whether `backend` has a kernel for that fused region, for any dtypes."""
        return self.first_runtime_fused(fused_id, backend) is not None

    def first_runtime_fused(self, fused_id: int, backend: BackendId) -> BindingEntry | None:
        """Return the first kernel that `backend` has for that fused region; None when it has none."""
        wanted = RuntimeFused(fused_id)
        return next(
            (entries[0] for (op, _, found), entries in self._rows.items() if (op, found) == (wanted, backend)),
            None,
        )

    # --- walking: op kinds only, run-time fused keys are passed over ---

    def iter_keys(self) -> Iterator[tuple[OpKind, KernelDTypes, BackendId]]:
        """Iterate over the keys in order of their first registration."""
        return ((op, dtypes, backend) for op, dtypes, backend in self._rows if not isinstance(op, RuntimeFused))

    def iter_entries(self) -> Iterator[tuple[OpKind, KernelDTypes, BackendId, BindingEntry]]:
        """Iterate over every row, siblings in order."""
        return ((*key, entry) for key in self.iter_keys() for entry in self._rows[key])

    def iter_precision(self) -> Iterator[tuple[OpKind, KernelDTypes, BackendId, PrecisionGuarantee]]:
        """Iterate over the precision of every row."""
        return ((op, dtypes, backend, entry.precision) for op, dtypes, backend, entry in self.iter_entries())

    def iter_cost(self) -> Iterator[tuple[OpKind, KernelDTypes, BackendId, CostFn]]:
        """Iterate over the cost function of every row."""
        return ((op, dtypes, backend, entry.cost) for op, dtypes, backend, entry in self.iter_entries())

    def coverage_diagnostic(
        self,
    ) -> tuple[tuple[BackendId, ...], tuple[tuple[BackendId, OpKind, KernelDTypes], ...]]:
        """Return the distinct backends and every (backend, op, dtypes), both in order of registration."""
        backends = dict.fromkeys(backend for _, _, backend in self._rows)
        return tuple(backends), tuple((backend, op, dtypes) for op, dtypes, backend in self.iter_keys())

    def key_count(self) -> int:
        """Return the number of distinct keys."""
        return len(self._rows)

    def is_empty(self) -> bool:
        """Whether it has no row at all."""
        return not self._rows

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    # --- inside ---

    def _pick(
        self, op: BindingKey, dtypes: KernelDTypes, backend: BackendId, features: frozenset[str] | None = None
    ) -> BindingEntry | None:
        for entry in self._rows.get((op, dtypes, backend), ()):
            if entry.caps.requires_broadcast:
                continue
            if features is None or features_needed(entry.kernel) <= features:
                return entry
        return None

    def _fill(self, filled: Callable[[_Key, BindingEntry], BindingEntry]) -> None:
        self._check_open()
        for key, entries in self._rows.items():
            self._rows[key] = tuple(filled(key, entry) for entry in entries)

    def _check_open(self) -> None:
        if self._final:
            raise RegistryMisuse(
                "this binding table is final and never changes; fill a copy() or use extend_global_bindings()"
            )


def _op_text(op: BindingKey) -> str:
    return OpKind.RuntimeFused.value if isinstance(op, RuntimeFused) else op.value


def _names(dtypes: KernelDTypes) -> tuple[str, ...]:
    return tuple(dtype.name for dtype in dtypes)
