"""How each op is computed plainly, in float64, with a bound on how far a correct executor may be off.

An `Estimate` is a value, rounded to its dtype, and for each element the largest difference that two executors
may show which both compute every node within a few units in the last place of its dtype. The bound follows
the data through the graph: sums add bounds, products multiply them by the other factor, and a step or a
comparison whose operands lie within their bounds of the jump gets the height of the jump. So tests need no
tolerance of their own, and a graph with discontinuous ops is compared wherever its values are determined.

Nothing here uses the project's kernels. `RULES` holds one rule for each op with one output that is not a leaf,
`RULES_OF_SEVERAL` those of the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.ir import BY_NAME, DType
from fuel_async.testing.estimates.bounds import (
    Array,
    Estimate,
    Node,
    Operand,
    Result,
    Rule,
    SlotsRule,
    precision_of,
)
from fuel_async.testing.estimates.destroying import destroying
from fuel_async.testing.estimates.elementwise import ELEMENTWISE
from fuel_async.testing.estimates.folds import FOLDS, MOVES
from fuel_async.testing.estimates.placed import PLACED
from fuel_async.testing.estimates.rows import ROWS
from fuel_async.testing.estimates.scans import SCANS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KEEPING: Mapping[str, Rule] = {**ELEMENTWISE, **FOLDS, **MOVES, **PLACED, **ROWS}

RULES: Mapping[str, Rule] = {
    **_KEEPING,
    **{name: rule for name, rule in destroying(_KEEPING).items() if name in BY_NAME},
    # Their operand is the slot that they take.
    "view_slot": lambda node, args: args[0],
    "view_owned": lambda node, args: args[0],
}

RULES_OF_SEVERAL: Mapping[str, SlotsRule] = SCANS


def estimate(name: str, attrs: Any, shape: tuple[int, ...], dtype: DType, operands: Sequence[Estimate]) -> Estimate:
    """Compute one node with one output. `shape` and `attrs` have their symbols bound."""
    with np.errstate(all="ignore"):
        result = RULES[name](_node(attrs, shape, dtype), _wide(operands))
        return _estimate(result, shape, dtype, operands)


def estimate_slots(
    name: str, attrs: Any, slots: Sequence[tuple[tuple[int, ...], DType]], operands: Sequence[Estimate]
) -> tuple[Estimate, ...]:
    """Compute one node with several outputs of the given shapes and dtypes, bound likewise."""
    with np.errstate(all="ignore"):
        nodes = [_node(attrs, shape, dtype) for shape, dtype in slots]
        results = RULES_OF_SEVERAL[name](nodes, _wide(operands))
        return tuple(
            [_estimate(result, *slot, operands) for result, slot in zip(results, slots, strict=True)],
        )


def _node(attrs: Any, shape: tuple[int, ...], dtype: DType) -> Node:
    computed_in = DType.F32 if dtype.bits < 32 else dtype
    return Node(attrs, shape, dtype, precision_of(dtype), precision_of(computed_in))


def _wide(operands: Sequence[Estimate]) -> list[Operand]:
    return [Operand(_widen(operand.value), operand.error) for operand in operands]


def _estimate(result: Result, shape: tuple[int, ...], dtype: DType, operands: Sequence[Estimate]) -> Estimate:
    """What a rule gave, in the output's dtype, its bound made to mean something everywhere."""
    x, e = np.asarray(result[0]), np.asarray(result[1], np.float64)
    if not np.isfinite(e).all():
        inexact = any(bool(operand.error.any()) for operand in operands)
        # Of exact operands NaN and infinity follow without error; of others such results are undetermined.
        special = np.isnan(e) if inexact else np.isnan(e) | ~np.isfinite(_widen(x))
        e = np.where(special, math.inf if inexact else 0.0, e)
    return Estimate(x.astype(dtype.require_np()), np.broadcast_to(e, shape))


def _widen(value: Array) -> Array:
    return value if value.dtype.kind in "iu" else value.astype(np.float64)
