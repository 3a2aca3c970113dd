"""Why a kernel wins: every candidate of one call on every device, with what became of it and through what.

It takes the steps of planning one by one, with the same functions, and notes who is left after each. What it says is
for people; nothing is planned by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from fuel_async.dispatch import features_needed
from fuel_async.errors import FilterRejected
from fuel_async.plan.execution.compile import shown_nodes, value_nbytes
from fuel_async.plan.execution.draft import Call
from fuel_async.plan.execution.layouts import operand_layouts, view_layouts
from fuel_async.plan.rank import (
    Candidate,
    FilterContext,
    apply_filter_chain,
    apply_inbound_transfer_costs,
    compute_static_costs,
    couple_strides,
    default_chain,
    enumerate_candidates,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuel_async.dispatch import BindingEntry, KernelBindingTable
    from fuel_async.ir import BackendId, DeviceLocation, FrozenGraph
    from fuel_async.plan.execution.options import PlanOptions
    from fuel_async.plan.rank import AlternativeSet


class Fate(Enum):
    """What became of a candidate, in the order in which it is decided."""

    #: Of a device: it has no kernel for the call.
    NO_KERNEL = "no kernel"
    #: It has a broadcast operand baked in, which nothing proves to be there.
    BROADCAST = "needs a broadcast operand"
    #: It needs features that the device does not have: `by`.
    FEATURES = "lacks features"
    #: A demand or a preference took it away: `by`.
    FILTERED = "filtered"
    #: Another one of its device is better in all respects: `better`.
    DOMINATED = "dominated"
    #: Its device has too many candidates that are each best in some respect.
    CROWDED = "crowded out"
    #: It was kept behind the first.
    KEPT = "kept"
    #: It is ranked first of all devices.
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One candidate, or a device that has none, and its fate."""

    device: DeviceLocation
    fate: Fate
    candidate: Candidate | None = None
    #: What it takes, with the copies of operands that it needs; None while it is unpriced.
    effective_ns: int | None = None
    by: str = ""
    better: Candidate | None = None


def review(
    call: Call,
    bindings: KernelBindingTable,
    options: PlanOptions,
    placements: Sequence[tuple[BackendId, DeviceLocation]],
    operands: Sequence[tuple[DeviceLocation, int]] = (),
) -> list[Reviewed]:
    """Return all candidates of a call at `placements`, those kept first in their order. Pure.

    `operands` are where each one is, as far as that is known, and its bytes. Prices and demands are those of `options`.
    """
    lost: list[Reviewed] = list(_left_out(call, bindings, options, placements))
    found = enumerate_candidates(call.op, call.dtypes, placements, call.params, bindings, options.capabilities_for)
    context = FilterContext(call.op, call.dtypes, call.layouts)
    for each in default_chain(options.precision_requirement):
        before = found.alternatives()
        try:
            apply_filter_chain(found, [each], context)
        except FilterRejected:
            found.retain_indices([])
        gone = _missing(before, found)
        lost += [Reviewed(one.device, Fate.FILTERED, one, by=each.name()) for one in gone]
    if options.prices and options.capabilities_for is not None:
        lookup = options.capabilities_for
        compute_static_costs(found, call.op, call.dtypes, call.shapes, bindings, lookup, options.judge)
        couple_strides(found, call.layouts, call.dtypes, lookup)
        if options.transfer_estimator is not None:
            apply_inbound_transfer_costs(found, operands, options.transfer_estimator)
        found.rank_by_cost()
        ranked = found.copy()
        found.retain_per_device_frontier()
        lost = [*_beaten(ranked, found), *lost]
    kept = [_reviewed(one, found, Fate.KEPT) for one in found]
    return [*[replace(one, fate=Fate.FIRST) for one in kept[:1]], *kept[1:], *lost]


def _left_out(
    call: Call,
    bindings: KernelBindingTable,
    options: PlanOptions,
    placements: Sequence[tuple[BackendId, DeviceLocation]],
) -> Iterator[Reviewed]:
    """What is not even a candidate."""
    for backend, device in placements:
        entries = bindings.lookup_alternatives(call.op, call.dtypes, backend)
        if not entries:
            yield Reviewed(device, Fate.NO_KERNEL)
        caps = None if options.capabilities_for is None else options.capabilities_for(backend, device)
        for entry in entries:
            lacking = frozenset[str]() if caps is None else features_needed(entry.kernel) - caps.features
            one = _unranked(entry, backend, device)
            if entry.caps.requires_broadcast:
                yield Reviewed(device, Fate.BROADCAST, one)
            elif lacking:
                yield Reviewed(device, Fate.FEATURES, one, by=", ".join(sorted(lacking)))


def _beaten(ranked: AlternativeSet, kept: AlternativeSet) -> Iterator[Reviewed]:
    """Those of one device that are not kept, and by whom they are beaten: the first that is, in the order of rank."""
    for one in _missing(ranked.alternatives(), kept):
        mine = one.vector(ranked.conditions)
        rivals = [other for other in ranked if other.device == one.device]
        better = next((other for other in rivals if other.vector(ranked.conditions).dominates(mine)), None)
        fate = Fate.CROWDED if better is None else Fate.DOMINATED
        yield replace(_reviewed(one, ranked, fate), better=better)


def _missing(before: Sequence[Candidate], after: AlternativeSet) -> list[Candidate]:
    left = {_key(one) for one in after}
    return [one for one in before if _key(one) not in left]


def _key(one: Candidate) -> tuple[int, BackendId, DeviceLocation]:
    """Kernels are the same when they are one object."""
    return id(one.kernel), one.backend, one.device


def _reviewed(one: Candidate, among: AlternativeSet, fate: Fate) -> Reviewed:
    return Reviewed(one.device, fate, one, one.effective_ns(among.conditions))


def _unranked(entry: BindingEntry, backend: BackendId, device: DeviceLocation) -> Candidate:
    return Candidate(entry.kernel, backend, device, entry.caps, entry.precision, kernel_source=entry.kernel_source)


class Reviewer:
    """Reviews nodes of one graph, whose symbols are bound, given where every value lies. Equal nodes once."""

    def __init__(
        self,
        graph: FrozenGraph,
        bindings: KernelBindingTable,
        options: PlanOptions,
        placements: Sequence[tuple[BackendId, DeviceLocation]],
        places: Mapping[int, DeviceLocation],
    ) -> None:
        """`places` has nodes, not views: a value that is in none of them counts as there wherever it is read."""
        self._graph, self._bindings, self._options = graph, bindings, options
        self._placements, self._places = placements, places
        self._views, self._shows = view_layouts(graph), shown_nodes(graph)
        self._known: dict[tuple[object, ...], Sequence[Reviewed]] = {}

    def review(self, node: int) -> Sequence[Reviewed]:
        """Return what became of the candidates of a kernel node: of its pin's device, where it has one.

        The same object for equal nodes whose operands lie in the same places.
        """
        graph = self._graph
        sources = dict.fromkeys(self._shows[arg] for arg in graph.args[node])
        operands = tuple(
            (self._places[source], value_nbytes(graph, source)) for source in sources if source in self._places
        )
        call, pin = Call.of(graph, node, operand_layouts(graph, node, self._views)), graph.pins.get(node)
        key = call.op, call.dtypes, call.shapes, repr(call.params), call.layouts, operands, pin
        if key not in self._known:
            allowed = [one for one in self._placements if pin in (None, one[1])]
            self._known[key] = review(call, self._bindings, self._options, allowed, operands)
        return self._known[key]
