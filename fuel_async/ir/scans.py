"""Functions whose ops run along a sequence, carrying a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import GraphError
from fuel_async.ir.ops.scan import SELECTIVE_SCAN, SelectiveScan
from fuel_async.ir.tensor import owned, promoted

if TYPE_CHECKING:
    from fuel_async.ir.tensor import Tensor


class Scanned(NamedTuple):
    """What a scan gives: a result for each step, and the state after the last."""

    y: Tensor
    last_state: Tensor


def selective_scan(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, *, delta_softplus: bool = False
) -> Scanned:
    """Selective state-space scan; returns y of u's shape, and the last state of [batch, channels, states].

    `u` and `delta` are [batch, length, channels], `a` is [channels, states], `b` and `c` are [batch, length, states];
    mixed dtypes are cast. From h = 0 on, each step does h = exp(delta · a) · h + delta · u · b and gives the sum of
    c · h over the states. With `delta_softplus` steps are log(1 + exp(delta)). Both outputs come from one kernel.
    """
    name = SELECTIVE_SCAN.name
    operands = promoted(name, *owned(name, u, delta, a, b, c))
    if not isinstance(delta_softplus, bool):
        raise GraphError(name, f"wanted delta_softplus as a bool, got {delta_softplus!r}", [t.type for t in operands])
    made = operands[0].graph.bundle(SELECTIVE_SCAN, operands, SelectiveScan(delta_softplus))
    return Scanned(*made.slots())
