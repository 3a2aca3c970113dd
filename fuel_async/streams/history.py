"""What a program was measured to take on a device: the learned half of every prediction."""

from __future__ import annotations

from collections import deque

#: How many completions are remembered.
REMEMBERED = 8

#: In a steady state one completion in so many is looked at.
SAMPLED = 4


class History:
    """The last completions of one program on one device. Recording and reading take any thread.

    The first completion is dropped: it pays for cold caches, page faults and compilation.
    """

    # Plain attributes, written by `record` alone: every submission reads them.
    __slots__ = ("__weakref__", "_count", "_times_ns", "measured_median_ns", "predicted_ns")

    def __init__(self, prior_ns: int) -> None:
        self._times_ns: deque[int] = deque(maxlen=REMEMBERED)
        self._count = 0
        #: The mean of the remembered completions, before there are any what the cost model said.
        self.predicted_ns = prior_ns
        #: The median of the remembered completions; None before the second one.
        self.measured_median_ns: int | None = None

    @property
    def due(self) -> bool:
        """Whether the next completion will be remembered: each of the first ones, then one in `SAMPLED`."""
        return self._count <= REMEMBERED or not self._count % SAMPLED

    def record(self, work_ns: int) -> None:
        """Take note of one completion."""
        self._count += 1
        if self._count == 1 or (self._count > REMEMBERED + 1 and (self._count - 1) % SAMPLED):
            return
        times = self._times_ns
        times.append(work_ns)
        known = sorted(times)
        count = len(known)
        self.predicted_ns = sum(known) // count
        self.measured_median_ns = (known[(count - 1) // 2] + known[count // 2]) // 2
