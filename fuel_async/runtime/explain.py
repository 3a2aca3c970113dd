"""A plan in words: which regions, of which kernels, on which device, when, and why there.

An explanation tells what a single run would do on idle devices by what is known now. It is made by the scheduler
itself, over predictions instead of lanes, so it cannot differ from what a run does by more than the predictions do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir import DeviceLocation
    from fuel_async.plan import Plan, Region
    from fuel_async.schedule import Decision, DryRun, Offer

#: Kernel kinds that a region's line names.
NAMED_KINDS = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one device promised for a region. Times are seconds after the start of the run."""

    device: DeviceLocation
    start_s: float
    finish_s: float
    predicted_s: float
    #: Copies that would have to be made first, and their bytes.
    copies: int
    copied_nbytes: int


@dataclass(frozen=True, slots=True)
class RegionExplanation:
    """One region: what it is, where it would go, and why."""

    number: int
    #: Kernels by kind, most first.
    kernels: Mapping[str, int]
    needs: tuple[int, ...]
    device: DeviceLocation
    start_s: float
    finish_s: float
    #: All devices that could have taken it, the chosen one among them.
    candidates: tuple[Candidate, ...]
    reason: str

    def __str__(self) -> str:
        kinds = list(self.kernels.items())
        named = ", ".join(f"{count} {kind}" for kind, count in kinds[:NAMED_KINDS])
        more = f" and {sum(count for _, count in kinds[NAMED_KINDS:])} more" if len(kinds) > NAMED_KINDS else ""
        after = f" after {', '.join(map(str, self.needs))}" if self.needs else ""
        when = f"{_ms(self.start_s)} to {_ms(self.finish_s)}"
        return f"region {self.number}{after}: {named}{more}\n    on {self.device}, {when}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a run of a graph would do now. `str()` is the whole of it, for people."""

    graph: str
    #: Sizes taken for the graph's symbols.
    sizes: Mapping[str, int]
    kernels: int
    regions: tuple[RegionExplanation, ...]
    #: From the start of the run to its last result, as predicted.
    makespan_s: float
    #: Whether it runs in place on the loop, on a lane, or over devices, and why.
    way: str
    #: Why it would fail; None when it would not.
    error: str | None = None

    def __str__(self) -> str:
        sizes = "".join(f", {name} = {size}" for name, size in self.sizes.items())
        head = f"graph {self.graph!r}{sizes}: {self.kernels} kernels in {len(self.regions)} regions, "
        lines = [f"{head}{_ms(self.makespan_s)}", self.way, *map(str, self.regions)]
        if self.error is not None:
            lines.append(f"it would fail: {self.error}")
        return "\n".join(lines)


def explain_local(plan: Plan, sizes: Mapping[str, int], device: DeviceLocation, way: str, took_ns: int) -> Explanation:
    """Explain a plan for one device, whose regions follow one another on its lanes."""
    regions, at_ns = [], 0
    for number, region in enumerate(plan.regions):
        end_ns = at_ns + region.program.predicted_ns
        only = Candidate(device, at_ns / 1e9, end_ns / 1e9, (end_ns - at_ns) / 1e9, 0, 0)
        needs = tuple(sorted(region.needs))
        regions.append(
            RegionExplanation(
                number, kinds_of(region), needs, device, only.start_s, only.finish_s, (only,), "the only device"
            )
        )
        at_ns = end_ns
    return Explanation(plan.graph.name, dict(sizes), plan.kernels, tuple(regions), took_ns / 1e9, way)


def explain_spread(
    plan: Plan,
    sizes: Mapping[str, int],
    devices: Sequence[DeviceLocation],
    policy: str,
    dry: DryRun,
) -> Explanation:
    """Explain a plan over several devices by how its dry run went."""
    regions = []
    for number, decision in sorted(dry.decisions.items()):
        region = plan.regions[number]
        candidates = tuple(_candidate(offer, devices, plan) for offer in decision.offers)
        regions.append(
            RegionExplanation(
                number=number,
                kernels=kinds_of(region),
                needs=tuple(sorted(region.needs)),
                device=devices[decision.chosen.device],
                start_s=dry.started_ns.get(number, decision.chosen.start_ns) / 1e9,
                finish_s=dry.finished_ns.get(number, decision.chosen.finish_ns) / 1e9,
                candidates=candidates,
                reason=_reason(region, decision, devices, policy),
            )
        )
    way = f"over {len(devices)} devices, {len(dry.copies)} copies, by {policy}"
    error = None if dry.error is None else f"{type(dry.error).__name__}: {dry.error}"
    return Explanation(plan.graph.name, dict(sizes), plan.kernels, tuple(regions), dry.makespan_ns / 1e9, way, error)


def kinds_of(region: Region) -> dict[str, int]:
    """Kernels of a region by kind, most first."""
    return dict(Counter([call.kind.value for call in region.program.calls]).most_common())


def _candidate(offer: Offer, devices: Sequence[DeviceLocation], plan: Plan) -> Candidate:
    return Candidate(
        device=devices[offer.device],
        start_s=offer.start_ns / 1e9,
        finish_s=offer.finish_ns / 1e9,
        predicted_s=offer.predicted_ns / 1e9,
        copies=len(offer.copies),
        copied_nbytes=sum(plan.values[value].nbytes for value, _ in offer.copies),
    )


def _reason(region: Region, decision: Decision, devices: Sequence[DeviceLocation], policy: str) -> str:
    """Why the chosen offer was taken, against the best of the others."""
    chosen = decision.chosen
    others = [offer for offer in decision.offers if offer.device != chosen.device]
    if region.pin is not None:
        return f"pinned to {region.pin}"
    if not others:
        return "no other device can take it"
    best = min(others, key=lambda offer: offer.finish_ns)
    name, margin_s = devices[best.device], (best.finish_ns - chosen.finish_ns) / 1e9
    if margin_s < 0 and best.tight and not chosen.tight:
        return f"{name} would be done {_ms(-margin_s)} earlier, with its memory nearly full"
    if margin_s < 0:
        return f"chosen by {policy}, though {name} would be done {_ms(-margin_s)} earlier"
    if margin_s == 0:
        return f"done first, with {name} at the same time"
    cause = _cause(chosen, best)
    return f"done {_ms(margin_s)} before {name}{cause}"


def _cause(chosen: Offer, other: Offer) -> str:
    """What makes the other later: the largest of its copies, its queue and its speed."""
    causes = {
        ", which must be sent its inputs": other.ready_ns - chosen.ready_ns,
        ", which has other work": other.free_ns - chosen.free_ns,
        ", which is slower at it": other.predicted_ns - chosen.predicted_ns,
    }
    text, most_ns = max(causes.items(), key=lambda one: one[1])
    return text if most_ns > 0 else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
