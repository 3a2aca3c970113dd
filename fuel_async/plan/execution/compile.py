"""From a frozen graph to an `ExecutionPlan`: the candidates of every node, ranked, where its chain had best be.

Nodes are taken in a topological order. A node whose candidates are on one device is decided at once. One that could run
on several waits as a row of `PlacementDp` until its chain ends: at a node whose place is known, at a value with several
readers, or at the exit. Views and copies within a device are where their operand is. What is decided about a node does
not say when it runs; lanes and parallel branches are for whoever schedules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken, UserError
from fuel_async.ir import BundleType, Form, OpKind, no_breath
from fuel_async.plan.execution.chain import ChainInput, PlacementDp
from fuel_async.plan.execution.draft import Call, Draft, decision_device, make_draft
from fuel_async.plan.execution.execution_plan import ExecutionPlan
from fuel_async.plan.execution.layouts import operand_layouts, view_layouts
from fuel_async.plan.rank import AlternativeSet, apply_inbound_transfer_costs, couple_producers
from fuel_async.plan.rank.candidate import MOST_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fuel_async.dispatch import KernelBindingTable
    from fuel_async.ir import Breathe, DeviceLocation, FrozenGraph
    from fuel_async.plan.execution.chain import Commitment
    from fuel_async.plan.execution.options import PlanOptions


def compile_plan(
    graph: FrozenGraph,
    order: Sequence[int],
    bindings: KernelBindingTable,
    options: PlanOptions,
    breathe: Breathe = no_breath,
) -> ExecutionPlan:
    """Decide for every kernel of `graph`, whose symbols are bound, which one on which device. Pure; O(nodes).

    `order` is topological, as `ir.derive_ordering` gives it. `NoBackendForOp` when nobody has a kernel for a node,
    `FilterRejected` when none meets the floor, `NoDecisionDevice` when nothing says where a node runs; all with the
    node as a note. `UserError` when prices of copies are required and there is no estimator.
    """
    if options.require_transfer_pricing and options.transfer_estimator is None:
        raise UserError("prices of copies are required; give PlanOptions(transfer_estimator=…)")
    return _Compilation(graph, order, bindings, options, breathe).run()


def needs_entry(graph: FrozenGraph, node: int) -> bool:
    """Whether something is decided about a node: a kernel that is no mere copy."""
    op = graph.ops[node]
    return op.form is Form.KERNEL and op.kind is not OpKind.Copy


class _Compilation:
    """One pass over the nodes, and one over those that had to wait."""

    def __init__(
        self,
        graph: FrozenGraph,
        order: Sequence[int],
        bindings: KernelBindingTable,
        options: PlanOptions,
        breathe: Breathe,
    ) -> None:
        self.graph, self.order, self.bindings, self.options, self.breathe = graph, order, bindings, options, breathe
        self.views = view_layouts(graph, breathe)
        #: By node: the one whose value it shows or copies within a device.
        self.shows = shown_nodes(graph, breathe)
        self.readers, self.delivered = _readers(graph, self.shows, breathe)
        self.devices: dict[int, DeviceLocation] = {}
        self.planned: dict[int, AlternativeSet] = {}
        self.runner_ups: dict[int, AlternativeSet] = {}
        #: Of rows, until these are committed.
        self.waiting: dict[int, Draft] = {}
        self.dp = None if options.transfer_estimator is None else PlacementDp(options.transfer_estimator)
        # What is the same for equal nodes is worked out once.
        self.drafts: dict[tuple[object, ...], Draft] = {}
        #: By draft: its devices, and the least time on each.
        self.times: dict[int, Sequence[tuple[DeviceLocation, int]]] = {}
        #: What is kept of a draft, by draft, device, and where operands come from.
        self.settled: dict[tuple[object, ...], tuple[AlternativeSet, AlternativeSet]] = {}
        #: By the number of the set without couplings, which `settled` or the earlier plan keeps, and its operands.
        self.coupled: dict[tuple[object, ...], AlternativeSet] = {}

    def run(self) -> ExecutionPlan:
        for count, node in enumerate(self.order):
            self._decide(node)
            if not count & 63:
                self.breathe()
        if self.dp is not None:
            self._note(self.dp.finish(self.options.pinned_device, self._nbytes))
        for node, draft in self.waiting.items():
            self._settle(node, draft, self.devices.get(node))
        self._couple()
        shown = {node: self.devices[self.shows[node]] for node in self.order if self.shows[node] in self.devices}
        return ExecutionPlan(tuple(self.order), self.planned, self.runner_ups, shown, self.options.generation)

    # --- node by node ---

    def _decide(self, node: int) -> None:
        graph, options = self.graph, self.options
        if self.shows[node] != node:
            return
        if graph.ops[node].form is Form.LEAF:
            place = None if options.input_residency is None else options.input_residency(node)
            if place is not None:
                self.devices[node] = place
        elif not needs_entry(graph, node):  # a copy to a device
            self._arrive(node, graph.pins[node])
        elif not self._reuse(node):
            self._compile(node)

    def _reuse(self, node: int) -> bool:
        """Take over what an earlier plan has decided; whether it has."""
        earlier = self.options.reuse_plan
        if earlier is None or earlier.generation != self.options.generation:
            return False
        found, others, device = earlier.alternatives(node), earlier.runner_ups(node), earlier.device(node)
        if found is None or device is None:
            return False
        self._arrive(node, device)
        self.planned[node] = found
        if others is not None:
            self.runner_ups[node] = others
        return True

    def _compile(self, node: int) -> None:
        draft = self._draft(node)
        found, hard = draft.alternatives, node in self.graph.pins
        if self.dp is not None and self.options.prices and not hard and len(self._times(draft)) > 1:
            self.waiting[node] = draft
            self._push(self.dp, node, self._times(draft))
            return
        best = found.best_given(found.conditions) if self.options.prices else found.winner()
        assert best is not None  # a draft has candidates
        self._arrive(node, best.device)
        self._settle(node, draft, best.device)

    def _draft(self, node: int) -> Draft:
        """The candidates of the node: looked for once for equal calls."""
        graph = self.graph
        device, attrs = decision_device(graph, node, self.options), graph.attrs[node]
        layouts = operand_layouts(graph, node, self.views)
        key = (
            *(graph.ops[node], attrs, repr(attrs) if attrs and 0.0 in attrs else "", graph.types[node]),
            *(*graph.operand_types(node), *layouts, device, node in graph.pins),
        )
        found = self.drafts.get(key)
        if found is None:
            try:
                call = Call.of(graph, node, layouts)
                found = make_draft(call, device, self.bindings, self.options, hard=node in graph.pins)
            except UserError as error:
                error.add_note(f"for {graph.describe(node)}")
                raise
            self.drafts[key] = found
        return found

    def _times(self, draft: Draft) -> Sequence[tuple[DeviceLocation, int]]:
        """The devices that could run a draft's nodes, and the least time on each."""
        times = self.times.get(id(draft))
        if times is None:
            least: dict[DeviceLocation, int] = {}
            for one in draft.alternatives:
                took = one.effective_ns(draft.alternatives.conditions)
                least[one.device] = min(least.get(one.device, MOST_NS), MOST_NS if took is None else took)
            times = self.times[id(draft)] = tuple(least.items())
        return times

    def _push(self, dp: PlacementDp, node: int, times: Sequence[tuple[DeviceLocation, int]]) -> None:
        """Make the node a row that goes on from its operands' rows."""
        fixed, chained = [], []
        for operand, nbytes in self._operands(node).items():
            if operand in self.devices:
                fixed.append((self.devices[operand], nbytes))
            elif operand in self.waiting:
                chained.append(ChainInput(operand, (nbytes,)))
        dp.push_row(node, times, fixed, chained)
        if self.readers[node] > 1 or (self.readers[node] and self.delivered[node]):
            way_out = self.options.pinned_device if self.delivered[node] else None
            self._note(dp.close_toward(node, way_out, (self._nbytes(node),)))

    def _arrive(self, node: int, device: DeviceLocation) -> None:
        """Note where a node is, and commit the rows that it reads."""
        self.devices[node] = device
        if self.dp is not None:
            for operand, nbytes in self._operands(node).items():
                if operand in self.waiting:
                    self._note(self.dp.close_toward(operand, device, (nbytes,)))

    def _note(self, committed: Iterable[Commitment]) -> None:
        self.devices.update(committed)

    # --- what is kept ---

    def _settle(self, node: int, draft: Draft, device: DeviceLocation | None) -> None:
        """Keep the candidates on the device of the node, and those on others apart."""
        operands = tuple((self.devices.get(one), nbytes) for one, nbytes in self._operands(node).items())
        key = (id(draft), device, operands)
        kept = self.settled.get(key)
        if kept is None:
            known = [(source, nbytes) for source, nbytes in operands if source is not None]
            kept = self.settled[key] = self._kept(draft, device, known)
        here, away = kept
        if here.is_empty():
            raise InvariantBroken("a node is planned on a device of its candidates", f"node {node} on {device}")
        self.planned[node] = here
        if not away.is_empty():
            self.runner_ups[node] = away

    def _kept(
        self, draft: Draft, device: DeviceLocation | None, operands: list[tuple[DeviceLocation, int]]
    ) -> tuple[AlternativeSet, AlternativeSet]:
        """The best candidates on a device and on all others; of a stand-in the winner alone."""
        options, found = self.options, draft.alternatives.copy()
        if options.prices:
            if options.transfer_estimator is not None:
                apply_inbound_transfer_costs(found, operands, options.transfer_estimator)
            found.rank_by_cost()
        here = found.of(one for one in found if one.device == device)
        away = found.of(one for one in found if one.device != device)
        if draft.from_fallback and not here.is_empty():
            here.retain_indices([0])
        for part in (here, away):
            if options.prices:
                part.retain_per_device_frontier()
            part.finalize()
        return here, away

    def _couple(self) -> None:
        """Price what changes where a producer runs on a runner-up's device."""
        estimator = self.options.transfer_estimator
        if estimator is None or not self.options.prices or not self.runner_ups:
            return
        coupled = self.coupled
        for count, node in enumerate(self.planned):
            if not count & 63:
                self.breathe()
            operands = tuple(
                (place, self.devices[source], self._nbytes(source), self.runner_ups[source].devices())
                for place, source in enumerate([self.shows[arg] for arg in self.graph.args[node]])
                if source in self.runner_ups
            )
            for column in (self.planned, self.runner_ups):
                if not operands or node not in column:
                    continue
                key = (id(column[node]), operands)
                if key not in coupled:
                    made = column[node].copy()
                    couple_producers(made, operands, estimator)
                    coupled[key] = made.finalize()
                column[node] = coupled[key]

    # --- facts ---

    def _operands(self, node: int) -> Mapping[int, int]:
        """The distinct values that the node reads, with their bytes: each is copied once, however often it is read."""
        sources = dict.fromkeys(self.shows[arg] for arg in self.graph.args[node])
        return {source: self._nbytes(source) for source in sources}

    def _nbytes(self, node: int) -> int:
        return value_nbytes(self.graph, node)


def value_nbytes(graph: FrozenGraph, node: int) -> int:
    """Return the bytes of a node's value, of all its outputs if it has several."""
    kind = graph.types[node]
    return kind.total_nbytes if isinstance(kind, BundleType) else kind.nbytes


def shown_nodes(graph: FrozenGraph, breathe: Breathe = no_breath) -> list[int]:
    """Return by node whose value it has on the same device: its own unless it is a view, or a copy without a pin."""
    shown: list[int] = []
    for node, (op, args) in enumerate(zip(graph.ops, graph.args, strict=True)):
        passes = op.form is Form.VIEW or (op.kind is OpKind.Copy and node not in graph.pins)
        shown.append(shown[args[0]] if passes else node)
        if not node & 63:
            breathe()
    return shown


def _readers(graph: FrozenGraph, shown: Sequence[int], breathe: Breathe) -> tuple[list[int], list[bool]]:
    """By node: how many others read its value, and whether the caller receives it."""
    readers, delivered = [0] * len(shown), [False] * len(shown)
    for node, args in enumerate(graph.args):
        if shown[node] == node:
            for source in {shown[arg] for arg in args}:
                readers[source] += 1
        if not node & 63:
            breathe()
    for node in graph.outputs.values():
        delivered[shown[node]] = True
    return readers, delivered
