"""The candidates of one node before anything is placed: enumerated, filtered, priced.

A node has a decision device: what the graph pins it to, which is hard, or the soft default of the options. In the
relaxed regime candidates of the devices that may stand in are enumerated behind those of the decision device, and
prices decide. Otherwise they are asked for only where the decision device has no kernel, or none that meets the floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.dispatch import derive_params, kernel_dtypes
from fuel_async.errors import FilterRejected, NoBackendForOp, NoDecisionDevice
from fuel_async.ir import SizeClass
from fuel_async.plan.rank import (
    AlternativeSet,
    DecisionContext,
    FilterContext,
    apply_filter_chain,
    compute_static_costs,
    couple_strides,
    default_chain,
    enumerate_candidates,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import KernelBindingTable, KernelDTypes, OpParams
    from fuel_async.ir import BackendId, DeviceLocation, FrozenGraph, Layout, OpKind
    from fuel_async.plan.execution.options import PlanOptions

Placements = list[tuple["BackendId", "DeviceLocation"]]


@dataclass(frozen=True, slots=True)
class Draft:
    """The candidates of a node, and how they came about. Drafts are shared by equal nodes."""

    alternatives: AlternativeSet
    #: The decision device has no kernel that would do.
    from_fallback: bool


@dataclass(frozen=True, slots=True)
class Call:
    """What a node asks of a kernel: the same for equal nodes."""

    op: OpKind
    dtypes: KernelDTypes
    #: Of the inputs, then of the output.
    shapes: tuple[tuple[int, ...], ...]
    params: OpParams
    layouts: tuple[Layout, ...]
    destructive: bool

    @classmethod
    def of(cls, graph: FrozenGraph, node: int, layouts: Sequence[Layout]) -> Call:
        """Return what a kernel node asks for, with operands of these layouts. Its shapes are concrete."""
        op, output, inputs = graph.ops[node], graph.types[node], graph.operand_types(node)
        assert op.kind is not None  # a kernel's
        shapes: list[tuple[int, ...]] = [kind.shape for kind in (*inputs, output)]  # type: ignore[misc]  # concrete
        params = derive_params(op, graph.attrs[node], inputs, output)
        dtypes = kernel_dtypes(op, inputs, output)
        return cls(op.kind, dtypes, tuple(shapes), params, tuple(layouts), op.destroys is not None)


def decision_device(graph: FrozenGraph, node: int, options: PlanOptions) -> DeviceLocation:
    """Return where the node is meant to run: pinned by the graph, else by the options; `NoDecisionDevice`."""
    device = graph.pins.get(node, options.pinned_device)
    if device is None:
        raise NoDecisionDevice(graph.describe(node))
    return device


def make_draft(
    call: Call, device: DeviceLocation, bindings: KernelBindingTable, options: PlanOptions, *, hard: bool
) -> Draft:
    """Return the candidates of a call whose decision device is `device`, which nothing overrules if it is `hard`.

    `NoBackendForOp` when nobody has a kernel; `FilterRejected` when none meets the floor. An op that writes over its
    operand stays where it is.
    """
    local = _placements(device, options)
    fallback: Placements = []
    if not hard and not call.destructive and options.fallback_placements_for is not None:
        fallback = [one for one in options.fallback_placements_for(device) if one not in local]
    if fallback and options.places_by_cost:
        return Draft(_admitted(call, local + fallback, bindings, options), from_fallback=False)
    try:
        return Draft(_admitted(call, local, bindings, options), from_fallback=False)
    except (FilterRejected, NoBackendForOp) as refused:
        if not fallback:
            raise
        first = refused
    try:
        return Draft(_admitted(call, fallback, bindings, options), from_fallback=True)
    except NoBackendForOp:
        raise first from None


def _placements(device: DeviceLocation, options: PlanOptions) -> Placements:
    if options.placements_for_device is None:
        return [(device.backend, device)]
    return [(backend, device) for backend in options.placements_for_device(device)]


def _admitted(call: Call, placements: Placements, bindings: KernelBindingTable, options: PlanOptions) -> AlternativeSet:
    """The candidates at `placements` that meet the demands, priced where prices are asked for."""
    found = enumerate_candidates(call.op, call.dtypes, placements, call.params, bindings, options.capabilities_for)
    if found.is_empty():
        raise bindings.refusal(call.op, call.dtypes)
    context = FilterContext(call.op, call.dtypes, call.layouts)
    apply_filter_chain(found, default_chain(options.precision_requirement), context)
    found.set_context(DecisionContext(call.op, call.dtypes[0], SizeClass.for_op(call.op, call.shapes)))
    if options.populate_costs and options.capabilities_for is not None:
        lookup = options.capabilities_for
        compute_static_costs(found, call.op, call.dtypes, call.shapes, bindings, lookup, options.judge)
        couple_strides(found, call.layouts, call.dtypes, lookup)
    return found.finalize()
