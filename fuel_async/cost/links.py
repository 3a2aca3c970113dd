"""Learning what a link costs from the copies that went over it.

A model starts from the figures a device advertises and follows what its copies took. It keeps medians of the latest
copies by size, so a copy that waited for something else changes little, and its memory is bounded. What the copies
cannot tell apart, latency from bandwidth, stays in the proportion of the prior; ports stay as advertised. No clock
here: times are arguments.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.dispatch import LinkEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Copies kept of each power of two of sizes; the median of so many stands for them.
KEPT_PER_SIZE = 9
#: Copies of a size before it counts as a point of a fit.
POINT_COPIES = 3
#: How many times the smallest size the largest must be before latency and bandwidth are told apart.
SPREAD = 4
#: The share of a copy's time within which a fit is not sharper than the prior.
BLUR = 0.05


class _Sizes:
    """The latest copies of sizes within a power of two: (bytes, nanoseconds), and each by what the prior says of it."""

    __slots__ = ("_point", "copies", "ratios")

    def __init__(self, copies: tuple[tuple[int, int], ...] = (), ratios: tuple[float, ...] = ()) -> None:
        self.copies, self.ratios = copies, ratios
        self._point: tuple[float, float] | None = None

    @property
    def point(self) -> tuple[float, float] | None:
        """Median size and median time; None before POINT_COPIES."""
        if self._point is None and len(self.copies) >= POINT_COPIES:
            self._point = _median([nbytes for nbytes, _ in self.copies]), _median([took for _, took in self.copies])
        return self._point


_NONE = _Sizes()


class LinkModel:
    """Latency and bandwidth of one direction of one link. Deterministic.

    Any thread, without a lock: what was seen is replaced as a whole and never changed. Of two copies noted at the very
    same time one may be lost.
    """

    __slots__ = ("_by_size", "_estimate", "_prior", "_shape", "_stale", "_warm")

    def __init__(self, prior: LinkEstimate) -> None:
        self._prior = self._estimate = prior
        free = prior.latency_ns == 0 and math.isinf(prior.bytes_per_ns)
        #: What the times of copies are multiples of: no multiple of nothing is the total.
        self._shape = LinkEstimate(0.0, 1.0, prior.ports) if free else prior
        self._by_size: Mapping[int, _Sizes] = {}
        self._warm = self._stale = False

    def observe(self, nbytes: int, took_ns: int) -> None:
        """Note that a copy of `nbytes` took that long.

        The first is dropped: it pays for first touches and set-up. A copy of nothing tells nothing.
        """
        if nbytes < 1:
            return
        if not self._warm:
            self._warm = True
            return
        known, size, shape, took_ns = self._by_size, nbytes.bit_length(), self._shape, max(took_ns, 1)
        earlier, ratio = known.get(size, _NONE), took_ns / (shape.latency_ns + nbytes / shape.bytes_per_ns)
        copies, ratios = earlier.copies[1 - KEPT_PER_SIZE :], earlier.ratios[1 - KEPT_PER_SIZE :]
        self._by_size = {**known, size: _Sizes((*copies, (nbytes, took_ns)), (*ratios, ratio))}
        self._stale = True

    @property
    def estimate(self) -> LinkEstimate:
        """The figures as now known: the prior before the second copy."""
        if self._stale:
            self._stale = False  # before reading what was seen: what comes meanwhile sets it again
            self._estimate = self._learned()
        return self._estimate

    def copy_ns(self, nbytes: int) -> int:
        """Return the predicted nanoseconds of a copy of `nbytes`; never falls as `nbytes` grows."""
        return self.estimate.copy_ns(nbytes)

    def _learned(self) -> LinkEstimate:
        known = self._by_size.values()
        if len(known) > 1:
            points = sorted([point for sizes in known if (point := sizes.point) is not None])
            if len(points) > 1 and points[-1][0] >= SPREAD * points[0][0]:
                return _fit(points, self._prior)
        return _scaled(self._shape, [ratio for sizes in known for ratio in sizes.ratios])


def _scaled(shape: LinkEstimate, ratios: Sequence[float]) -> LinkEstimate:
    """Return figures that are slower or faster as a whole, by the median of what each copy says.

    Copies of one size give the total at that size and nothing else, so that is what is taken from them.
    """
    ratio = _median(ratios)
    return LinkEstimate(shape.latency_ns * ratio, shape.bytes_per_ns / ratio, shape.ports)


def _fit(points: Sequence[tuple[float, float]], prior: LinkEstimate) -> LinkEstimate:
    """Return the line through `points` (size, time), sorted by size, with least squares of relative errors.

    Each coefficient keeps the prior's value where that is within BLUR of the time it is a part of: small copies say
    nothing about bandwidth, and without this a fit of them would promise any.
    """
    slope = _slope(points)
    size, took = points[-1]
    slope = _towards(1 / prior.bytes_per_ns, slope, BLUR * took / size)
    latency = _weighted_mean([(took, took - slope * size) for size, took in points])
    latency = _towards(prior.latency_ns, latency, BLUR * points[0][1])
    return LinkEstimate(latency, 1 / slope if slope else math.inf, prior.ports)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the weighted slope, at least 0 and at most what a line without latency has."""
    mean_size = _weighted_mean([(took, size) for size, took in points])
    mean_took = _weighted_mean([(took, took) for _, took in points])
    weights = [took**-2 for _, took in points]
    spread = sum(weight * (size - mean_size) ** 2 for weight, (size, _) in zip(weights, points, strict=True))
    common = sum(
        weight * (size - mean_size) * (took - mean_took) for weight, (size, took) in zip(weights, points, strict=True)
    )
    through_zero = sum(size / took for size, took in points) / sum((size / took) ** 2 for size, took in points)
    slope = max(common / spread, 0.0)
    return slope if slope * mean_size <= mean_took else through_zero


def _weighted_mean(values: Sequence[tuple[float, float]]) -> float:
    """Return the mean of the second items, each weighted by 1 / first²."""
    return sum(value / took**2 for took, value in values) / sum(took**-2 for took, _ in values)


def _towards(prior: float, fitted: float, blur: float) -> float:
    """Return the prior moved into `fitted` ± `blur`, at least 0."""
    return max(min(max(prior, fitted - blur), fitted + blur), 0.0)


def _median(values: Sequence[float]) -> float:
    """Return the middle one; of two the smaller, since what goes wrong with a copy makes it longer."""
    return sorted(values)[(len(values) - 1) // 2]
