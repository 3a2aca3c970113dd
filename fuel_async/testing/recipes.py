"""How a node of each op is added to a random graph: `RECIPES` has one entry for each op of the table.

A recipe returns the new tensor, or None where nothing fits. It may add other nodes on the way, to keep
operands inside the op's domain and results of a moderate size.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fuel_async.ir import BY_NAME, DType, Symbolic, concat, maximum, minimum, where
from fuel_async.testing.builder import ARITHMETIC, CASTABLE, MOVABLE, broadcasts
from fuel_async.testing.destroying import DESTROYING
from fuel_async.testing.folding import FOLDING
from fuel_async.testing.placing import PLACING
from fuel_async.testing.scanning import SCANNING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import EllipsisType

    from fuel_async.ir import Dim, Tensor
    from fuel_async.testing.builder import Builder

    Recipe: TypeAlias = Callable[[Builder], Tensor | None]
    Index: TypeAlias = int | slice | EllipsisType | None
    Combine: TypeAlias = Callable[..., Tensor]


# --- elementwise --------------------------------------------------------------------------------------------


def _unary(method: str) -> Recipe:
    return lambda b: getattr(b.floating(), method)()


def _by_node(name: str, dtypes: tuple[DType, ...]) -> Recipe:
    def recipe(b: Builder) -> Tensor:
        return b.graph.node(BY_NAME[name], (b.any(dtypes),))

    return recipe


def _of_positive(method: str) -> Recipe:
    return lambda b: getattr(b.positive(b.floating()), method)()


def _binary(combine: Combine) -> Recipe:
    def recipe(b: Builder) -> Tensor:
        left = b.floating()
        right = b.operand(left)
        return combine(right, left) if b.choices.chance(30) else combine(left, right)

    return recipe


def _div(b: Builder) -> Tensor:
    left = b.floating()
    right = b.positive(b.partner(left))
    match b.choices.integer(0, 3):
        case 0:
            return b.number() / b.positive(left)
        case 1:
            return left / b.choices.pick((2, 0.5, -4.0, 3))
        case _:
            return left / right


def _pow(b: Builder) -> Tensor:
    base = b.positive(b.within(b.floating(), 4))
    if b.choices.chance(50):
        return base ** b.choices.pick((2, 0.5, -1.0, 3))
    return base ** b.within(b.partner(base), 2)


def _where(b: Builder) -> Tensor:
    left = b.floating()
    condition = b.find(lambda t: t.dtype is DType.U8 and broadcasts(t.shape, left.shape))
    if condition is None:
        condition = b.fresh(DType.U8, left.shape) if b.choices.chance(50) else left > b.operand(left)
    if not broadcasts(condition.shape, left.shape):
        return where(condition, left, b.number())
    right = b.operand(left)
    if not isinstance(right, (int, float)) and not broadcasts(right.shape, condition.shape):
        right = b.number()
    return where(condition, right, left) if b.choices.chance(50) else where(condition, left, right)


def _clamp(b: Builder) -> Tensor:
    low, high = b.choices.pick(((-1, 1), (0, None), (None, 0.5), (-0.25, 2), (None, None), (0.5, 0.5)))
    return b.floating().clip(low, high)


def _cast(b: Builder) -> Tensor | None:
    source = b.any()
    target = b.choices.pick([dtype for dtype in CASTABLE if dtype is not source.dtype])
    if target.is_float:
        return source.astype(target)
    limits = np.iinfo(target.require_np())
    if source.dtype.is_float:
        # A truncated float must lie inside of the integers' range; nothing else is defined.
        if source.dtype not in ARITHMETIC:
            return None
        return source.clip(-100 if limits.min < 0 else 0, 100).astype(target)
    value = b.estimate(source).value
    inside = int(value.min(initial=0)) >= limits.min and int(value.max(initial=0)) <= limits.max
    return source.astype(target) if inside else None


# --- folds and products -------------------------------------------------------------------------------------


def _fold(method: str) -> Recipe:
    def recipe(b: Builder) -> Tensor | None:
        source = b.floating()
        axes = [axis for axis in range(source.ndim) if b.choices.chance(50)]
        if method != "sum" and any(b.size(source.shape[axis]) == 0 for axis in axes or range(source.ndim)):
            return None
        fold = getattr(source, method)
        axis = None if not axes else axes[0] if len(axes) == 1 else tuple(axes)
        return fold(axis, keepdims=b.choices.chance(40))  # type: ignore[no-any-return]

    return recipe


def _softmax(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    return source.softmax(axis=b.choices.integer(-source.ndim, source.ndim - 1))


def _layer_norm(b: Builder) -> Tensor:
    source = b.floating(rank=1)
    weight, bias = (b.fresh(source.dtype, source.shape[-1:]) if b.choices.chance(50) else None for _ in range(2))
    return source.layer_norm(weight, bias, eps=b.choices.pick((1e-5, 1e-3, 0.1)))


def _matmul(b: Builder) -> Tensor:
    left = b.any((DType.I8, DType.U8), rank=1) if b.choices.chance(15) else b.floating(rank=1)
    inner = left.shape[-1]
    match b.choices.integer(0, 4):
        case 0 if left.ndim >= 2:
            return left @ left.mT
        case 1:
            return left @ b.fresh(left.dtype, (inner,))
        case 2 if left.ndim >= 3 and isinstance(left.shape[-3], int) and left.shape[-3] in (2, 4):
            return left @ b.fresh(left.dtype, (left.shape[-3] // 2, inner, 3))  # two batches share one
        case 3:
            return left @ b.fresh(left.dtype, (*(1 for _ in left.shape[:-2]), inner, 2))
        case _:
            return left @ b.fresh(left.dtype, (inner, b.choices.integer(1, 4)))


# --- movement -----------------------------------------------------------------------------------------------


def _permute(b: Builder) -> Tensor:
    source = b.any(rank=1)
    axes = list(range(source.ndim))
    for place in range(source.ndim - 1):
        other = b.choices.integer(place, source.ndim - 1)
        axes[place], axes[other] = axes[other], axes[place]
    return source.permute_dims(axes)


def _slice(b: Builder) -> Tensor:
    source = b.any(rank=1)
    index: list[Index] = [_cut(b, dim) for dim in source.shape]
    if b.choices.chance(20):
        index.insert(b.choices.integer(0, len(index)), None)
    if b.choices.chance(20):
        index = [..., *index[-1:]]
    return source[tuple(index)]


def _cut(b: Builder, dim: Dim) -> Index:
    size = b.size(dim)
    if isinstance(dim, Symbolic):
        options: list[Index] = [slice(None), slice(0, None)]
        if size:
            options += [slice(1, None), slice(None, -1), slice(-1, None), slice(0, 1), 0, -1]
        return b.choices.pick(options)
    if size and b.choices.chance(25):
        return b.choices.integer(-size, size - 1)
    if b.batch is not None and b.batch_named and b.size(b.batch) <= size and b.choices.chance(30):
        return slice(None, b.batch)
    bounds = (None, 0, 1, 2, -1, -2, size)
    return slice(b.choices.pick(bounds), b.choices.pick(bounds), b.choices.pick((None, 1, 2, -1, -2)))


def _broadcast(b: Builder) -> Tensor:
    source = b.any()
    dims = [b.choices.integer(1, 3) if dim == 1 else dim for dim in source.shape]
    if len(dims) < 4:
        dims = [*(b.choices.integer(1, 3) for _ in range(b.choices.integer(0, 2))), *dims]
    return source.broadcast_to(dims)


def _expand_dims(b: Builder) -> Tensor:
    source = b.any()
    return source.expand_dims(b.choices.integer(-source.ndim - 1, source.ndim))


def _squeeze(b: Builder) -> Tensor:
    source = b.any()
    ones = [axis for axis, dim in enumerate(source.shape) if dim == 1]
    return source.squeeze(ones) if ones else source.expand_dims((0, -1)).squeeze(-1)


def _flip(b: Builder) -> Tensor:
    source = b.any(rank=1)
    return source.flip(b.choices.pick((None, *range(source.ndim))))


def _reshape(b: Builder) -> Tensor:
    source = b.any()
    dims = list(source.shape)
    match b.choices.integer(0, 3):
        case 0 if len(dims) >= 2:
            place = b.choices.integer(0, len(dims) - 2)
            return source.reshape([*dims[:place], dims[place] * dims[place + 1], *dims[place + 2 :]])
        case 1 if any(dim == 4 for dim in dims):
            place = dims.index(4)
            return source.reshape([*dims[:place], 2, 2, *dims[place + 1 :]])
        case 2:
            return source.reshape([1, *dims, 1])
        case _:
            return source.reshape((-1,)) if 0 not in dims else source.reshape((0,))


def _concat(b: Builder) -> Tensor:
    source = b.any(MOVABLE, rank=1)
    axis = b.choices.integer(0, source.ndim - 1)
    parts = [source]
    for _ in range(b.choices.integer(0, 2)):
        found = b.find(lambda t: t.dtype is source.dtype and _joins(t, source, axis))
        parts.append(source.flip(axis) if found is None else found)
    return concat(parts, axis=axis - source.ndim if b.choices.chance(30) else axis)


def _joins(a: Tensor, b: Tensor, axis: int) -> bool:
    """Whether two shapes differ along `axis` at most."""
    return a.ndim == b.ndim and all(a.shape[i] == b.shape[i] for i in range(a.ndim) if i != axis)


def _index_select(b: Builder) -> Tensor:
    source = b.any(MOVABLE, rank=1)
    axis = b.choices.integer(0, source.ndim - 1)
    size = b.size(source.shape[axis])
    picks = [b.choices.integer(0, size - 1) for _ in range(b.choices.integer(0, 4) if size else 0)]
    index = b.leaf(np.array(picks, np.uint32), DType.U32, (len(picks),))
    return source.take(index, axis=axis)


RECIPES: Mapping[str, Recipe] = {
    "input": lambda b: b.fresh(),
    "constant": lambda b: b.fresh(b.choices.pick(MOVABLE), tuple(map(b.size, b.draw_shape()))),
    "add": _binary(operator.add),
    "sub": _binary(operator.sub),
    "mul": _binary(operator.mul),
    "div": _div,
    "pow": _pow,
    "maximum": _binary(maximum),
    "minimum": _binary(minimum),
    **{name: _binary(getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _unary(name) for name in ("relu", "floor", "ceil", "round", "sign")},
    **{name: _unary(name) for name in ("sin", "cos", "tanh", "erf", "sigmoid", "silu")},
    "sqr": _unary("square"),
    "neg": lambda b: -b.floating(),
    "abs": lambda b: abs(b.floating()),
    "gelu": lambda b: b.floating().gelu("tanh"),
    "gelu_erf": lambda b: b.floating().gelu(),
    "exp": lambda b: b.within(b.floating(), 3).exp(),
    "log": _of_positive("log"),
    "sqrt": _of_positive("sqrt"),
    "rsqrt": _of_positive("rsqrt"),
    "recip": _of_positive("reciprocal"),
    "step": _by_node("step", ARITHMETIC),
    "where": _where,
    "clamp": _clamp,
    "cast": _cast,
    **{name: _fold(name) for name in ("sum", "mean", "max", "min")},
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "permute": _permute,
    "slice": _slice,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "flip": _flip,
    "reshape": _reshape,
    "contiguize": lambda b: b.any().contiguous(),
    "copy": _by_node("copy", MOVABLE),
    "concat": _concat,
    "index_select": _index_select,
    **PLACING,
    **FOLDING,
    **DESTROYING,
    **SCANNING,
}
