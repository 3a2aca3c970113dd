"""Ops with several outputs: kernels of the second executor, by other formulas, and of one that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]
    #: Gives all outputs in order.
    Kernel = Callable[..., Any]


def _scan(u: Array, delta: Array, a: Array, b: Array, c: Array, softplus: bool, *, late: int = 0) -> tuple[Array, ...]:
    """What each step adds, decayed by the product of the steps after it; those are summed up last to first."""
    steps = np.log1p(np.exp(delta)) if softplus else delta
    added = u[..., None] * (steps[..., None] * b[:, :, None, :])
    y, state = np.zeros_like(u), np.zeros((len(u), *a.shape), u.dtype)
    for t in range(u.shape[1]):
        state = np.zeros_like(state)
        decay = np.ones_like(state)
        for s in range(t, -1, -1):
            state = state + decay * added[:, s]
            decay = decay * np.exp(a * steps[:, max(s - late, 0), :, None])
        y[:, t] = (c[:, t, None, ::-1] * state[..., ::-1]).sum(-1)
    return y, state


KERNELS: Mapping[str, Kernel] = {"selective_scan": _scan}

MUTANTS: Mapping[str, Kernel] = {"selective_scan": lambda *operands: _scan(*operands, late=1)}
