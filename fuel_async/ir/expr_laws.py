"""Laws by which a tree of primitives becomes a smaller one with the same values.

Every law keeps each bit of the result, signs of zeros included, but for the sign and payload of a NaN. So there is none
for x · 0, x + 0 or x - x. What reads constants alone is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fuel_async.ir.dtype import DType
from fuel_async.ir.expr import (
    Apply,
    Array,
    Const,
    Expr,
    Input,
    Prim,
    Step,
    apply,
    cast,
    constant,
    evaluate,
    is_lossless,
    steps,
)

#: The operands, themselves simplified, and the result's dtype -> what is the same, or None.
Law: TypeAlias = Callable[[Sequence[Expr], DType], Expr | None]


def simplify(root: Expr) -> Expr:
    """Return a tree of the same values with no more steps. Equal parts become one node. O(nodes)."""
    made, known = list[Expr](), dict[_Key, Expr]()
    for step in steps(root):
        made.append(_simplified(step, [made[arg] for arg in step.args], known))
    return made[-1]


#: Equal for nodes that are the same value, if their operands are the same nodes.
_Key: TypeAlias = tuple[Prim | None, tuple[int | bytes, ...], DType]


def _simplified(step: Step, args: Sequence[Expr], known: dict[_Key, Expr]) -> Expr:
    match step:
        case Step(None, key=int(index)):
            return _one(Input(index, step.dtype), known)
        case Step(None, key=bytes(number)):
            return _one(Const(_number(np.frombuffer(number, step.dtype.require_np())), step.dtype), known)
        case Step(Prim() as op):
            return _reduced(Apply(op, tuple(args), step.dtype), known)
        case _:
            raise AssertionError(step)


def _reduced(node: Apply, known: dict[_Key, Expr]) -> Expr:
    """Apply laws to a node of simplified operands until none holds. Each takes a node away, so that ends."""
    if all(isinstance(arg, Const) for arg in node.args):
        return _one(Const(_number(evaluate(node, ())), node.dtype), known)
    for law in LAWS.get(node.op, ()):
        same = law(node.args, node.dtype)
        if same is not None:
            return _reduced(same, known) if isinstance(same, Apply) else same
    return _one(node, known)


def _one(node: Expr, known: dict[_Key, Expr]) -> Expr:
    """Return the node of this value that there was first."""
    match node:
        case Input(index, dtype):
            key: _Key = (None, (index,), dtype)
        case Const(value, dtype):
            key = (None, (constant(value, dtype).tobytes(),), dtype)
        case Apply(op, args, dtype):
            key = (op, tuple([id(arg) for arg in args]), dtype)
    return known.setdefault(key, node)


def _number(array: Array) -> float:
    """The number of one element: an int for integers, else a float."""
    number: float = array.reshape(()).astype(np.float64).item() if array.dtype.kind not in "iu" else array.item()
    return number


def _is(x: Expr, number: float) -> bool:
    """Whether x is that constant, with that sign if it is zero."""
    return isinstance(x, Const) and constant(x.value, x.dtype).tobytes() == constant(number, x.dtype).tobytes()


def _identity(number: float, *, commutes: bool = False) -> Law:
    """Return the law that x ∘ number is x."""

    def law(args: Sequence[Expr], dtype: DType) -> Expr | None:
        left, right = args
        if _is(right, number):
            return left
        return right if commutes and _is(left, number) else None

    return law


def _operand(x: Expr, *ops: Prim) -> Expr | None:
    """The first operand of what one of these primitives made."""
    return x.args[0] if isinstance(x, Apply) and x.op in ops else None


def _negated_twice(args: Sequence[Expr], dtype: DType) -> Expr | None:
    return _operand(args[0], Prim.NEG)


def _sign_dropped(args: Sequence[Expr], dtype: DType) -> Expr | None:
    """|-x| is |x|, and ||x|| too."""
    x = _operand(args[0], Prim.NEG, Prim.ABS)
    return None if x is None else apply(Prim.ABS, x)


def _even(args: Sequence[Expr], dtype: DType) -> Expr | None:
    """cos(-x) is cos(x)."""
    x = _operand(args[0], Prim.NEG, Prim.ABS)
    return None if x is None else apply(Prim.COS, x)


def _rounded_twice(args: Sequence[Expr], dtype: DType) -> Expr | None:
    return None if _operand(args[0], Prim.FLOOR, Prim.CEIL, Prim.ROUND) is None else args[0]


def _same(args: Sequence[Expr], dtype: DType) -> Expr | None:
    """What is chosen between equals."""
    return args[-1] if args[-1] is args[-2] else None


def _decided(args: Sequence[Expr], dtype: DType) -> Expr | None:
    condition, a, b = args
    return (a if condition.value else b) if isinstance(condition, Const) else None


def _same_dtype(args: Sequence[Expr], dtype: DType) -> Expr | None:
    return args[0] if args[0].dtype is dtype else None


def _by_way_of(args: Sequence[Expr], dtype: DType) -> Expr | None:
    """A cast by way of a dtype that holds every value is the direct cast."""
    source = _operand(args[0], Prim.CAST)
    # A float beyond the range of an integer dtype may become another number there.
    if source is None or (dtype.is_int and source.dtype.is_float) or not is_lossless(source.dtype, args[0].dtype):
        return None
    return cast(source, dtype)


LAWS: Mapping[Prim, tuple[Law, ...]] = {
    Prim.ADD: (_identity(-0.0, commutes=True),),
    Prim.SUB: (_identity(0.0),),
    Prim.MUL: (_identity(1.0, commutes=True),),
    Prim.DIV: (_identity(1.0),),
    Prim.POW: (_identity(1.0),),
    Prim.NEG: (_negated_twice,),
    Prim.ABS: (_sign_dropped,),
    Prim.FLOOR: (_rounded_twice,),
    Prim.CEIL: (_rounded_twice,),
    Prim.ROUND: (_rounded_twice,),
    Prim.MAX: (_same,),
    Prim.MIN: (_same,),
    Prim.SELECT: (_decided, _same),
    Prim.CAST: (_same_dtype, _by_way_of),
    Prim.COS: (_even,),
}
