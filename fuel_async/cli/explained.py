"""What `fuel-async explain` prints, chapter by chapter: an explanation as tables and lines. Pure.

First the run as a whole: devices, timeline, regions, kernels. Regions that compute the same on the same device are one
line. Then the regions that were asked for, with every candidate for the region and for each of its kernels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuel_async.cli.command import Column
from fuel_async.runtime import nbytes_text, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuel_async.runtime import CallExplanation, Explanation, RegionExplanation

#: Regions that a line names one by one, and lines of the kernels' table.
NAMED_REGIONS = 3
MOST_KERNELS = 8
#: Kinds of kernels that a region's line names.
NAMED_KINDS = 2

DEVICES = (
    Column("device"), Column("name"), Column("lanes", right=True), Column("regions", right=True),
    Column("busy", right=True), Column("received", right=True), Column("sent", right=True),
    Column("whole run here", right=True),
)  # fmt: skip
REGIONS = (
    Column("region"), Column("on"), Column("ms each", right=True), Column("kernels"), Column("why there"),
)  # fmt: skip
KERNELS = (
    Column("kernel"), Column("calls", right=True), Column("on"), Column("ms", right=True), Column("share", right=True),
    Column("price"), Column("elsewhere"),
)  # fmt: skip
CANDIDATES = (
    Column("device"), Column("inputs", right=True), Column("lane free", right=True), Column("takes", right=True),
    Column("done", right=True), Column("price"), Column("verdict"),
)  # fmt: skip
ALTERNATIVES = (
    Column("runs"), Column("device"), Column("kernel"), Column("ms", right=True), Column("copies", right=True),
    Column("price"), Column("verdict"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chapter:
    """Lines, a table, and lines below it."""

    before: Sequence[str] = ()
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[str]] = ()
    behind: Sequence[str] = ()


def chapters(said: Explanation, wanted: Sequence[int], width: int, folder: str = "") -> Iterator[Chapter]:
    """Iterate over what is printed of an explanation, `width` columns wide; regions `wanted` in full.

    Lines of files below `folder` are named from there.
    """
    yield Chapter(_head(said), DEVICES, _devices(said))
    if said.regions:
        yield Chapter(["", "timeline", *said.picture(width)])
        yield Chapter([""], REGIONS, _regions(said))
        yield Chapter([""], KERNELS, _kernels(said))
    for number in wanted:
        yield from _full(next(region for region in said.regions if region.number == number), folder)
    behind = [] if wanted or not said.regions else ["", "--region N shows every candidate for a region, --all for all."]
    if said.error is not None:
        behind += ["", f"it would fail: {said.error}"]
    yield Chapter(behind)


def _head(said: Explanation) -> list[str]:
    sizes = "".join(f", {name} = {size}" for name, size in said.sizes.items())
    lines = [
        f"graph {said.graph!r}{sizes}: {said.kernels} kernels in {len(said.regions)} regions, "
        f"{_ms(said.makespan_s)} ms",
        said.way,
    ]
    if said.constants_nbytes:
        state = "are taken to be on the devices already" if said.warm else "are sent where they are not yet"
        lines.append(f"constants of {_size(said.constants_nbytes)} {state}")
    return [*lines, ""]


def _devices(said: Explanation) -> Sequence[Sequence[str]]:
    whole = said.makespan_s or 1.0
    return [
        (
            str(one.device),
            one.name,
            str(one.lanes),
            str(one.regions),
            share_text(one.busy_s / one.lanes / whole),
            _size(one.received_nbytes),
            _size(one.sent_nbytes),
            "cannot" if one.alone_s is None else f"{_ms(one.alone_s)} ms",
        )
        for one in said.devices
    ]


def _regions(said: Explanation) -> Sequence[Sequence[str]]:
    alike: defaultdict[tuple[object, ...], list[RegionExplanation]] = defaultdict(list)
    for region in said.regions:
        work = Counter[tuple[str, str]]()
        for call in region.calls:
            work[call.kind, call.signature] += len(call.nodes)
        best = min((one for one in region.candidates if one.lost), key=lambda one: one.finish_s, default=None)
        rival = None if best is None else best.device
        alike[region.device, frozenset(work.items()), region.planned, rival].append(region)
    rows = []
    for group in alike.values():
        each_s = sum(one.finish_s - one.start_s for one in group) / len(group)
        first = group[0]
        # Where a plan is followed, the first lines say so.
        reason = first.reason.removeprefix("as planned, ")
        rows.append((_numbers(group), str(first.device), _ms(each_s), _kinds(first), reason))
    return rows


def _numbers(group: Sequence[RegionExplanation]) -> str:
    named = ", ".join(str(one.number) for one in group[:NAMED_REGIONS])
    return f"{named} +{len(group) - NAMED_REGIONS}" if len(group) > NAMED_REGIONS else named


@dataclass(slots=True)
class _Total:
    """Calls of one kind on one device, and the same on the others: None where one of them has no kernel or price."""

    calls: int = 0
    took_s: float = 0.0
    elsewhere_s: dict[str, float | None] = field(default_factory=dict)

    def add(self, call: CallExplanation, here: str) -> None:
        count, best = len(call.nodes), dict[str, float | None]()
        self.calls, self.took_s = self.calls + count, self.took_s + call.predicted_s
        for one in call.alternatives:
            took_s = None if one.effective_s is None else count * (one.effective_s - one.inbound_s)
            known = best.setdefault(str(one.device), took_s)
            best[str(one.device)] = took_s if known is None or (took_s is not None and took_s < known) else known
        for device, took_s in best.items():
            if device != here:
                sum_s = self.elsewhere_s.get(device, 0.0)
                self.elsewhere_s[device] = None if sum_s is None or took_s is None else sum_s + took_s

    def ratios(self) -> str:
        return ", ".join(
            f"{device} {'cannot' if sum_s is None else f'{sum_s / (self.took_s or 1.0):.2g}x'}"
            for device, sum_s in sorted(self.elsewhere_s.items())
        )


def _kinds(region: RegionExplanation) -> str:
    """The most frequent kernels of a region."""
    kinds = list(region.kernels.items())
    more = sum(count for _, count in kinds[NAMED_KINDS:])
    named = ", ".join(f"{count} {kind}" for kind, count in kinds[:NAMED_KINDS])
    return f"{named}, {more} more" if more else named


def _kernels(said: Explanation) -> Sequence[Sequence[str]]:
    """What takes most of the time, by kind and device."""
    totals: defaultdict[tuple[str, str, str], _Total] = defaultdict(_Total)
    for region in said.regions:
        for call in region.calls:
            totals[call.kind, str(region.device), call.source].add(call, str(region.device))
    whole_s = sum(total.took_s for total in totals.values()) or 1.0
    ordered = sorted(totals.items(), key=lambda one: -one[1].took_s)
    rows = [
        (kind, str(one.calls), device, _ms(one.took_s), share_text(one.took_s / whole_s), source, one.ratios())
        for (kind, device, source), one in ordered[:MOST_KERNELS]
    ]
    rest = [one for _, one in ordered[MOST_KERNELS:]]
    if rest:
        rest_s = sum(one.took_s for one in rest)
        calls = str(sum(one.calls for one in rest))
        rows.append((f"{len(rest)} more kinds", calls, "", _ms(rest_s), share_text(rest_s / whole_s), "", ""))
    return rows


# --- one region -------------------------------------------------------------------------------------------------------


def _full(region: RegionExplanation, folder: str) -> Iterator[Chapter]:
    after = f" after {', '.join(map(str, region.needs))}" if region.needs else ""
    when = f"{_ms(region.start_s)} to {_ms(region.finish_s)} ms"
    before = [
        "",
        f"region {region.number}{after}: {region.kinds}",
        f"on {region.device}, {when}: {region.reason}",
    ]
    if region.planned is not None and region.planned_start_s is not None:
        live = "it would go there, too" if region.live == region.planned else f"it would go to {region.live}"
        before.append(f"planned on {region.planned} from {_ms(region.planned_start_s)} ms; without a plan {live}")
    yield Chapter([*before, ""], CANDIDATES, _candidates(region))
    for call in region.calls:
        times = f"{len(call.nodes)} x " if len(call.nodes) > 1 else ""
        head = f"{times}{call.kind} {call.signature}"
        line = call.line.removeprefix(folder)
        made = f"{_ms(call.predicted_s)} ms by {call.kernel}, {_price(call.source)}; built at {line}"
        rows = [
            (
                "*" if one.taken else "",
                str(one.device),
                one.kernel,
                "" if one.effective_s is None else _ms(one.effective_s),
                _ms(one.inbound_s) if one.inbound_s else "",
                one.source if one.kernel else "",
                one.why,
            )
            for one in call.alternatives
        ]
        yield Chapter(["", head, made], ALTERNATIVES if rows else (), rows)


def _candidates(region: RegionExplanation) -> Sequence[Sequence[str]]:
    rows = [
        (
            str(one.device),
            _ms(one.ready_s),
            _ms(one.free_s),
            _ms(one.predicted_s),
            _ms(one.finish_s),
            _sources(one.sources),
            one.lost or "chosen",
        )
        for one in sorted(region.candidates, key=lambda one: (bool(one.lost), one.finish_s))
    ]
    return [*rows, *[(str(one.device), "", "", "", "", "", one.why) for one in region.refusals]]


def _price(source: str) -> str:
    """Who says what a kernel costs, as a part of a sentence."""
    return source if source == "unpriced" else f"price {source}"


def _sources(sources: Mapping[str, float]) -> str:
    if len(sources) == 1:
        return next(iter(sources))
    return ", ".join(f"{share:.0%} {source}" for source, share in sources.items())


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def _size(nbytes: int) -> str:
    return nbytes_text(nbytes) if nbytes else "0"
