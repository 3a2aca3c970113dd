"""How each dtype is held, and what each primitive becomes, as expressions of CUDA C.

Everything is held as it lies in memory: integers in their own width, the half types and 8-bit floats as their bits, a
truth value as a U8. Sums and products of floats are written as they stand, and programs are compiled without
contraction; NaN, infinities, signs of zeros and subnormal numbers are kept by the hardware.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

from fuel_async.backends.cuda.printing.functions import BITS_TYPES, hexadecimal, narrowing, widening
from fuel_async.backends.grids.formats import NARROW
from fuel_async.ir import DType, Prim

#: The types in which elements are held and lie.
TYPES: Mapping[DType, str] = {
    DType.F32: "float",
    DType.F64: "double",
    DType.U8: "unsigned char",
    DType.I8: "signed char",
    DType.I16: "short",
    DType.I32: "int",
    DType.U32: "u32",
    DType.I64: "long long",
    **{dtype: BITS_TYPES[dtype.nbytes] for dtype in NARROW},
}

#: Adds the name of a function that the program must have.
Need = Callable[[str], None]
#: (texts of the operands, their dtype, need) -> text of the result, for use in any place.
Rule = Callable[[Sequence[str], DType, Need], str]


def _unsigned(dtype: DType) -> str:
    """The type in which integers wrap."""
    return "u64" if dtype.bits == 64 else "u32"


def _wrapping(operator: str) -> Rule:
    def rule(args: Sequence[str], dtype: DType, need: Need) -> str:
        if dtype.is_float:
            return f"{args[0]} {operator} {args[1]}"
        wide = _unsigned(dtype)
        return f"({TYPES[dtype]})(({wide}){args[0]} {operator} ({wide}){args[1]})"

    return rule


def _library(name: str) -> Rule:
    """A function of the CUDA C library."""

    def rule(args: Sequence[str], dtype: DType, need: Need) -> str:
        return f"{name}{'f' if dtype is DType.F32 else ''}({', '.join(args)})"

    return rule


def _ours(name: str) -> Rule:
    """A function of `functions`."""

    def rule(args: Sequence[str], dtype: DType, need: Need) -> str:
        need(f"{name} {TYPES[dtype]}")
        return f"{name}({', '.join(args)})"

    return rule


def _truth(operator: str) -> Rule:
    return lambda args, dtype, need: f"({TYPES[DType.U8]})({args[0]} {operator} {args[1]})"


def _float_or(of_floats: Rule, of_integers: Rule) -> Rule:
    return lambda args, dtype, need: (of_floats if dtype.is_float else of_integers)(args, dtype, need)


def _negated(args: Sequence[str], dtype: DType, need: Need) -> str:
    return f"-{args[0]}" if dtype.is_float else f"({TYPES[dtype]})(0u - ({_unsigned(dtype)}){args[0]})"


def _integer_absolute(args: Sequence[str], dtype: DType, need: Need) -> str:
    return f"{args[0]} < 0 ? {_negated(args, dtype, need)} : {args[0]}" if dtype.is_signed_int else args[0]


#: One row for each primitive but CAST.
PRIMITIVES: Mapping[Prim, Rule] = {
    Prim.ADD: _wrapping("+"),
    Prim.SUB: _wrapping("-"),
    Prim.MUL: _wrapping("*"),
    Prim.DIV: lambda args, dtype, need: f"{args[0]} / {args[1]}",
    Prim.REM: _ours("remainder_of"),
    Prim.MAX: _float_or(_ours("larger"), lambda args, dtype, need: f"{args[0]} < {args[1]} ? {args[1]} : {args[0]}"),
    Prim.MIN: _float_or(_ours("smaller"), lambda args, dtype, need: f"{args[1]} < {args[0]} ? {args[1]} : {args[0]}"),
    Prim.POW: _library("pow"),
    Prim.COPYSIGN: _library("copysign"),
    Prim.NEG: _negated,
    Prim.ABS: _float_or(_library("fabs"), _integer_absolute),
    Prim.FLOOR: _library("floor"),
    Prim.CEIL: _library("ceil"),
    Prim.ROUND: _library("rint"),
    Prim.SQRT: _library("sqrt"),
    Prim.EXP: _library("exp"),
    Prim.EXP2: _library("exp2"),
    Prim.LOG: _library("log"),
    Prim.SIN: _library("sin"),
    Prim.COS: _library("cos"),
    Prim.TANH: _library("tanh"),
    Prim.EQ: _truth("=="),
    Prim.NE: _truth("!="),
    Prim.LT: _truth("<"),
    Prim.LE: _truth("<="),
    Prim.GT: _truth(">"),
    Prim.GE: _truth(">="),
    Prim.SELECT: lambda args, dtype, need: f"{args[0]} != 0 ? {args[1]} : {args[2]}",
}


# --- casts --------------------------------------------------------------------------------------------------


def converted(x: str, source: DType, target: DType, need: Need) -> str:
    """Return the expression of x, of dtype `source`, in dtype `target`."""
    if source in NARROW:
        need(widening(source))
        x, source = f"{widening(source)}({x})", DType.F32
    if target in NARROW:
        if source is DType.F64:
            need("to_odd")
            x, source = f"to_odd({x})", DType.F32
        need(narrowing(target))
        return f"{narrowing(target)}({_in(x, source, DType.F32)})"
    if target.is_int and source.is_float:
        return _whole(x, source, target)
    return _in(x, source, target)


def _in(x: str, source: DType, target: DType) -> str:
    return x if source is target else f"({TYPES[target]}){x}"


def _whole(x: str, source: DType, target: DType) -> str:
    """A float as an integer: towards 0, as near as 32 or 64 bits come; in fewer bits the lower ones of that."""
    kind = {DType.U32: "uint", DType.I64: "ll"}.get(target, "int")
    return _in(f"__{TYPES[source]}2{kind}_rz({x})", {"int": DType.I32}.get(kind, target), target)


# --- numbers ------------------------------------------------------------------------------------------------


def literal(data: bytes, dtype: DType) -> str:
    """Return the constant of these bytes of a dtype."""
    if dtype in (DType.F32, DType.F64):
        (value,) = struct.unpack("<f" if dtype is DType.F32 else "<d", data)
        if math.isfinite(value):
            return f"{hexadecimal(value)}{'f' if dtype is DType.F32 else ''}"
    number = int.from_bytes(data, "little")
    words = [f"{number >> shift & 0xFFFFFFFF:#x}u" for shift in range(0, max(dtype.bits, 32), 32)]
    return given(words, dtype)


def given(words: Sequence[str], dtype: DType) -> str:
    """Return the expression of a number that comes in words, the lower first."""
    bits = words[0] if len(words) == 1 else f"((u64){words[1]} << 32 | {words[0]})"
    match dtype:
        case DType.F32:
            return f"__uint_as_float({bits})"
        case DType.F64:
            return f"__longlong_as_double((long long){bits})"
        case _:
            return f"({TYPES[dtype]}){bits}"
