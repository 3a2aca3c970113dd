"""Explanations of plans: for one device, whose regions follow one another, and over several, by how a dry run went."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from fuel_async.ir import CPU_DEVICE
from fuel_async.runtime.explain.calls import Calls
from fuel_async.runtime.explain.facts import (
    Candidate,
    CopyExplanation,
    DeviceExplanation,
    Explanation,
    Refusal,
    RegionExplanation,
)
from fuel_async.runtime.explain.reasons import lost_by, reason_of, refusal
from fuel_async.schedule import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir import DeviceLocation
    from fuel_async.plan import Plan, Region
    from fuel_async.runtime.explain.known import Known
    from fuel_async.schedule import Decision, DeviceShape, DryRun, Judged, LaneShape, Links, Offer, SpreadShape


def explain_local(
    plan: Plan, sizes: Mapping[str, int], known: Known, way: str, took_ns: int, constants_nbytes: int
) -> Explanation:
    """Explain a plan for one device, whose regions follow one another on its lanes."""
    (device,), calls = known.devices, Calls(plan, known, dict.fromkeys(range(len(plan.regions)), 0))
    regions, at_ns = [], 0
    for number, region in enumerate(plan.regions):
        end_ns = at_ns + region.program.predicted_ns
        only = Candidate(
            device.location, at_ns / 1e9, end_ns / 1e9, (end_ns - at_ns) / 1e9, 0, 0, at_ns / 1e9, at_ns / 1e9,
            calls.sources(region, 0),
        )  # fmt: skip
        regions.append(
            RegionExplanation(
                number=number,
                kernels=kinds_of(region),
                needs=tuple(sorted(region.needs)),
                device=device.location,
                start_s=only.start_s,
                finish_s=only.finish_s,
                candidates=(only,),
                reason="the only device",
                calls=calls.of(region, 0),
            )
        )
        at_ns = end_ns
    busy_s = at_ns / 1e9
    there = DeviceExplanation(
        device.location, device.name, device.lanes, device.memory, len(regions), busy_s, alone_s=took_ns / 1e9
    )
    return Explanation(
        graph=plan.graph.name,
        sizes=dict(sizes),
        kernels=plan.kernels,
        regions=tuple(regions),
        makespan_s=took_ns / 1e9,
        way=way,
        devices=(there,),
        constants_nbytes=constants_nbytes,
        warm=True,
    )


def explain_spread(
    plan: Plan,
    sizes: Mapping[str, int],
    known: Known,
    policy: str,
    judged: Judged,
    shape: Spread,
) -> Explanation:
    """Explain a plan over several devices by how its dry run went."""
    return _Explaining(plan, known, policy, judged, shape).explanation(sizes)


class Spread:
    """A run over devices as the scheduler sees it, and as an explanation needs it."""

    __slots__ = ("alone", "constants_nbytes", "devices", "links", "locations", "spread", "warm")

    def __init__(
        self,
        spread: SpreadShape,
        devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
        links: Links,
        locations: Mapping[int, DeviceLocation],
        alone: Mapping[int, DryRun],
        constants_nbytes: int,
        *,
        warm: bool,
    ) -> None:
        """`locations` by memory; `alone` has the run on each device alone."""
        self.spread, self.devices, self.links, self.locations = spread, devices, links, locations
        self.alone, self.constants_nbytes, self.warm = alone, constants_nbytes, warm

    def has_way(self, device: int) -> bool:
        """Whether values get to a device from the host and back."""
        memory = self.devices[device][0].memory
        return memory == HOST or None not in (self.links.route(HOST, memory, 0), self.links.route(memory, HOST, 0))


class _Explaining:
    """One explanation in the making."""

    def __init__(self, plan: Plan, known: Known, policy: str, judged: Judged, shape: Spread) -> None:
        self.plan, self.known, self.policy, self.judged, self.shape = plan, known, policy, judged, shape
        self.dry, self.prior = judged.best, judged.prior if judged.follows else None
        self.places = [one.location for one in known.devices]
        self.first_lane = [0, *accumulate(len(lanes) for _, lanes in shape.devices)]
        chosen = {number: decision.chosen.device for number, decision in self.dry.decisions.items()}
        self.calls = Calls(plan, known, chosen)

    def explanation(self, sizes: Mapping[str, int]) -> Explanation:
        plan, dry, judged = self.plan, self.dry, self.judged
        regions = [self._region(number, decision) for number, decision in sorted(dry.decisions.items())]
        copies = tuple(self._copies())
        planned = judged.planned
        return Explanation(
            graph=plan.graph.name,
            sizes=dict(sizes),
            kernels=plan.kernels,
            regions=tuple(regions),
            makespan_s=dry.makespan_ns / 1e9,
            way=self._way(),
            error=None if dry.error is None else f"{type(dry.error).__name__}: {dry.error}",
            devices=tuple(self._device(device, regions, copies) for device in range(len(self.places))),
            copies=copies,
            promised_s=None if judged.prior is None else judged.prior.makespan_ns / 1e9,
            planned_s=None if planned is None else planned.makespan_ns / 1e9,
            live_s=None if planned is None else judged.live.makespan_ns / 1e9,
            constants_nbytes=self.shape.constants_nbytes,
            warm=self.shape.warm,
        )

    def _way(self) -> str:
        over = f"over {len(self.places)} devices, {len(self.dry.copies)} copies, by {self.policy}"
        if self.judged.planned is None:
            return over
        live_ms, planned_ms = self.judged.live.makespan_ns / 1e6, self.judged.planned.makespan_ns / 1e6
        if self.prior is None:
            return f"{over}; a plan of the whole run would take {planned_ms:,.3f} ms and is not followed"
        return f"{over}, following a plan of the whole run; without it {live_ms:,.3f} ms"

    def _region(self, number: int, decision: Decision) -> RegionExplanation:
        region, dry, chosen = self.plan.regions[number], self.dry, decision.chosen
        planned = None if self.prior is None else self.prior.devices[number]
        live = self.judged.live.decisions.get(number)
        offered = {offer.device for offer in decision.offers}
        refused = [device for device in range(len(self.places)) if device not in offered]
        return RegionExplanation(
            number=number,
            kernels=kinds_of(region),
            needs=tuple(sorted(region.needs)),
            device=self.places[chosen.device],
            start_s=dry.started_ns.get(number, chosen.start_ns) / 1e9,
            finish_s=dry.finished_ns.get(number, chosen.finish_ns) / 1e9,
            candidates=tuple(self._candidate(number, offer, chosen, planned) for offer in decision.offers),
            reason=reason_of(region, decision, self.places, self.policy, planned),
            lane=chosen.lane - self.first_lane[chosen.device],
            refusals=tuple(self._refusal(number, device) for device in refused),
            planned=None if planned is None else self.places[planned],
            planned_start_s=None if self.prior is None else self.prior.starts_ns[number] / 1e9,
            live=None if planned is None or live is None else self.places[live.chosen.device],
            calls=self.calls.of(region, chosen.device),
        )

    def _refusal(self, number: int, device: int) -> Refusal:
        lacking = self.calls.lacking(self.plan.regions[number], device)
        share_nbytes, has_way = self.shape.spread.share_nbytes, self.shape.has_way
        why = refusal(self.plan, number, device, self.known, lacking, share_nbytes, has_way)
        return Refusal(self.places[device], why)

    def _candidate(self, number: int, offer: Offer, chosen: Offer, planned: int | None) -> Candidate:
        region = self.plan.regions[number]
        measured = self.known.measured(number, offer.device)
        copied_nbytes = sum(self.plan.values[value].nbytes for value in {value for value, _ in offer.copies})
        upload_ns = self.shape.spread.prices.upload_ns(number, offer.device)
        return Candidate(
            device=self.places[offer.device],
            start_s=offer.start_ns / 1e9,
            finish_s=offer.finish_ns / 1e9,
            predicted_s=offer.predicted_ns / 1e9,
            copies=len(offer.copies),
            copied_nbytes=copied_nbytes,
            ready_s=offer.ready_ns / 1e9,
            free_s=offer.free_ns / 1e9,
            sources={"measured": 1.0} if measured else self.calls.sources(region, offer.device),
            lost="" if offer is chosen else lost_by(chosen, offer, planned, copied_nbytes, upload_ns),
        )

    def _copies(self) -> list[CopyExplanation]:
        """The copies of the dry run, by their start."""
        spread, found = self.shape.spread, []
        for value, source, memory, arrival_ns in self.dry.copies:
            hops = self.shape.links.route(source, memory, spread.nbytes[value]) or ()
            producer, start, end = spread.producers[value], self._at(source), self._at(memory)
            took_ns = sum(hop.copy_ns for hop in hops)
            found.append(
                CopyExplanation(
                    start, end, spread.nbytes[value], (arrival_ns - took_ns) / 1e9, arrival_ns / 1e9,
                    None if producer < 0 else producer,
                )
            )  # fmt: skip
        return sorted(found, key=lambda one: one.start_s)

    def _at(self, memory: int) -> DeviceLocation:
        return self.shape.locations.get(memory, CPU_DEVICE)

    def _device(
        self, number: int, regions: Sequence[RegionExplanation], copies: Sequence[CopyExplanation]
    ) -> DeviceExplanation:
        one = self.known.devices[number]
        mine = [region for region in regions if region.device == one.location]
        apart, alone = one.memory != CPU_DEVICE, self.shape.alone.get(number)
        return DeviceExplanation(
            device=one.location,
            name=one.name,
            lanes=one.lanes,
            memory=one.memory,
            regions=len(mine),
            busy_s=sum(region.finish_s - region.start_s for region in mine),
            received_nbytes=sum(copy.nbytes for copy in copies if apart and copy.destination == one.memory),
            sent_nbytes=sum(copy.nbytes for copy in copies if apart and copy.source == one.memory),
            alone_s=None if alone is None or alone.error is not None else alone.makespan_ns / 1e9,
        )


def kinds_of(region: Region) -> dict[str, int]:
    """Kernels of a region by kind, most first."""
    return dict(Counter([call.kind.value for call in region.program.calls]).most_common())
