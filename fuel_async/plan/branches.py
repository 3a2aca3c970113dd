"""What follows each row, seen from the end: how heavy the branch is that it starts, and where heavy branches part.

The cut (`plan.regions`) walks forwards and has to know, at a fork, what it cannot see yet.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir import Breathe

#: From this predicted time on, running beside something else pays for a launch of its own.
HEAVY_NS = 50_000

_SINK, _OPEN = -1, -2


class Branches:
    """Facts of a graph of rows in topological order, in columns by row. O(rows).

    A branch runs on through single consumers, and through a fork all of whose branches meet in one join that nothing
    else feeds (a diamond); it ends before any other join. A row that reads several rows starts a branch at the last
    of them: only then can it run.
    """

    __slots__ = ("branch_ns", "consumers", "forks")

    def __init__(self, costs_ns: Sequence[int], preds: Sequence[tuple[int, ...]], breathe: Breathe) -> None:
        count = len(costs_ns)
        #: Predicted time of the branch from each row on; the row itself included.
        self.branch_ns = branch_ns = array("q", costs_ns)
        breathe()
        #: How many rows read it.
        self.consumers = consumers = [0] * count
        #: 1 where a heavy branch starts beside others that are heavy together.
        self.forks = forks = bytearray(count)
        below, ends = array("q", bytes(8 * count)), array("i", [_SINK]) * count
        #: Time of the first heavy branch that starts at a row; 1 when it reads other rows, too.
        first = array("q", bytes(8 * count))
        for row in range(count - 1, -1, -1):
            end = ends[row]
            total = costs_ns[row] + below[row]
            if first[row] and below[row] - first[row] >= HEAVY_NS:
                forks[row] = 1
            if end >= 0 and consumers[row] == len(preds[end]) > 1:
                total += branch_ns[end]
                end = ends[end]
            branch_ns[row] = total
            ends[row] = end
            sources = preds[row]
            if len(sources) == 1:
                (source,) = sources
                below[source] += total
                if not consumers[source]:
                    ends[source] = end
                elif ends[source] != end:
                    ends[source] = _OPEN
                consumers[source] += 1
                if total >= HEAVY_NS:
                    forks[source], first[source] = first[source] > 0, total
            elif sources:
                for source in sources:
                    if not consumers[source]:
                        ends[source] = row
                    elif ends[source] != row:
                        ends[source] = _OPEN
                    consumers[source] += 1
                if total >= HEAVY_NS:
                    source = max(sources)
                    forks[source], first[source] = first[source] > 0, 1
            if not row & 63:
                breathe()
