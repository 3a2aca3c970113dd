"""Estimates of ops that may write over their operand: they give new values, as if they never did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.testing.estimates.bounds import Array, Node, Operand, Result, Rule

#: The ops whose names do not end in `_inplace`, by the op that they repeat.
_OTHERS = {"affine": "inplace_affine", "copy": "move"}


def destroying(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the rules of the ops that do in place what those of `rules` do, and of writes and releases."""
    again = {_OTHERS.get(name, f"{name}_inplace"): rule for name, rule in rules.items()}
    return {**again, **_WRITES, "release": lambda node, args: (np.zeros(0, args[0].x.dtype), np.zeros(0))}


def _indices(node: Node, args: Sequence[Operand]) -> list[Array]:
    """Along each axis, the places that are written."""
    return [start + np.arange(length) for start, length in zip(node.attrs.starts, args[1].x.shape, strict=True)]


def _moving(f: Callable[[Node, Array, int], Array]) -> Callable[[Node, Sequence[Operand]], list[Array]]:
    def indices(node: Node, args: Sequence[Operand]) -> list[Array]:
        places = _indices(node, args)
        axis = node.attrs.axis
        places[axis] = f(node, places[axis], int(args[2].x))
        return places

    return indices


def _write(indices: Callable[[Node, Sequence[Operand]], list[Array]]) -> Rule:
    def rule(node: Node, args: Sequence[Operand]) -> Result:
        x, e = args[0].x.copy(), args[0].e.copy()
        where = np.ix_(*indices(node, args)) if x.ndim else ()
        x[where], e[where] = args[1].x, args[1].e
        return x, e

    return rule


_WRITES: Mapping[str, Rule] = {
    "write_slice": _write(_indices),
    "write_slice_doff": _write(_moving(lambda node, places, offset: places + offset)),
    "write_slice_rotating": _write(_moving(lambda node, places, start: (places + start) % node.attrs.modulus)),
}
