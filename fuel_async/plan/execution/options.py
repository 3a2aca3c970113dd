"""What plans are compiled for: devices, prices, links, demands. Callbacks are plain functions and never block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuel_async.plan.rank import PrecisionRequirement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.ir import BackendId, DeviceLocation
    from fuel_async.plan.execution.execution_plan import ExecutionPlan
    from fuel_async.plan.rank import CapabilitiesLookup, JudgeOracle, TransferEstimator

_NO_REQUIREMENT = PrecisionRequirement()


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of `compile_plan`; `dataclasses.replace` changes one. Immutable."""

    precision_requirement: PrecisionRequirement = _NO_REQUIREMENT
    #: Whether candidates are priced at all, given `capabilities_for`.
    populate_costs: bool = True
    #: The backends whose kernels a device runs; None takes the one that it is named after.
    placements_for_device: Callable[[DeviceLocation], Sequence[BackendId]] | None = None
    #: Where nodes run that the graph does not pin: a preference, which prices and missing kernels overrule.
    pinned_device: DeviceLocation | None = None
    #: Where else nodes of a device may run.
    fallback_placements_for: Callable[[DeviceLocation], Sequence[tuple[BackendId, DeviceLocation]]] | None = None
    capabilities_for: CapabilitiesLookup | None = None
    judge: JudgeOracle | None = None
    #: Prices copies between devices; without it no node leaves its device for the sake of a price.
    transfer_estimator: TransferEstimator | None = None
    #: Refuse to plan without an estimator.
    require_transfer_pricing: bool = False
    #: Where the value of an input or a constant lies before the run; None where that is not known.
    input_residency: Callable[[int], DeviceLocation | None] | None = None
    #: A plan of an earlier state of the graph: its decisions stand, if it is of the same generation.
    reuse_plan: ExecutionPlan | None = None
    #: Whether prices may move a node off its device.
    allow_cost_placement: bool = True
    #: The generation of the topology that the callbacks speak of.
    generation: int = 0

    @property
    def prices(self) -> bool:
        """Whether candidates are priced."""
        return self.populate_costs and self.capabilities_for is not None

    @property
    def places_by_cost(self) -> bool:
        """Whether prices may move a node: the relaxed regime."""
        return self.allow_cost_placement and self.prices and self.transfer_estimator is not None

    def without_cost_population(self) -> PlanOptions:
        """Return the same without prices: candidates stay in the order of registration."""
        return replace(self, populate_costs=False)

    def without_cost_placement(self) -> PlanOptions:
        """Return the same with every node on its device, if that has a kernel for it."""
        return replace(self, allow_cost_placement=False)
