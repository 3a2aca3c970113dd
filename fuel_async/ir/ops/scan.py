"""Recurrences along a sequence: state-space models."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import DTypeMismatch, ShapeMismatch
from fuel_async.ir.op import OpSpec, TensorType, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Shape


class SelectiveScan(NamedTuple):
    """Whether steps are log(1 + exp(delta)) instead of delta."""

    delta_softplus: bool


def _selective_scan(operands: Sequence[TensorType], attrs: SelectiveScan) -> tuple[tuple[Shape, DType], ...]:
    name = "selective_scan"
    u, delta, a, b, c = operands
    require_float(name, operands)
    if any(operand.dtype is not u.dtype for operand in operands):
        raise DTypeMismatch(name, "operands differ in dtype; cast them with astype()", operands)
    if u.ndim != 3 or a.ndim != 2:
        raise ShapeMismatch(name, "wanted u of [batch, length, channels] and a of [channels, states]", operands)
    batch, length, channels = u.shape
    states = a.shape[1]
    for what, operand, wanted in (
        ("delta", delta, u.shape),
        ("a", a, (channels, states)),
        ("b", b, (batch, length, states)),
        ("c", c, (batch, length, states)),
    ):
        if operand.shape != wanted:
            raise ShapeMismatch(name, f"wanted {what} of shape {show(wanted)}", operands)
    return (u.shape, u.dtype), ((batch, channels, states), u.dtype)


# Of u, delta [batch, length, channels], a [channels, states], b, c [batch, length, states]: with h = 0 before the
# first step, h_t = exp(delta_t · a) · h + delta_t · u_t · b_t for each channel and state, y_t = sum over the states of
# c_t · h_t (Gu and Dao, Mamba, algorithm 2, without its skip connection). Gives y, like u, and the last h.
SELECTIVE_SCAN = OpSpec(
    name="selective_scan",
    arity=5,
    infer=lambda operands, attrs: _selective_scan(operands, attrs)[0],
    outputs=_selective_scan,
    slots=("y", "last_state"),
    kind=OpKind.SelectiveScan,
    attrs=SelectiveScan,
)

SCANS = (SELECTIVE_SCAN,)
