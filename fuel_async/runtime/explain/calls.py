"""The kernels of a region: what each costs, who says so, and what else could compute it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from fuel_async.cost import PriceSource, price_call
from fuel_async.dispatch import kernel_dtypes
from fuel_async.ir import CPU_DEVICE
from fuel_async.plan import Fate, Reviewer, needs_entry
from fuel_async.runtime.explain.facts import Alternative, CallExplanation
from fuel_async.runtime.explain.reasons import kernel_name, why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.dispatch import BindingEntry, KernelCall, KernelDTypes, LaneProgram
    from fuel_async.ir import BackendId, DeviceLocation
    from fuel_async.plan import Plan, Region, Reviewed
    from fuel_async.runtime.explain.known import Known


#: What is said of devices that cannot compute a call at all.
UNABLE = frozenset({Fate.NO_KERNEL, Fate.BROADCAST, Fate.FEATURES})


class Calls:
    """The kernels of a plan whose regions are on given devices."""

    def __init__(self, plan: Plan, known: Known, devices: Mapping[int, int]) -> None:
        """`devices` has the number of the device of each region."""
        self._plan, self._known = plan, known
        #: Sources by (call on a device, device).
        self._sources: dict[tuple[int, int], tuple[BindingEntry | None, PriceSource]] = {}
        places: dict[int, DeviceLocation] = dict.fromkeys(plan.graph.inputs.values(), CPU_DEVICE)
        for region, device in devices.items():
            location = known.devices[device].location
            places.update(dict.fromkeys(plan.regions[region].program.nodes, location))
        options = known.options
        placements = [(one.capabilities.backend_id, one.location) for one in known.devices if one.lost is None]
        self._reviewer = Reviewer(plan.graph, known.bindings, options, placements, places)

    def of(self, region: Region, device: int) -> tuple[CallExplanation, ...]:
        """Explain the calls of a region on its device, the most expensive first."""
        program = self._known.program_on(self._plan, region, device)
        assert program is not None  # the region goes there
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        reviews: dict[int, Sequence[Reviewed]] = {}
        for place, call in enumerate(program.calls):
            review = self._review(program, place)
            reviews[id(review)] = review
            groups[id(call), id(review)].append(place)
        found = [self._explained(program, places, reviews[key[1]], device) for key, places in groups.items()]
        return tuple(sorted(found, key=lambda one: -one.predicted_s))

    def sources(self, region: Region, device: int) -> dict[str, float]:
        """Return who prices a region's kernels on a device, and the share of the predicted time that is theirs."""
        rates, sums = self._known.devices[device].rates, defaultdict[str, int](int)
        program = self._known.program_on(self._plan, region, device)
        for place, call in enumerate(() if program is None else program.calls):
            assert program is not None
            source = self._source(program, place, device)[1]
            sums[source.value] += rates.predict_ns(call.kind, call.estimate)
        whole = sum(sums.values())
        return {source: part / whole for source, part in sorted(sums.items(), key=lambda one: -one[1])}

    def lacking(self, region: Region, device: int) -> list[str]:
        """Return the kinds of a region's kernels that a device does not have, in order."""
        program, where = region.program, self._known.devices[device]
        found: list[str] = []
        for place, call in enumerate(program.calls):
            review = self._review(program, place)
            mine = [one for one in review if one.device == where.location]
            if (mine and all(one.fate in UNABLE for one in mine)) or not (
                mine or self._entries(program, place, where.capabilities.backend_id)
            ):
                found.append(call.kind.value)
        return list(dict.fromkeys(found))

    def _review(self, program: LaneProgram, place: int) -> Sequence[Reviewed]:
        """What became of the candidates of a row; nothing of copies, of which nothing is decided."""
        graph, node = self._plan.graph, program.nodes[place]
        own = needs_entry(graph, node) and graph.ops[node].kind is program.calls[place].kind
        return self._reviewer.review(node) if own else ()

    def _explained(
        self, program: LaneProgram, places: Sequence[int], review: Sequence[Reviewed], device: int
    ) -> CallExplanation:
        graph, first = self._plan.graph, places[0]
        call, node, where = program.calls[first], program.nodes[first], self._known.devices[device]
        entry, source = self._source(program, first, device)
        kinds = [program.slots.types[slot] for slot in program.rows[first][: call.arity + 1]]
        best = next((one for one in review if one.fate is Fate.FIRST), None)
        return CallExplanation(
            kind=call.kind.value,
            signature=f"{', '.join(map(str, kinds[:-1]))} -> {graph.types[node] if review else kinds[-1]}",
            nodes=tuple([program.nodes[place] for place in places]),
            line=graph.line(node),
            kernel=kernel_name(call.kernel, "" if entry is None else entry.kernel_source),
            predicted_s=len(places) * where.rates.predict_ns(call.kind, call.estimate) / 1e9,
            source=source.value,
            alternatives=tuple([_alternative(one, best, call, where.location) for one in review]),
        )

    def _source(self, program: LaneProgram, place: int, device: int) -> tuple[BindingEntry | None, PriceSource]:
        """The row of a call's kernel in the table, and who prices the call: asked again as planning asked."""
        call = program.calls[place]
        key = id(call), device
        found = self._sources.get(key)
        if found is None:
            caps = self._known.devices[device].capabilities
            entries = self._entries(program, place, caps.backend_id)
            entry = next((one for one in entries if one.kernel is call.kernel), None)
            source = PriceSource.UNPRICED
            if entry is not None:
                shapes, dtypes = self._operands(program, place)
                source = price_call(call.kind, entry, shapes, dtypes, call.params, caps).source
            found = self._sources[key] = entry, source
        return found

    def _entries(self, program: LaneProgram, place: int, backend: BackendId) -> Sequence[BindingEntry]:
        _, dtypes = self._operands(program, place)
        return self._known.bindings.lookup_alternatives(program.calls[place].kind, dtypes, backend)

    def _operands(self, program: LaneProgram, place: int) -> tuple[list[tuple[int, ...]], KernelDTypes]:
        """Shapes of a row's inputs, then of its output, and the dtypes that its kernel is registered under."""
        graph, node, call = self._plan.graph, program.nodes[place], program.calls[place]
        if graph.ops[node].kind is call.kind:
            output, inputs = graph.types[node], graph.operand_types(node)
            dtypes = kernel_dtypes(graph.ops[node], inputs, output)
        else:  # a copy on the node's behalf
            *inputs, output = [program.slots.types[slot] for slot in program.rows[place][: call.arity + 1]]
            dtypes = tuple([one.dtype for one in (*inputs, output)])
        return [one.shape for one in (*inputs, output)], dtypes  # type: ignore[misc]  # concrete


def _alternative(one: Reviewed, first: Reviewed | None, taken: KernelCall, device: DeviceLocation) -> Alternative:
    candidate = one.candidate
    if candidate is None:
        return Alternative(one.device, "", None, 0.0, PriceSource.UNPRICED.value, one.fate.value, why(one, first))
    return Alternative(
        device=one.device,
        kernel=kernel_name(candidate.kernel, candidate.kernel_source),
        effective_s=None if one.effective_ns is None else one.effective_ns / 1e9,
        inbound_s=candidate.inbound_transfer_ns / 1e9,
        source=candidate.price_source.value,
        fate=one.fate.value,
        why=why(one, first),
        taken=candidate.kernel is taken.kernel and one.device == device,
    )
