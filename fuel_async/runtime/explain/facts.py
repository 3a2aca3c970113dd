"""What an explanation consists of. Times are seconds after the start of the run unless they are durations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuel_async.runtime.explain.plain import FORMAT, plain
from fuel_async.runtime.timeline import Row, Span, text_picture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.ir import DeviceLocation

#: Kernel kinds that a region's line names.
NAMED_KINDS = 4

_PREFIXES = {9: "G", 6: "M", 3: "k"}

#: Columns of the picture in an explanation's text.
TEXT_COLUMNS = 110


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one device promised for a region."""

    device: DeviceLocation
    start_s: float
    finish_s: float
    predicted_s: float
    #: Copies that would have to be made first, and their bytes.
    copies: int
    copied_nbytes: int
    #: When what it reads would be there, constants included, and when the lane would be free.
    ready_s: float = 0.0
    free_s: float = 0.0
    #: Who predicts, and the share of the time that is theirs: "measured" alone, or the sources of its kernels' prices.
    sources: Mapping[str, float] = field(default_factory=dict)
    #: Why it was not chosen; "" for the chosen one.
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A device that could not take a region, and why."""

    device: DeviceLocation
    why: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """One kernel on one device that could compute a call, or a device that has none, as candidates are ranked."""

    device: DeviceLocation
    #: Its name; "" where the device has none.
    kernel: str
    #: What the ranking makes of it, copies of operands included; None while it is unpriced.
    effective_s: float | None
    #: What of that is for copies of operands.
    inbound_s: float
    #: Who says what the kernel costs.
    source: str
    #: What became of it, as `plan.Fate` names it, and why.
    fate: str
    why: str
    #: Whether this is the kernel that the region runs.
    taken: bool = False


@dataclass(frozen=True, slots=True)
class CallExplanation:
    """Equal kernel calls of one region whose operands lie in the same places."""

    kind: str
    #: Types of the operands and of the result.
    signature: str
    nodes: tuple[int, ...]
    #: The user's line that built the first of them.
    line: str
    kernel: str
    #: Of all of them together, by the device's rates.
    predicted_s: float
    #: Who says what one costs: "declared", "counted" or "layer 1"; "unpriced" where only its traffic is known.
    source: str
    #: In the order of rank, those that were not kept last. Empty for copies, of which nothing is decided.
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyExplanation:
    """One value on its way from one memory to another."""

    source: DeviceLocation
    destination: DeviceLocation
    nbytes: int
    start_s: float
    finish_s: float
    #: The region that made it; None for a feed.
    region: int | None


@dataclass(frozen=True, slots=True)
class DeviceExplanation:
    """What one device would do in the run."""

    device: DeviceLocation
    name: str
    lanes: int
    #: The memory that it works in.
    memory: DeviceLocation
    regions: int
    busy_s: float
    received_nbytes: int = 0
    sent_nbytes: int = 0
    #: What the run would take on this device alone; None where it cannot.
    alone_s: float | None = None


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
    lane: int = 0
    #: The devices that could not.
    refusals: tuple[Refusal, ...] = ()
    #: Where and when the plan of the whole run has it; None without a plan.
    planned: DeviceLocation | None = None
    planned_start_s: float | None = None
    #: Where a run without that plan would have it; None without a plan.
    live: DeviceLocation | None = None
    #: What it computes, the most expensive first.
    calls: tuple[CallExplanation, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The candidate that it goes to."""
        return next(one for one in self.candidates if one.device == self.device)

    @property
    def kinds(self) -> str:
        """Its kernels in words."""
        kinds = list(self.kernels.items())
        named = ", ".join(f"{count} {kind}" for kind, count in kinds[:NAMED_KINDS])
        more = f" and {sum(count for _, count in kinds[NAMED_KINDS:])} more" if len(kinds) > NAMED_KINDS else ""
        return f"{named}{more}"

    def __str__(self) -> str:
        after = f" after {', '.join(map(str, self.needs))}" if self.needs else ""
        when = f"{ms(self.start_s)} to {ms(self.finish_s)}"
        lost = [f"\n    not on {one.device}: {one.lost}" for one in self.candidates if one.lost]
        lost += [f"\n    not on {one.device}: {one.why}" for one in self.refusals]
        head = f"region {self.number}{after}: {self.kinds}\n    on {self.device}, {when}: {self.reason}"
        return head + "".join(lost)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a run of a graph would do now. `str()` is for people, `fuel-async explain` says more."""

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
    devices: tuple[DeviceExplanation, ...] = ()
    copies: tuple[CopyExplanation, ...] = ()
    #: What the plan of the whole run promises, what a run takes that follows it, and one that does not; None where no
    #: whole runs are planned.
    promised_s: float | None = None
    planned_s: float | None = None
    live_s: float | None = None
    #: Bytes of the graph's constants, and whether they are taken to be on the devices already.
    constants_nbytes: int = 0
    warm: bool = False

    @property
    def spans(self) -> list[Span]:
        """What lanes and links do: regions by their number, copies by that of the region that made the value."""
        lanes = {one.device: one.lanes for one in self.devices}
        work = [
            Span(_lane(one.device, one.lane, lanes), str(one.number), _ns(one.start_s), _ns(one.finish_s))
            for one in self.regions
        ]
        copies = [
            Span(_link(one), "in" if one.region is None else str(one.region), _ns(one.start_s), _ns(one.finish_s))
            for one in self.copies
        ]
        return work + copies

    def picture(self, width: int = TEXT_COLUMNS) -> list[str]:
        """Return the lines of the predicted timeline: a row for each lane, and one for each link that is used."""
        lanes = {one.device: one.lanes for one in self.devices}
        rows = [_lane(one.device, lane, lanes) for one in self.devices for lane in range(one.lanes)]
        rows += sorted({_link(one) for one in self.copies})
        spans, whole = self.spans, max(_ns(self.makespan_s), 1)
        shares = dict.fromkeys(rows, 0.0)
        for span in spans:
            shares[span.row] += (span.end_ns - span.start_ns) / whole
        # Copies of one way may take it side by side, as far as is known here.
        drawn = [Row(row, row, note=f"{share_text(min(share, 1)):>4}") for row, share in shares.items()]
        return text_picture(drawn, spans, width=width, end_ns=whole)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values for JSON, with the number of their format."""
        return {"format": FORMAT, **plain(self)}

    def __str__(self) -> str:
        sizes = "".join(f", {name} = {size}" for name, size in self.sizes.items())
        head = f"graph {self.graph!r}{sizes}: {self.kernels} kernels in {len(self.regions)} regions, "
        lines = [f"{head}{ms(self.makespan_s)}", self.way]
        lines += [*(self.picture() if self.regions else []), *map(str, self.regions)]
        if self.error is not None:
            lines.append(f"it would fail: {self.error}")
        return "\n".join(lines)


def ms(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds * 1e3:,.3f} ms"


def nbytes_text(nbytes: int) -> str:
    """Return a size in words, in powers of 1,000."""
    power = next((power for power in (9, 6, 3) if nbytes >= 10**power), 0)
    return f"{nbytes / 10**power:.1f} {_PREFIXES[power]}B" if power else f"{nbytes} B"


def share_text(share: float) -> str:
    """Return a share in per cent; what rounds to nothing but is something is below 1 %."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _lane(device: DeviceLocation, lane: int, lanes: Mapping[DeviceLocation, int]) -> str:
    return f"{device} lane {lane}" if lanes.get(device, 1) > 1 else str(device)


def _link(copy: CopyExplanation) -> str:
    return f"{copy.source} -> {copy.destination}"
