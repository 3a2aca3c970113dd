"""Every kernel that could compute a node, device by device. Nothing is priced or ranked here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.dispatch import features_needed
from fuel_async.plan.rank.alternatives import AlternativeSet
from fuel_async.plan.rank.candidate import Candidate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuel_async.dispatch import BindingKey, KernelBindingTable, KernelDTypes, OpParams
    from fuel_async.ir import BackendId, DeviceLocation
    from fuel_async.plan.rank.static_costs import CapabilitiesLookup


def enumerate_candidates(
    op_kind: BindingKey,
    dtypes: KernelDTypes,
    placements: Iterable[tuple[BackendId, DeviceLocation]],
    op_params: OpParams,
    bindings: KernelBindingTable,
    capabilities_for: CapabilitiesLookup | None = None,
) -> AlternativeSet:
    """Return the candidates at `placements`, in their order and within each in that of registration; unpriced.

    `dtypes` lists the inputs, then the output. Kernels that have a broadcast operand baked in are passed over: nothing
    says which one it is, so no layout proves that it is there. So are those that need a feature that the device does
    not have, as far as `capabilities_for` knows it. A backend without a kernel adds nothing; the set may be empty.
    """
    found = AlternativeSet.empty()
    for backend, device in placements:
        caps = None if capabilities_for is None else capabilities_for(backend, device)
        for entry in bindings.lookup_alternatives(op_kind, dtypes, backend):
            if entry.caps.requires_broadcast:
                continue
            if caps is not None and not features_needed(entry.kernel) <= caps.features:
                continue
            found.push(
                Candidate(
                    entry.kernel,
                    backend,
                    device,
                    entry.caps,
                    entry.precision,
                    op_params=op_params,
                    kernel_source=entry.kernel_source,
                )
            )
    return found
