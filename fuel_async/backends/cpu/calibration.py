"""The host's speeds, measured once a process: a few milliseconds, off the loop.

Predictions decide where regions are cut and what may run in place, so they should be right within a factor of two on
the machine at hand. The published rates never change afterwards: plans made from them stay comparable.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.cost import Rates

if TYPE_CHECKING:
    from collections.abc import Callable

#: Repeats of each measurement; the fastest counts, since disturbances only ever add time.
_REPEATS = 5


class Calibration:
    """Rates that are measured at the first call and published from then on. Any thread; may block milliseconds."""

    def __init__(self, measure: Callable[[], Rates]) -> None:
        self._measure = measure
        self._lock = threading.Lock()
        self._rates: Rates | None = None

    def rates(self) -> Rates:
        """Return the measured rates."""
        if self._rates is None:
            with self._lock:
                if self._rates is None:
                    self._rates = self._measure()
        return self._rates


def measure() -> Rates:
    """Measure this thread's speed at small calls, streaming, elementwise arithmetic and matrix products."""
    with np.errstate(all="ignore"):
        small, large = np.ones(16, np.float32), np.ones(262_144, np.float32)
        small_out = np.empty_like(small)
        out, work = np.empty_like(large), np.linspace(-4, 4, 8_192, dtype=np.float32)
        square = np.ones((192, 192), np.float32)
        product = np.empty_like(square)
        call_ns = _fastest(lambda: [np.add(small, small, small_out) for _ in range(50)]) / 50
        stream_ns = _fastest(lambda: np.add(large, large, out)) - call_ns
        exp_ns = _fastest(lambda: np.exp(work, out[: work.size])) - call_ns
        matmul_ns = _fastest(lambda: np.matmul(square, square, product)) - call_ns
    return Rates(
        flops_per_ns=10 * work.size / max(exp_ns, 1.0),
        dense_flops_per_ns=2 * square.size * square.shape[0] / max(matmul_ns, 1.0),
        bytes_per_ns=3 * large.nbytes / max(stream_ns, 1.0),
        call_ns=max(1, int(call_ns)),
    )


def _fastest(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        start_ns = perf_counter_ns()
        call()
        best = min(best, perf_counter_ns() - start_ns)
    return best


#: The rates of this process's host.
HOST = Calibration(measure)
