"""Recipes of ops with several outputs, and of what takes one of those."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.ir import BY_NAME, SelectiveScan, Symbolic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.ir import Bundle, Tensor
    from fuel_async.testing.builder import Builder

#: Longer recurrences blur what is added to them until nothing can be said of the result.
_MOST_STEPS = 128


def _scan(b: Builder) -> Bundle | None:
    source = b.floating(rank=1)
    u = source
    while u.ndim < 3:
        u = u.expand_dims(0)
    if u.ndim > 3:
        if any(isinstance(dim, Symbolic) for dim in u.shape):
            return None
        u = u.reshape((math.prod(map(b.size, u.shape[:-2])), *u.shape[-2:]))
    batch, length, channels = u.shape
    if b.size(length) > _MOST_STEPS:
        return None
    states = b.choices.pick((2, 1, 3))
    # The state decays, whatever the values: one that grew without bound would leave nothing determined.
    delta = b.within(abs(b.fresh(u.dtype, u.shape)), 1)
    a = -b.within(abs(b.fresh(u.dtype, (channels, states))), 2)
    beside = (batch, length, states)
    operands = (u, delta, a, b.fresh(u.dtype, beside), b.fresh(u.dtype, beside))
    return b.graph.bundle(BY_NAME["selective_scan"], operands, SelectiveScan(b.choices.chance(50)))


def _several(b: Builder) -> Tensor | None:
    """One output, while another may be read as well, also by what writes over it."""
    made = _scan(b)
    if made is None:
        return None
    if b.choices.chance(40):
        b.keep(made.slot(b.choices.integer(0, 1)))
    return made.slot(b.choices.integer(0, 1))


def _owned(b: Builder) -> Tensor | None:
    made = _scan(b)
    if made is None:
        return None
    if b.choices.chance(60):
        b.keep(made.slot(b.choices.integer(0, 1)))
    return made.owned(b.choices.integer(0, 1))


SCANNING: Mapping[str, Callable[[Builder], Tensor | None]] = {
    "selective_scan": _several,
    "view_slot": _several,
    "view_owned": _owned,
}
