"""Estimates of ops that run along a sequence: all of their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from fuel_async.ir import DType
from fuel_async.testing.estimates.tracked import Tracked, tracked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.testing.estimates.bounds import Array, Node, Operand, Result, SlotsRule


def _at(value: Tracked, *index: int | slice | None) -> Tracked:
    return Tracked(value.x[index], value.e[index], value.unit)


def _selective_scan(nodes: Sequence[Node], args: Sequence[Operand]) -> Sequence[Result]:
    node, last = nodes
    u, delta, a, b, c = (tracked(node, arg) for arg in args)
    every, limit = slice(None), _limit(node.dtype)
    steps = delta.softplus() if node.attrs.delta_softplus else delta
    driven = (steps * u).within(limit)
    state = Tracked(np.zeros(last.shape), np.zeros(last.shape), u.unit)
    rows: list[tuple[Array, Array]] = []
    for step in range(node.shape[1]):
        added = _at(driven, every, step, every, None) * _at(b, every, step, None, every)
        if step:
            decay = (_at(steps, every, step, every, None) * a).exp().within(limit)
            added = (decay * state).within(limit) + added
        state = added.within(limit)
        row = (_at(c, every, step, None, every) * state).within(limit).sum().within(limit)
        rows.append((row.x[..., 0], row.e[..., 0]))
    y, e = (np.stack([row[part] for row in rows], 1) if rows else np.zeros(node.shape) for part in (0, 1))
    return Tracked(y, e, u.unit).result(node), state.result(last)


def _limit(dtype: DType) -> float:
    """The largest number of the dtype in which results of `dtype` are computed."""
    computed_in = DType.F32 if dtype.bits < 32 else dtype
    return float(ml_dtypes.finfo(computed_in.require_np()).max)  # type: ignore[no-untyped-call]


SCANS: Mapping[str, SlotsRule] = {"selective_scan": _selective_scan}
