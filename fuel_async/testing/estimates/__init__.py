"""How each op is computed plainly, in float64, with a bound on how far a correct executor may be off.

An `Estimate` is a value, rounded to its dtype, and for each element the largest difference that two executors
may show which both compute every node within a few units in the last place of its dtype. The bound follows
the data through the graph: sums add bounds, products multiply them by the other factor, and a step or a
comparison whose operands lie within their bounds of the jump gets the height of the jump. So tests need no
tolerance of their own, and a graph with discontinuous ops is compared wherever its values are determined.

Nothing here uses the project's kernels. `RULES` holds one rule for each op that is not a leaf.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.ir import BY_NAME, DType
from fuel_async.testing.estimates.bounds import Array, Estimate, Node, Operand, Rule, precision_of
from fuel_async.testing.estimates.destroying import destroying
from fuel_async.testing.estimates.elementwise import ELEMENTWISE
from fuel_async.testing.estimates.folds import FOLDS, MOVES
from fuel_async.testing.estimates.placed import PLACED
from fuel_async.testing.estimates.rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KEEPING: Mapping[str, Rule] = {**ELEMENTWISE, **FOLDS, **MOVES, **PLACED, **ROWS}

RULES: Mapping[str, Rule] = {
    **_KEEPING,
    **{name: rule for name, rule in destroying(_KEEPING).items() if name in BY_NAME},
}


def estimate(name: str, attrs: Any, shape: tuple[int, ...], dtype: DType, operands: Sequence[Estimate]) -> Estimate:
    """Compute one node. `shape` and `attrs` have their symbols bound."""
    computed_in = DType.F32 if dtype.bits < 32 else dtype
    node = Node(attrs, shape, dtype, precision_of(dtype), precision_of(computed_in))
    wide = [Operand(_widen(operand.value), operand.error) for operand in operands]
    with np.errstate(all="ignore"):
        x, e = RULES[name](node, wide)
        x, e = np.asarray(x), np.asarray(e, np.float64)
        if not np.isfinite(e).all():
            inexact = any(bool(operand.error.any()) for operand in operands)
            # Of exact operands NaN and infinity follow without error; of others such results are undetermined.
            special = np.isnan(e) if inexact else np.isnan(e) | ~np.isfinite(_widen(x))
            e = np.where(special, math.inf if inexact else 0.0, e)
        return Estimate(x.astype(dtype.require_np()), np.broadcast_to(e, shape))


def _widen(value: Array) -> Array:
    return value if value.dtype.kind in "iu" else value.astype(np.float64)
