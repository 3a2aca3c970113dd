"""What plans are compiled for: devices, prices, links, demands. Callbacks are plain functions and never block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuel_async.errors import UserError
from fuel_async.plan.rank import PrecisionRequirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuel_async.dispatch import BackendCapabilities
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

    @classmethod
    def among(
        cls,
        capabilities: Iterable[BackendCapabilities],
        estimator: TransferEstimator | None = None,
        *,
        requirement: PrecisionRequirement = _NO_REQUIREMENT,
        judge: JudgeOracle | None = None,
        generation: int = 0,
    ) -> PlanOptions:
        """Return options for devices that advertise these capabilities, the preferred one first.

        Each may stand in for each other; with an estimator prices decide among them. Of two entries for one backend on
        one device the first counts. `UserError` when there is none.
        """
        known: dict[tuple[BackendId, DeviceLocation], BackendCapabilities] = {}
        for caps in capabilities:
            known.setdefault((caps.backend_id, caps.device_location), caps)
        if not known:
            raise UserError("a plan is for some device; give the capabilities of at least one")
        return cls(
            precision_requirement=requirement,
            placements_for_device=lambda device: [backend for backend, there in known if there == device],
            pinned_device=next(iter(known))[1],
            fallback_placements_for=lambda device: [one for one in known if one[1] != device],
            capabilities_for=lambda backend, device: known.get((backend, device)),
            judge=judge,
            transfer_estimator=estimator,
            generation=generation,
        )

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
