"""Recipes of ops along rows and of what makes one kernel of several: normalisations, gradients, losses, running
sums, places of extremes, reductions to a shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.ir import (
    DType,
    layer_norm_backward,
    linear,
    log_softmax_backward,
    max_to_backward,
    powi_backward,
    rms_norm_backward,
    rope,
    softmax_backward,
    softmax_cross_entropy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.ir import Shape, Tensor
    from fuel_async.testing.builder import Builder

_EPS = (1e-5, 1e-3, 0.1)


def _twin(b: Builder, tensor: Tensor) -> Tensor:
    """A tensor of the same shape and dtype."""
    found = b.find(lambda t: t.dtype is tensor.dtype and t.shape == tensor.shape)
    return b.fresh(tensor.dtype, tensor.shape) if found is None or b.choices.chance(40) else found


def _affine(b: Builder) -> Tensor:
    return b.floating().affine(b.choices.pick((2, -0.5, 1.25, 0, 1)), b.number())


def _powi(b: Builder) -> Tensor:
    exp = b.choices.pick((2, 3, 5, 1, 0, -1, -2))
    base = b.within(b.floating(), 2)
    return (b.positive(base) if exp < 0 else base).powi(exp)


def _powi_backward(b: Builder) -> Tensor:
    exp = b.choices.pick((2, 3, 5, 1, 0, -1))
    base = b.within(b.floating(), 2)
    base = b.positive(base) if exp < 1 else base
    return powi_backward(base, _twin(b, base), exp)


def _rem(b: Builder) -> Tensor:
    left = b.floating()
    match b.choices.integer(0, 3):
        case 0:
            return b.number() % b.positive(left)
        case 1:
            return left % b.choices.pick((2, 0.5, -1.5, 3))
        case _:
            return left % b.positive(b.partner(left))


def _log_softmax(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    return source.log_softmax(axis=b.choices.integer(-source.ndim, source.ndim - 1))


def _rms_norm(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    weight = b.fresh(source.dtype, source.shape[-1:]) if b.choices.chance(50) else None
    return source.rms_norm(weight, eps=b.choices.pick(_EPS))


def _softmax_backward(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    result = source.softmax() if b.choices.chance(60) else source
    return softmax_backward(result, _twin(b, result))


def _log_softmax_backward(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    result = source.log_softmax() if b.choices.chance(60) else b.within(source, 2)
    return log_softmax_backward(result, _twin(b, result))


def _rms_norm_backward(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    return rms_norm_backward(source, _twin(b, source), eps=b.choices.pick(_EPS))


def _layer_norm_backward(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    return layer_norm_backward(source, _twin(b, source), eps=b.choices.pick(_EPS))


def _cross_entropy(b: Builder) -> Tensor | None:
    scores = b.floating(rank=1)
    rows, vocab = tuple(map(b.size, scores.shape[:-1])), b.size(scores.shape[-1])
    if not vocab:
        return None
    ignored = b.choices.pick((-100, 0, vocab - 1))
    random = np.random.default_rng(b.choices.integer(0, 2**32 - 1))
    targets = np.asarray(random.integers(0, vocab, rows), np.int64)
    if b.choices.chance(40):
        targets = np.where(random.random(rows) < 0.3, ignored, targets)
    leaf = b.leaf(targets, DType.I64, scores.shape[:-1])
    reduction = b.choices.pick(("none", "mean", "sum"))
    return softmax_cross_entropy(scores, leaf, reduction=reduction, ignore_index=ignored)  # type: ignore[arg-type]


def _rope(b: Builder) -> Tensor:
    source = b.find(lambda t: t.dtype.is_float and t.dtype.bits > 8 and t.ndim >= 2 and t.shape[-1] in (2, 4, 6))
    if source is None:
        source = b.fresh(None, (*b.floating(rank=1).shape[-2:], 4))
        source = source if source.ndim > 1 else source.expand_dims(0)
    if not source.dtype.is_float:
        source = source.astype(DType.F32)
    angles = b.fresh(DType.F64, source.shape[-2:])
    return rope(source, *(part.astype(source.dtype) for part in (angles.cos(), angles.sin())))


def _fused_linear(b: Builder) -> Tensor:
    left = b.floating(rank=1)
    width = b.choices.integer(1, 4)
    inner: Shape = (left.shape[-1], width)
    if b.choices.chance(25) and left.ndim >= 3:
        inner = (*(1 for _ in left.shape[:-2]), *inner)
    return linear(left, b.fresh(left.dtype, inner), b.fresh(left.dtype, (width,)))


def _smaller(b: Builder, shape: Shape) -> Shape:
    """A shape that broadcasts to `shape`."""
    dims = [1 if b.choices.chance(50) else dim for dim in shape]
    return tuple(dims[b.choices.integer(0, len(dims)) if b.choices.chance(40) else 0 :])


def _foldable(b: Builder, source: Tensor, target: Shape) -> bool:
    """Whether every element of the target has something to be a maximum of."""
    if 0 in source.shape and 0 not in target:
        return False
    return all(map(b.size, source.shape)) or not all(map(b.size, target))


def _sum_to(b: Builder) -> Tensor:
    source = b.floating()
    return source.sum_to(_smaller(b, source.shape))


def _max_to(b: Builder) -> Tensor | None:
    source = b.floating()
    target = _smaller(b, source.shape)
    return source.max_to(target) if _foldable(b, source, target) else None


def _max_to_backward(b: Builder) -> Tensor | None:
    source = b.floating()
    target = _smaller(b, source.shape)
    if not _foldable(b, source, target):
        return None
    return max_to_backward(source, b.fresh(source.dtype, target))


def _arg_extreme(method: str) -> Callable[[Builder], Tensor | None]:
    def recipe(b: Builder) -> Tensor | None:
        source = b.floating(rank=1)
        axis = None if b.choices.chance(25) else b.choices.integer(-source.ndim, source.ndim - 1)
        folded = source.shape if axis is None else (source.shape[axis],)
        if not all(map(b.size, folded)):
            return None
        found: Tensor = getattr(source, method)(axis, keepdims=b.choices.chance(40))
        return found if np.isfinite(b.estimate(found).error).all() else None  # places that are not determined

    return recipe


def _cumsum(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    return source.cumulative_sum(b.choices.integer(-source.ndim, source.ndim - 1))


FOLDING: Mapping[str, Callable[[Builder], Tensor | None]] = {
    "affine": _affine,
    "powi": _powi,
    "powi_backward": _powi_backward,
    "rem": _rem,
    "log_softmax": _log_softmax,
    "rms_norm": _rms_norm,
    "softmax_backward": _softmax_backward,
    "log_softmax_backward": _log_softmax_backward,
    "rms_norm_backward": _rms_norm_backward,
    "layer_norm_backward": _layer_norm_backward,
    "fused_softmax_cross_entropy": _cross_entropy,
    "rope": _rope,
    "fused_linear": _fused_linear,
    "reduce_sum_to": _sum_to,
    "reduce_max_to": _max_to,
    "reduce_max_to_backward": _max_to_backward,
    "argmax": _arg_extreme("argmax"),
    "argmin": _arg_extreme("argmin"),
    "cumsum": _cumsum,
}
