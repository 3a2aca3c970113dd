"""How each dtype is held in registers, and what each primitive becomes.

Floats are held as they are, 64-bit integers in U64, and all else in U32: small integers with their sign extended, the
half types and 8-bit floats as their bits. A truth value is a U8 by dtype; `Truths` keep it as a bool while they can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fuel_async.backends.vulkan.spirv import circular, floats, functions
from fuel_async.backends.vulkan.spirv.code import Code, Reg
from fuel_async.backends.vulkan.spirv.module import BOOL, F32, F64, U8, U16, U32, U64, Ext, Kind, Op
from fuel_async.ir import DType, Prim

#: Elements in storage, by size: floats are loaded and stored as their bits.
STORED: Mapping[int, Kind] = {1: U8, 2: U16, 4: U32, 8: U64}


def held_as(dtype: DType) -> Kind:
    """Return the kind of register of a dtype."""
    return {DType.F32: F32, DType.F64: F64, DType.I64: U64}.get(dtype, U32)


def loaded(element: Reg, dtype: DType) -> Reg:
    """Return the register of an element as it lies in storage."""
    kind = held_as(dtype)
    if kind.is_float:
        return element.as_float()
    if element.kind in (U8, U16):
        element = element.converted(U32, Op.UConvert)
    return _wrapped(element, dtype) if dtype.is_signed_int else element


def stored(value: Reg, dtype: DType) -> Reg:
    """Return what lies in storage for a register."""
    if value.kind.is_float:
        return value.bits()
    target = STORED[dtype.nbytes]
    return value if target in (U32, U64) else value.converted(target, Op.UConvert)


def _wrapped(value: Reg, dtype: DType) -> Reg:
    """An integer within its dtype again, after arithmetic in more bits."""
    missing = value.kind.bits - dtype.bits
    if not missing:
        return value
    return (value << missing).shifted(missing) if dtype.is_signed_int else value & ((1 << dtype.bits) - 1)


# --- primitives ---------------------------------------------------------------------------------------------

#: (operands, their dtype) -> result.
Rule = Callable[[Sequence[Reg], DType], Reg]


def _below(a: Reg, b: Reg, dtype: DType) -> Reg:
    if dtype.is_float:
        return floats.less(a, b)
    return a.below(b) if dtype.is_signed_int else a < b


def _float_or(of_floats: Callable[..., Reg], of_integers: Callable[[Sequence[Reg], DType], Reg]) -> Rule:
    def rule(args: Sequence[Reg], dtype: DType) -> Reg:
        return of_floats(*args) if dtype.is_float else of_integers(args, dtype)

    return rule


def _plain(operator: Callable[[Reg, Reg], Reg]) -> Rule:
    def rule(args: Sequence[Reg], dtype: DType) -> Reg:
        result = operator(args[0], args[1])
        return result if dtype.is_float else _wrapped(result, dtype)

    return rule


def _of(function: Callable[..., Reg]) -> Rule:
    """A function that the module has once."""
    return lambda args, dtype: args[0].code.call(function, *args)


def _integer_abs(args: Sequence[Reg], dtype: DType) -> Reg:
    (x,) = args
    if not dtype.is_signed_int:
        return x
    return x.below(0).pick(_integer_neg(args, dtype), x)


def _integer_neg(args: Sequence[Reg], dtype: DType) -> Reg:
    (x,) = args
    return _wrapped(x.code.constant(x.kind, 0) - x, dtype)


PRIMITIVES: Mapping[Prim, Rule] = {
    Prim.ADD: _plain(lambda a, b: a + b),
    Prim.SUB: _plain(lambda a, b: a - b),
    Prim.MUL: _plain(lambda a, b: a * b),
    Prim.DIV: _of(floats.quotient),
    Prim.REM: _of(floats.remainder),
    Prim.MAX: _float_or(floats.larger, lambda args, dtype: _below(args[0], args[1], dtype).pick(args[1], args[0])),
    Prim.MIN: _float_or(floats.smaller, lambda args, dtype: _below(args[1], args[0], dtype).pick(args[1], args[0])),
    Prim.POW: _of(functions.power),
    Prim.COPYSIGN: lambda args, dtype: floats.with_sign(args[0], args[1]),
    Prim.NEG: _float_or(floats.negated, _integer_neg),
    Prim.ABS: _float_or(floats.absolute, _integer_abs),
    Prim.FLOOR: lambda args, dtype: floats.floored(args[0]),
    Prim.CEIL: lambda args, dtype: floats.ceiled(args[0]),
    Prim.ROUND: lambda args, dtype: args[0].ext(Ext.RoundEven),
    Prim.SQRT: _of(floats.root),
    Prim.EXP: _of(functions.exp),
    Prim.EXP2: _of(functions.exp2),
    Prim.LOG: _of(functions.log),
    Prim.SIN: _of(circular.sin),
    Prim.COS: _of(circular.cos),
    Prim.TANH: _of(functions.tanh),
}

#: Primitives that give a bool.
TRUTHS: Mapping[Prim, Rule] = {
    Prim.EQ: _float_or(floats.equal, lambda args, dtype: args[0].equals(args[1])),
    Prim.NE: lambda args, dtype: ~TRUTHS[Prim.EQ](args, dtype),
    Prim.LT: lambda args, dtype: _below(args[0], args[1], dtype),
    Prim.LE: _float_or(floats.at_most, lambda args, dtype: ~_below(args[1], args[0], dtype)),
    Prim.GT: lambda args, dtype: _below(args[1], args[0], dtype),
    Prim.GE: lambda args, dtype: TRUTHS[Prim.LE](args[::-1], dtype),
}


# --- casts --------------------------------------------------------------------------------------------------


def converted(x: Reg, source: DType, target: DType) -> Reg:
    """Return x, of dtype `source`, in dtype `target`."""
    if source in floats.NARROW:
        x, source = floats.widened(x, floats.NARROW[source]), DType.F32
    if target in floats.NARROW:
        return floats.narrowed(_to_float(x, source, F32, rounded_again=True), floats.NARROW[target])
    if target.is_float:
        return _to_float(x, source, held_as(target))
    return _to_integer(x, source, target)


def _to_float(x: Reg, source: DType, kind: Kind, *, rounded_again: bool = False) -> Reg:
    if source.is_int:
        return x.converted(kind, Op.ConvertSToF if source.is_signed_int else Op.ConvertUToF)
    if x.kind is kind:
        return x
    if kind is F64:
        return floats.to_double(x)
    return floats.to_single_odd(x) if rounded_again else x.converted(F32, Op.FConvert)


def _to_integer(x: Reg, source: DType, target: DType) -> Reg:
    kind = held_as(target)
    if source.is_float:
        whole = x.converted(kind, Op.ConvertFToU if target is DType.U32 else Op.ConvertFToS)
        return _wrapped(whole, target)
    if x.kind is not kind:
        x = x.converted(kind, Op.SConvert if source.is_signed_int else Op.UConvert)
    return _wrapped(x, target)


def as_number(truth: Reg) -> Reg:
    """Return the U8 of a bool."""
    return truth.pick(truth.code.constant(U32, 1), 0)


def as_truth(value: Reg) -> Reg:
    """Return whether a value is not 0."""
    return value if value.kind is BOOL else value.differs(0)


def literal(code: Code, data: bytes, dtype: DType) -> Reg:
    """Return the constant of these bytes of a dtype."""
    kind = held_as(dtype)
    if kind.bits == dtype.bits:
        return Reg(code, code.module.literal(kind, data), kind)
    number = int.from_bytes(data, "little", signed=dtype.is_signed_int)
    return code.constant(kind, number)


def given(*words: Reg, dtype: DType) -> Reg:
    """Return the register of a number that comes in words, the lower first."""
    kind = held_as(dtype)
    value = words[0]
    if kind.bits == 64:
        low, high = (word.converted(U64, Op.UConvert) for word in words)
        value = low | (high << 32)
    return value.as_float() if kind.is_float else value
