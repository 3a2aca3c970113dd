"""No schedule is shorter: what the longest way and the work over all devices say. Moves are left out.

The work is a linear programme: how short can all tasks together be, if each could be divided among devices? Its dual is
prices of the devices' time: tasks bought at their cheapest are worth at most that. Prices by multiplicative weights
(Plotkin, Shmoys, Tardos, 1995); any prices give a bound, good ones a sharp one. Tasks that start late at best, or have
much after them at best, must fit between head and tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.ir import Breathe, no_breath

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuel_async.plan.placement.tables import Tables

#: Rounds of the prices, and quantiles of heads and tails that are looked at.
ROUNDS = 40
QUANTILES = 5

_EVERY = 63


def lower_bound_ns(tables: Tables, breathe: Breathe = no_breath) -> float:
    """The bound. O(tasks × devices)."""
    if not len(tables):
        return 0.0
    times = np.array(tables.times_ns, np.float64)
    least = times.min(axis=1)
    heads, tails = _ways(tables, least.tolist(), breathe)
    longest = float((heads + least + tails).max())
    worth = _worth(times, np.array([len(lanes) for lanes in tables.lanes_of], np.float64), breathe)
    bound = max(longest, float(worth.sum()))
    shares = np.linspace(0, 1, QUANTILES + 1)[:-1]
    late_heads, long_tails = np.unique(np.quantile(heads, shares)), np.unique(np.quantile(tails, shares))
    for head in late_heads:
        late = heads >= head
        for tail in long_tails:
            inside = late & (tails >= tail)
            if inside.any():
                bound = max(bound, float(head + tail + worth[inside].sum()))
    return bound


def _ways(tables: Tables, least_ns: list[float], breathe: Breathe) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The longest ways to the start and from the end of each task, at their fastest and without moves."""
    count = len(tables)
    heads, tails = [0.0] * count, [0.0] * count
    producers, readers = tables.producers, tables.readers
    for task, values in enumerate(tables.reads):
        head = tables.heads_ns[task]
        earliest = 0.0 if head is None else min(head)
        for value in values:
            maker = producers[value]
            if maker >= 0 and heads[maker] + least_ns[maker] > earliest:
                earliest = heads[maker] + least_ns[maker]
        heads[task] = earliest
        if not task & _EVERY:
            breathe()
    for task in range(count - 1, -1, -1):
        tail = tables.tails_ns[task]
        rest = 0.0 if tail is None else min(tail)
        for value in tables.writes[task]:
            for reader in readers[value]:
                if tails[reader] + least_ns[reader] > rest:
                    rest = tails[reader] + least_ns[reader]
        tails[task] = rest
        if not task & _EVERY:
            breathe()
    return np.array(heads), np.array(tails)


def _worth(times: NDArray[np.float64], lanes: NDArray[np.float64], breathe: Breathe) -> NDArray[np.float64]:
    """What each task is worth at the best prices of devices found; together they are a bound."""
    can = np.isfinite(times)
    times = np.where(can, times, 1e3 * times[can].max() + 1.0)
    rows = np.arange(len(times))
    prices = 1 / np.maximum(times.mean(axis=0), 1e-9)
    prices /= (prices * lanes).sum()
    best, best_prices = -1.0, prices
    for step in range(ROUNDS):
        costs = times * prices
        chosen = costs.argmin(axis=1)
        value = float(costs[rows, chosen].sum())
        if value > best:
            best, best_prices = value, prices
        load = np.bincount(chosen, weights=times[rows, chosen], minlength=len(lanes)) / lanes
        load /= max(float(load.max()), 1e-12)
        prices = prices * np.exp(0.5 / (1 + 0.15 * step) * (load - load.mean()))
        prices /= (prices * lanes).sum()
        breathe()
    worth: NDArray[np.float64] = (times * best_prices).min(axis=1)
    return worth
