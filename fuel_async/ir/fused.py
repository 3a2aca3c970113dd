"""Functions whose ops do in one kernel what would take several: linear layers, rotary embedding, the loss of
scores.
"""

from __future__ import annotations

from typing import Literal

from fuel_async.errors import GraphError
from fuel_async.ir import products
from fuel_async.ir.ops.normalise import CROSS_ENTROPY, REDUCTION_NAMES, CrossEntropy
from fuel_async.ir.ops.rope import ROPE
from fuel_async.ir.shape import integer
from fuel_async.ir.tensor import Tensor, owned, promoted


def linear(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Product value @ weight, plus a bias of one dimension; mixed dtypes are cast, batches are those of `@`."""
    return products.linear(*promoted("fused_linear", *owned("fused_linear", value, weight, bias)))


def rope(value: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of [.., positions, d] by cosines and sines of [positions, d].

    Elements j and j + d/2 of a head are turned together: value · cos + [-second half, first half] · sin. Mixed
    dtypes are cast.
    """
    operands = promoted("rope", *owned("rope", value, cos, sin))
    return operands[0].graph.node(ROPE, operands)


def softmax_cross_entropy(
    scores: Tensor,
    targets: Tensor,
    *,
    reduction: Literal["mean", "sum", "none"] = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """f32 loss -log(softmax(scores))[target] of scores [.., vocab] and i64 targets [..].

    The mean is over the rows whose target is not `ignore_index`; without a reduction those rows get 0. A target
    outside the row fails the run.
    """
    name = CROSS_ENTROPY.name
    operands = owned(name, scores, targets)
    if reduction not in REDUCTION_NAMES:
        reason = f"reduction is {reduction!r}, wanted one of {REDUCTION_NAMES}"
        raise GraphError(name, reason, [operand.type for operand in operands])
    attrs = CrossEntropy(REDUCTION_NAMES.index(reduction), integer(name, "ignore_index", ignore_index))
    return operands[0].graph.node(CROSS_ENTROPY, operands, attrs)
