"""What a region costs on a device with other rates than those that its plan was made for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuel_async.cost import Rates
    from fuel_async.dispatch import LaneProgram


def region_ns(program: LaneProgram, rates: Rates) -> int:
    """Return the predicted time of one run of `program`, in ns, on a device with `rates`.

    At the rates of the plan's target it is `program.predicted_ns`. O(distinct calls), and one count of its rows.
    """
    return sum([count * rates.predict_ns(call.kind, call.estimate) for call, count in Counter(program.calls).items()])
