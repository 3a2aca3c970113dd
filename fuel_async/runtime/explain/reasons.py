"""Why something was chosen and something else was not, in words. The numbers are those of whoever chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.plan import Fate
from fuel_async.runtime.explain.facts import ms, nbytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.dispatch import KernelRef
    from fuel_async.ir import DeviceLocation
    from fuel_async.plan import Plan, Region, Reviewed
    from fuel_async.runtime.explain.known import Known
    from fuel_async.schedule import Decision, Offer

#: Ops that are named when a device lacks kernels.
NAMED = 4


# --- regions ----------------------------------------------------------------------------------------------------------


def reason_of(
    region: Region, decision: Decision, devices: Sequence[DeviceLocation], policy: str, planned: int | None
) -> str:
    """Why the chosen offer was taken, against the best of the others. `planned` is the device that the plan has."""
    chosen = decision.chosen
    others = [offer for offer in decision.offers if offer.device != chosen.device]
    if region.pin is not None:
        return f"pinned to {region.pin}"
    if planned is not None and planned != chosen.device:
        return f"planned on {devices[planned]}, which cannot take it now or is far behind"
    by_plan = "" if planned is None else "as planned, "
    if not others:
        return f"{by_plan}no other device can take it"
    best = min(others, key=lambda offer: offer.finish_ns)
    name, margin_s = devices[best.device], (best.finish_ns - chosen.finish_ns) / 1e9
    if margin_s < 0 and best.tight and not chosen.tight:
        return f"{name} would be done {ms(-margin_s)} earlier, with its memory nearly full"
    if margin_s < 0 and by_plan:
        return f"as planned, though {name} would be done {ms(-margin_s)} earlier: shorter as a whole"
    if margin_s < 0:
        return f"chosen by {policy}, though {name} would be done {ms(-margin_s)} earlier"
    if margin_s == 0:
        return f"{by_plan}done first, with {name} at the same time"
    return f"{by_plan}done {ms(margin_s)} before {name}{_cause(chosen, best)}"


def lost_by(chosen: Offer, other: Offer, planned: int | None, copied_nbytes: int, upload_ns: int) -> str:
    """Why an offer was not taken; if it would be done later, with what adds up to that, in ms."""
    later_ns = other.finish_ns - chosen.finish_ns
    if later_ns <= 0:
        when = f"{ms(-later_ns / 1e9)} earlier" if later_ns else "done at the same time"
        if other.tight and not chosen.tight:
            return f"{when}, but its memory would be nearly full"
        if planned is not None and planned != other.device:
            return f"{when}, but planned elsewhere"
        return f"{when}, but the policy chose another" if later_ns else when
    start_ns, work_ns = other.start_ns - chosen.start_ns, other.predicted_ns - chosen.predicted_ns
    waits = _waits(other, copied_nbytes, upload_ns) if start_ns > 0 else ""
    parts = [f"start {_signed(start_ns)}{waits}"] if start_ns else []
    parts += [f"work {_signed(work_ns)}"] if work_ns else []
    return f"{ms(later_ns / 1e9)} later: {', '.join(parts)}"


def _waits(offer: Offer, copied_nbytes: int, upload_ns: int) -> str:
    """What a start waits for, where it is not the region's needs themselves."""
    if offer.free_ns > offer.ready_ns:
        return " (other work)"
    parts = []
    if offer.copies:
        number = len(offer.copies)
        parts.append(f"{number} {'copy' if number == 1 else 'copies'}, {nbytes_text(copied_nbytes)}")
    if upload_ns:
        parts.append(f"constants, {ms(upload_ns / 1e9)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _signed(nanoseconds: int) -> str:
    """A difference in milliseconds."""
    return f"{nanoseconds / 1e6:+,.3f}"


def _cause(chosen: Offer, other: Offer) -> str:
    """What makes the other later: the largest of its copies, its queue and its speed."""
    waits = ", waiting for inputs" if other.copies else ", waiting for constants"
    causes = {
        waits: other.ready_ns - chosen.ready_ns,
        ", busy with other work": other.free_ns - chosen.free_ns,
        ", slower at it": other.predicted_ns - chosen.predicted_ns,
    }
    text, most_ns = max(causes.items(), key=lambda one: one[1])
    return text if most_ns > 0 else ""


def refusal(
    plan: Plan,
    number: int,
    device: int,
    known: Known,
    lacking: Sequence[str],
    share_nbytes: int,
    has_way: Callable[[int], bool],
) -> str:
    """Why a device made no offer for a region.

    `lacking` are the kinds of kernels that it does not have; `has_way` says of a device whether values get there and
    back.
    """
    region, where = plan.regions[number], known.devices[device]
    if region.pin is not None and region.pin != where.location:
        return f"the graph pins it to {region.pin}"
    if where.lost is not None:
        return str(where.lost)
    if known.program_on(plan, region, device) is None:
        return f"no kernel for {', '.join(lacking[:NAMED])}{' and more' if len(lacking) > NAMED else ''}"
    if share_nbytes > where.budget_nbytes:
        return f"no room: a run holds {share_nbytes:,} bytes there, of {where.budget_nbytes:,}"
    if not has_way(device):
        return "no way for its values there and back"
    return "no room at that moment"


# --- kernels ----------------------------------------------------------------------------------------------------------

#: What is said of each fate: of the candidate, what it takes, and what the first one takes.
FATES: Mapping[Fate, Callable[[Reviewed, Reviewed | None], str]] = {
    Fate.NO_KERNEL: lambda one, first: "no kernel for these types",
    Fate.BROADCAST: lambda one, first: "has a broadcast operand baked in, which nothing proves to be there",
    Fate.FEATURES: lambda one, first: f"the device lacks {one.by}",
    Fate.FILTERED: lambda one, first: f"filtered by {one.by}",
    Fate.DOMINATED: lambda one, first: f"dominated by {_named(one)}",
    Fate.CROWDED: lambda one, first: "crowded out: its device has enough that are each best in some respect",
    Fate.KEPT: lambda one, first: _behind(one, first),
    Fate.FIRST: lambda one, first: "ranked first",
}


def why(one: Reviewed, first: Reviewed | None) -> str:
    """What became of a candidate, beside the one that is ranked first."""
    return FATES[one.fate](one, first)


def kernel_name(kernel: KernelRef, source: str) -> str:
    """Return what to call a kernel: its source, and its own name where it has one."""
    name = getattr(kernel, "name", None) or getattr(kernel, "__name__", "")
    return f"{source}:{name}" if source and name else str(name or source or "unnamed")


def _named(one: Reviewed) -> str:
    return "another" if one.better is None else kernel_name(one.better.kernel, one.better.kernel_source)


def _behind(one: Reviewed, first: Reviewed | None) -> str:
    """By how much a candidate that was kept is slower than the first, and whether copies are why."""
    if one.effective_ns is None:
        return "nobody says what it costs"
    if first is None or first.effective_ns is None or first.candidate is None or one.candidate is None:
        return "kept"
    margin_ns = one.effective_ns - first.effective_ns
    if not margin_ns:
        return "as fast as the first"
    inbound_ns = one.candidate.inbound_transfer_ns - first.candidate.inbound_transfer_ns
    moved = f", of which {ms(inbound_ns / 1e9)} for copies of operands" if inbound_ns > 0 else ""
    return f"{ms(margin_ns / 1e9)} slower{moved}"
