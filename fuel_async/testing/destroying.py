"""Recipes of ops that may write over their operand. What they are given stays in the pool, so that others read it, too:
before, after, and depending on the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.ir import BY_NAME, DType, Form, Symbolic
from fuel_async.testing.builder import ARITHMETIC, CASTABLE, MOVABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.ir import Tensor
    from fuel_async.testing.builder import Builder


def made(b: Builder, dtypes: Sequence[DType], rank: int = 0) -> Tensor:
    """Return a tensor of one of `dtypes`, most often one whose bytes are the graph's own: none that is fed or held."""
    own = b.find(lambda t: t.dtype in dtypes and t.ndim >= rank and b.graph.node_at(t.index).op.form is not Form.LEAF)
    return b.any(dtypes, rank) if own is None or b.choices.chance(10) else own


def _over(method: str) -> Callable[[Builder], Tensor]:
    return lambda b: getattr(made(b, ARITHMETIC), f"{method}_inplace")()


def _over_positive(method: str) -> Callable[[Builder], Tensor]:
    return lambda b: getattr(b.positive(made(b, ARITHMETIC)), f"{method}_inplace")()


def _clamp(b: Builder) -> Tensor:
    low, high = b.choices.pick(((-1, 1), (0, None), (None, 0.5), (-0.25, 2)))
    return made(b, ARITHMETIC).clip_inplace(low, high)


def _powi(b: Builder) -> Tensor:
    base, exp = b.within(made(b, ARITHMETIC), 2), b.choices.pick((0, 1, 2, 3, -1, -2))
    return (b.positive(base) if exp < 0 else base).powi_inplace(exp)


def _affine(b: Builder) -> Tensor:
    return made(b, ARITHMETIC).affine_inplace(b.choices.pick((2, -0.5, 1.25, 0, 1)), b.number())


def _part(b: Builder, dest: Tensor, starts: Sequence[int], lengths: Sequence[int | None]) -> Tensor:
    """What is written into `dest`: new values, or a part of `dest` itself. None stands for a whole symbolic axis."""
    if b.choices.chance(40) or None in lengths:
        cuts = [
            slice(None) if length is None else slice(start, start + length)
            for start, length in zip(starts, lengths, strict=True)
        ]
        part = dest[(*cuts, ...)]
        return part.flip() if part.ndim and b.choices.chance(60) else part
    return b.fresh(dest.dtype, tuple([length or 0 for length in lengths]))


def _window(b: Builder, dest: Tensor) -> tuple[list[int], list[int | None]]:
    """A first place and a length along each axis."""
    starts: list[int] = []
    lengths: list[int | None] = []
    for dim in dest.shape:
        if isinstance(dim, Symbolic):
            starts.append(0)
            lengths.append(None)
        else:
            starts.append(b.choices.integer(0, max(dim - 1, 0)))
            lengths.append(b.choices.integer(min(1, dim - starts[-1]), dim - starts[-1]))
    return starts, lengths


def _write_slice(b: Builder) -> Tensor:
    dest = made(b, MOVABLE)
    if b.choices.chance(15):
        return dest.zero_fill()
    starts, lengths = _window(b, dest)
    return dest.write_slice(_part(b, dest, starts, lengths), starts)


def _write_slice_doff(b: Builder) -> Tensor:
    dest = made(b, MOVABLE, rank=1)
    axis = b.choices.integer(0, dest.ndim - 1)
    starts, lengths = _window(b, dest)
    source = _part(b, dest, [0] * len(starts), lengths)
    return dest.write_slice_at(source, b.leaf(np.array(starts[axis]), DType.I64, ()), axis=axis)


def _write_slice_rotating(b: Builder) -> Tensor | None:
    dest = made(b, MOVABLE, rank=1)
    axes = [axis for axis, dim in enumerate(dest.shape) if isinstance(dim, int) and dim]
    if not axes:
        return None
    axis = b.choices.pick(axes)
    starts, lengths = _window(b, dest)
    source = _part(b, dest, [0] * len(starts), lengths)
    least, most = lengths[axis] or 1, b.size(dest.shape[axis])
    position = b.leaf(np.array(b.choices.integer(0, 12), np.uint32), DType.U32, ())
    return dest.write_slice_rotating(source, position, axis=axis, modulus=b.choices.integer(least, most))


def _move(b: Builder) -> Tensor:
    return b.graph.node(BY_NAME["move"], (made(b, MOVABLE),))


DESTROYING: Mapping[str, Callable[[Builder], Tensor | None]] = {
    **{
        f"{name}_inplace": _over(name)
        for name in ("relu", "silu", "tanh", "sigmoid", "neg", "abs", "sin", "cos", "sign", "floor", "ceil", "round")
    },
    "erf_inplace": _over("erf"),
    "sqr_inplace": _over("square"),
    "gelu_inplace": lambda b: made(b, ARITHMETIC).gelu_inplace("tanh"),
    "gelu_erf_inplace": _over("gelu"),
    "exp_inplace": lambda b: b.within(made(b, ARITHMETIC), 3).exp_inplace(),
    "log_inplace": _over_positive("log"),
    "sqrt_inplace": _over_positive("sqrt"),
    "rsqrt_inplace": _over_positive("rsqrt"),
    "recip_inplace": _over_positive("reciprocal"),
    "clamp_inplace": _clamp,
    "powi_inplace": _powi,
    "inplace_affine": _affine,
    "write_slice": _write_slice,
    "write_slice_doff": _write_slice_doff,
    "write_slice_rotating": _write_slice_rotating,
    "move": _move,
    "release": lambda b: made(b, CASTABLE).release(),
}
