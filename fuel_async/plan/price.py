"""What regions cost on a device with other rates than those that their plan was made for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.cost import Rates
    from fuel_async.dispatch import LaneProgram


def region_ns(program: LaneProgram, rates: Rates) -> int:
    """Return the predicted time of one run of `program`, in ns, on a device with `rates`.

    At the rates of the plan's target it is `program.predicted_ns`. O(distinct calls), and one count of its rows.
    """
    return sum([count * rates.predict_ns(call.kind, call.estimate) for call, count in Counter(program.calls).items()])


def regions_ns(programs: Sequence[LaneProgram | None], rates: Rates) -> list[int | None]:
    """Return the predicted time of each program, None for none. What several are made of alike is priced once.

    Calls are the same objects where nodes are equal: `lower` makes each once.
    """
    found: dict[tuple[int, ...], int] = {}
    times_ns: list[int | None] = []
    for program in programs:
        if program is None:
            times_ns.append(None)
            continue
        key = tuple(map(id, program.calls))
        took_ns = found.get(key)
        if took_ns is None:
            took_ns = found[key] = region_ns(program, rates)
        times_ns.append(took_ns)
    return times_ns
