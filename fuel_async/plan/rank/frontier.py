"""Which of the candidates of one device are kept: those that no other beats on all axes, spread out if they are many.

Vectors in, indices out. A backend always keeps one of its candidates, whatever beats it, and the winner stays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from fuel_async.cost import CostVector


def frontier(
    vectors: Sequence[CostVector], backends: Sequence[Hashable], keep: int, winner: int | None = None
) -> list[int]:
    """Return the indices of at most max(`keep`, number of backends) candidates of one device, ascending.

    `backends` has the backend of each; `winner` is an index that stays. Of too many the ones go whose neighbours on
    the axes are nearest (crowding distance, Deb et al. 2002). O(n²) comparisons.
    """
    kept = {
        index
        for index, mine in enumerate(vectors)
        if index == winner or not any(other.dominates(mine) for other in vectors)
    }
    for backend in dict.fromkeys(backends):
        of_backend = [index for index, its in enumerate(backends) if its == backend]
        if kept.isdisjoint(of_backend):
            kept.add(min(of_backend, key=lambda index: vectors[index].total_order_key))
    members = sorted(kept)
    while len(members) > keep:
        distances = crowding_distances([vectors[index] for index in members])
        counts = [sum(backends[other] == backends[index] for other in members) for index in members]
        droppable = [place for place, index in enumerate(members) if index != winner and counts[place] > 1]
        if not droppable:
            break
        del members[min(droppable, key=distances.__getitem__)]
    return members


def crowding_distances(vectors: Sequence[CostVector]) -> list[float]:
    """Return how far the neighbours of each are apart, summed over the axes; infinite for the ends of an axis.

    An axis on which all are equal has no ends and says nothing.
    """
    count = len(vectors)
    if count <= 2:
        return [math.inf] * count
    distances = [0.0] * count
    for axis in zip(*[vector.axes() for vector in vectors], strict=True):
        known = [value for value in axis if value is not None]
        values = [max(known, default=0) if value is None else value for value in axis]
        order = sorted(range(count), key=values.__getitem__)
        low, high = values[order[0]], values[order[-1]]
        if low == high:
            continue
        distances[order[0]] = distances[order[-1]] = math.inf
        for before, index, after in zip(order, order[1:], order[2:], strict=False):
            distances[index] += (values[after] - values[before]) / (high - low)
    return distances
