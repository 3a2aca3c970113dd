"""Prices of candidates: measured, declared by a contract, counted by the kernel, or Layer 1; each says which.

A candidate whose device advertises nothing, or for which nobody counts anything, is unpriced: it has no time, so it
loses against whatever has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from fuel_async.cost import UNPRICED, Price, PriceSource, on_device, price_call, rates_of
from fuel_async.dispatch import BackendCapabilities
from fuel_async.errors import UserError
from fuel_async.ir import BackendId, DeviceLocation, OpKind, SizeClass
from fuel_async.plan.rank.candidate import MOST_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import BindingKey, KernelBindingTable, KernelDTypes
    from fuel_async.ir import DType
    from fuel_async.plan.rank.alternatives import AlternativeSet
    from fuel_async.plan.rank.candidate import Candidate

#: What a backend can do on a device, None where it does not say. Two cards of one backend may differ.
CapabilitiesLookup: TypeAlias = Callable[[BackendId, DeviceLocation], BackendCapabilities | None]


@runtime_checkable
class JudgeOracle(Protocol):
    """Whoever has measured kernels."""

    def measured_latency_ns(
        self, op: OpKind, dtype: DType, size_class: SizeClass, backend: BackendId, kernel_source: str
    ) -> int | None:
        """Return what a kernel took on operands of that size; None when exactly this was not measured."""


class HashMapJudge:
    """Measured times by exact key. Fill it before others read it."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[OpKind, DType, SizeClass, BackendId, str], int] = {}

    def insert(
        self,
        op: OpKind,
        dtype: DType,
        size_class: SizeClass,
        backend: BackendId,
        kernel_source: str,
        latency_ns: int,
    ) -> None:
        """Note a time, in place of what was noted under the same key. `UserError` for one below 0."""
        if latency_ns < 0:
            raise UserError(f"{op.value} cannot have taken {latency_ns} ns; give a time of at least 0")
        self._times[op, dtype, size_class, backend, kernel_source] = latency_ns

    def measured_latency_ns(
        self, op: OpKind, dtype: DType, size_class: SizeClass, backend: BackendId, kernel_source: str
    ) -> int | None:
        """See `JudgeOracle`. Nothing is taken from other sources or backends."""
        return self._times.get((op, dtype, size_class, backend, kernel_source))

    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not self._times

    def __len__(self) -> int:
        return len(self._times)


def compute_static_costs(
    alternatives: AlternativeSet,
    op_kind: BindingKey,
    dtypes: KernelDTypes,
    shapes: Sequence[tuple[int, ...]],
    bindings: KernelBindingTable,
    capabilities_for: CapabilitiesLookup,
    judge: JudgeOracle | None = None,
) -> None:
    """Price every candidate with its own parameters.

    `shapes` and `dtypes` list the inputs, then the output. A measured time goes before a count and leaves the count as
    it is: bytes are still bytes. Candidates of unknown kernels and devices keep what they had.
    """
    kind = op_kind if isinstance(op_kind, OpKind) else None
    size_class = None if kind is None else SizeClass.for_op(kind, shapes)
    for index, one in enumerate(alternatives):
        caps = capabilities_for(one.backend, one.device)
        estimate, source = _price(one, op_kind, dtypes, shapes, bindings, caps)
        if source is PriceSource.UNPRICED:
            estimate, source = one.static_cost, one.price_source
        took = None
        if judge is not None and dtypes and kind is not None and size_class is not None:
            took = judge.measured_latency_ns(kind, dtypes[0], size_class, one.backend, one.kernel_source)
        changed = replace(
            one,
            static_cost=estimate,
            price_source=source if took is None else PriceSource.MEASURED,
            measured_ns=one.measured_ns if took is None else min(took, MOST_NS),
            rates=one.rates if caps is None else rates_of(op_kind, caps),
        )
        alternatives.put(index, changed)


def _price(
    one: Candidate,
    op: BindingKey,
    dtypes: KernelDTypes,
    shapes: Sequence[tuple[int, ...]],
    bindings: KernelBindingTable,
    caps: BackendCapabilities | None,
) -> Price:
    entries = bindings.lookup_alternatives(op, dtypes, one.backend)
    entry = next((entry for entry in entries if entry.kernel is one.kernel), None)
    if entry is None or caps is None:
        return UNPRICED
    return on_device(price_call(op, entry, shapes, dtypes, one.op_params, caps), one.backend, caps)
