"""Estimates of elementwise ops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.testing.estimates.bounds import Array, Node, Operand, Result, Rule, between, rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.ir import DType


def _exact(f: Callable[[Array], Array]) -> Rule:
    """A monotone op without rounding of its own, jumps included."""
    return lambda node, args: between(f, *args[0])


def _monotone(f: Callable[[Array], Array], ulps: float, *, positive: bool = False) -> Rule:
    """With `positive`, an operand that may be 0 or less leaves the result undetermined."""

    def rule(node: Node, args: Sequence[Operand]) -> Result:
        (x, e) = args[0]
        y, moved = between(f, x, e)
        if positive:
            moved = np.where((e > 0) & (x - e <= 0), math.inf, moved)
        return rounded(node, ulps, y, moved)

    return rule


def _smooth(f: Callable[[Array], Array], slope: float, ulps: float) -> Rule:
    """An op that nowhere rises or falls faster than `slope`."""
    return lambda node, args: rounded(node, ulps, f(args[0].x), args[0].e * slope)


def _gelu(f: Callable[[Array], Array]) -> Rule:
    """Left of 0 the result is a small difference of numbers near 1: exact to units of the operand."""

    def rule(node: Node, args: Sequence[Operand]) -> Result:
        x, e = args[0]
        return rounded(node, 16, f(x), 1.13 * e + 16 * node.long.unit * np.abs(x))

    return rule


def _square(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    return rounded(node, 1, x * x, e * (2 * np.abs(x) + e))


def _reciprocal(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    y, moved = between(lambda v: 1.0 / v, x, e)
    return rounded(node, 2, y, np.where((e > 0) & (np.abs(x) <= e), math.inf, moved))


_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """Gauss error function, elementwise, in float64."""
    return np.asarray(_erf(x), np.float64)


def gelu_tanh(x: Array) -> Array:
    """0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


_UNARY: Mapping[str, Rule] = {
    "neg": _exact(np.negative),
    "abs": lambda node, args: (np.abs(args[0].x), args[0].e),
    "relu": _exact(lambda x: np.maximum(x, 0)),
    "step": _exact(lambda x: (x > 0).astype(x.dtype)),
    "sign": _exact(np.sign),
    "floor": _exact(np.floor),
    "ceil": _exact(np.ceil),
    "round": _exact(np.rint),
    "sqr": _square,
    "sqrt": _monotone(np.sqrt, 1, positive=True),
    "rsqrt": _monotone(lambda x: 1.0 / np.sqrt(x), 4, positive=True),
    "recip": _reciprocal,
    "exp": _monotone(np.exp, 16),
    "log": _monotone(np.log, 16, positive=True),
    "sin": _smooth(np.sin, 1.0, 16),
    "cos": _smooth(np.cos, 1.0, 16),
    "tanh": _smooth(np.tanh, 1.0, 16),
    "sigmoid": _smooth(sigmoid, 0.25, 16),
    "silu": _smooth(lambda x: x * sigmoid(x), 1.1, 16),
    "erf": _smooth(erf, 1.13, 16),
    "gelu": _gelu(gelu_tanh),
    "gelu_erf": _gelu(lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
}


def _add(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    return rounded(node, 1, a + b, ea + eb)


def _sub(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    return rounded(node, 1, a - b, ea + eb)


def _mul(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    return rounded(node, 1, a * b, np.abs(a) * eb + np.abs(b) * ea + ea * eb)


def _div(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    y, least = a / b, np.abs(b) - eb
    moved = np.where(least > 0, (ea + np.abs(y) * eb) / least, np.where((ea > 0) | (eb > 0), math.inf, 0.0))
    return rounded(node, 2, y, moved)


def _pow(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    y = np.power(a, b)
    corners = [np.abs(np.power(a + i * ea, b + j * eb) - y) for i in (-1, 1) for j in (-1, 1)]
    moved = np.where((ea > 0) & (a - ea <= 0), math.inf, np.maximum.reduce(corners))
    # The square root of -inf is NaN, its power of a half is inf (C23, F.10.4.4): numpy gives the one or the other.
    torn = np.isneginf(a) & (b == 0.5)
    return rounded(
        node, 32, np.where(torn, 0.0, y), np.where(torn, math.inf, np.where((ea == 0) & (eb == 0), 0.0, moved))
    )


def _pick(f: Callable[[Array, Array], Array]) -> Rule:
    """Maximum or minimum of two."""
    return lambda node, args: (f(args[0].x, args[1].x), np.maximum(args[0].e, args[1].e))


def _compare(f: Callable[[Array, Array], Array]) -> Rule:
    def rule(node: Node, args: Sequence[Operand]) -> Result:
        (a, ea), (b, eb) = args
        reach = ea + eb
        return f(a, b), np.where((reach > 0) & (np.abs(a - b) <= reach), 1.0, 0.0)

    return rule


def _where(node: Node, args: Sequence[Operand]) -> Result:
    (condition, ec), (a, ea), (b, eb) = args
    chosen = np.where(condition != 0, ea, eb)
    return np.where(condition != 0, a, b), np.where(ec > 0, np.abs(a - b) + np.maximum(ea, eb), chosen)


def _clamp(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    low, high = (_as_stored(bound, node.dtype) for bound in (node.attrs.low, node.attrs.high))
    return rounded(node, 0, *between(lambda v: np.minimum(np.maximum(v, low), high), x, e))


def _as_stored(number: float, dtype: DType) -> float:
    return float(np.asarray(number).astype(dtype.require_np()))


def _cast(node: Node, args: Sequence[Operand]) -> Result:
    (x, e), kind = args[0], node.dtype.require_np()
    if node.dtype.is_float:
        y = x.astype(kind).astype(np.float64)
        return x, e + np.where((e > 0) | (y != x), node.own.unit * (np.abs(x) + e) + np.abs(y - x), 0.0)
    if x.dtype.kind in "iu":
        return x.astype(kind), e
    limits = np.iinfo(kind)
    y, moved = between(np.trunc, x, e)
    inside = (np.trunc(x - e) >= limits.min) & (np.trunc(x + e) <= limits.max)
    return np.where(inside, y, 0).astype(kind), np.where(inside, moved, math.inf)


ELEMENTWISE: Mapping[str, Rule] = {
    **_UNARY,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "maximum": _pick(np.maximum),
    "minimum": _pick(np.minimum),
    "eq": _compare(np.equal),
    "ne": _compare(np.not_equal),
    "lt": _compare(np.less),
    "le": _compare(np.less_equal),
    "gt": _compare(np.greater),
    "ge": _compare(np.greater_equal),
    "where": _where,
    "clamp": _clamp,
    "cast": _cast,
}
