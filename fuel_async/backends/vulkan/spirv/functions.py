"""Exponentials, logarithms and powers of float32 and float64.

Vulkan promises little of the built-in ones, an error of 2^-21 for log near 1, of 2^-11 for sin, and for float64 there
are none. These are made of sums, products and integers, so that they are equally exact on every device: within 2 units
in the last place (powers: 4, of float64 16), tested against wider arithmetic. Nothing is fitted: the coefficients are
those of Taylor series, or of the continued fraction of tanh, taken so far that what is left out does not count. NaN and
infinities come out as in numpy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fuel_async.backends.vulkan.spirv.floats import (
    WIDE,
    absolute,
    equal,
    floored,
    is_nan,
    magnitude,
    nan,
    negated,
    number,
    with_sign,
)
from fuel_async.backends.vulkan.spirv.module import F32, F64, Ext, Kind, Op

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends.vulkan.spirv.code import Reg

_LN2, _LOG2E_TWICE = math.log(2.0), 2.0 / math.log(2.0)


def _tanh_parts(depth: int) -> tuple[Sequence[float], Sequence[float]]:
    """(p, q) with tanh x = x·q(x²) / p(x²): the continued fraction x / (1 + x²/(3 + x²/(5 + …))) cut at `depth`."""
    p, q = [2 * depth - 1], [1]
    for k in range(depth - 1, 0, -1):
        shifted = [0, *q, *[0] * (len(p) - len(q))]
        p, q = [(2 * k - 1) * a + b for a, b in zip([*p, 0], shifted, strict=True)], p
    while not p[-1]:
        p.pop()
    return p, q


class _Made(NamedTuple):
    """What the functions of one kind of float are made of."""

    #: ln 2 with so few bits that its whole multiples are exact, and what is left; 2/ln 2 likewise.
    ln2: tuple[float, float]
    log2e_twice: tuple[float, float]
    #: Coefficients of e^r and 2^r, for r up to half of ln 2 and of 1.
    exp: Sequence[float]
    exp2: Sequence[float]
    #: Of (atanh(s)/s - 1)/s² in powers of s², for |s| ≤ 0.1716.
    atanh: Sequence[float]
    tanh: tuple[Sequence[float], Sequence[float]]
    #: Beyond these, results are 0 or infinite: of e^x, 2^x, and of the power of two of a power.
    exp_range: tuple[float, float]
    exp2_range: tuple[float, float]
    power_range: float
    #: An exponent so large that a power of any number but 1 is beyond that.
    largest: float
    #: The bits of √½, and those of the upper half of a fraction.
    root_half: int
    upper: int


_SINGLE_LN2 = math.floor(_LN2 * 2**15) / 2**15
_SINGLE_LOG2E = float(np.float32(_LOG2E_TWICE))
_DOUBLE_LN2 = math.floor(_LN2 * 2**32) / 2**32
MADE: Mapping[Kind, _Made] = {
    # Left out are 1.2e-7 · 2^-4 of e^r, and 2e-9 of the logarithm.
    F32: _Made(
        ln2=(_SINGLE_LN2, _LN2 - _SINGLE_LN2),
        log2e_twice=(_SINGLE_LOG2E, _LOG2E_TWICE - _SINGLE_LOG2E),
        exp=[1 / math.factorial(k) for k in range(8)],
        exp2=[_LN2**k / math.factorial(k) for k in range(8)],
        atanh=[1 / k for k in range(3, 13, 2)],
        tanh=_tanh_parts(5),
        exp_range=(-104.0, 89.0),
        exp2_range=(-151.0, 129.0),
        power_range=250.0,
        largest=2.0**40,
        root_half=0x3F3504F3,
        upper=0xFFFFF000,
    ),
    # What is left of ln 2 and 2/ln 2 was computed with 60 digits.
    F64: _Made(
        ln2=(_DOUBLE_LN2, 1.9082149292705877e-10),
        log2e_twice=(_LOG2E_TWICE, 4.0710547481862066e-17),
        exp=[1 / math.factorial(k) for k in range(14)],
        exp2=[_LN2**k / math.factorial(k) for k in range(14)],
        atanh=[1 / k for k in range(3, 27, 2)],
        tanh=_tanh_parts(9),
        exp_range=(-746.0, 710.0),
        exp2_range=(-1076.0, 1025.0),
        power_range=2040.0,
        largest=2.0**70,
        root_half=0x3FE6A09E667F3BCD,
        upper=0xFFFFFFFFF8000000,
    ),
}


def polynomial(x: Reg, coefficients: Sequence[float]) -> Reg:
    """c₀ + x·(c₁ + x·(c₂ + …))."""
    result = number(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def _scaled(x: Reg, whole: Reg) -> Reg:
    """The product x · 2^n for a whole float n, in two factors, as one alone may be beyond the range."""
    form = WIDE[x.kind]
    exponent = whole.converted(x.bits().kind, Op.ConvertFToS)
    half = exponent.shifted(1)
    first, second = [((k + form.bias) << form.fraction).as_float() for k in (half, exponent - half)]
    return x * first * second


def _held(x: Reg, low: float, high: float) -> Reg:
    """The number x within bounds, for x that is not NaN."""
    above = (x < low).pick(number(x, low), x)
    return (number(x, high) < above).pick(number(x, high), above)


# --- exponentials -------------------------------------------------------------------------------------------


def exp(x: Reg) -> Reg:
    """e^x: with n = ⌊x/ln 2⌉ it is e^(x - n·ln 2) · 2^n."""
    made = MADE[x.kind]
    held = _held(x, *made.exp_range)
    turns = (held * (1 / _LN2)).ext(Ext.RoundEven)
    rest = held - turns * made.ln2[0] - turns * made.ln2[1]
    return is_nan(x).pick(x, _scaled(polynomial(rest, made.exp), turns))


def exp2(x: Reg) -> Reg:
    """2^x."""
    made = MADE[x.kind]
    held = _held(x, *made.exp2_range)
    turns = held.ext(Ext.RoundEven)
    return is_nan(x).pick(x, _scaled(polynomial(held - turns, made.exp2), turns))


def tanh(x: Reg) -> Reg:
    """The hyperbolic tangent: the fraction below 0.55, 1 - 2/(e^2|x| + 1) beyond."""
    size, square = absolute(x), x * x
    below, above = MADE[x.kind].tanh
    small = x * polynomial(square, above) / polynomial(square, below)
    far = number(x, 1.0) - number(x, 2.0) / (x.code.call(exp, size * 2.0) + 1.0)
    found = (size < 0.55).pick(small, with_sign(far, x))
    return is_nan(x).pick(x, found)


# --- logarithms ---------------------------------------------------------------------------------------------


def _split(x: Reg) -> tuple[Reg, Reg]:
    """(m, n) with |x| = m · 2^n, m from √½ to √2, n a whole float; for positive finite numbers."""
    form, root_half = WIDE[x.kind], MADE[x.kind].root_half
    size = magnitude(x)
    subnormal = size < (1 << form.fraction)
    bits = subnormal.pick(size.converted(x.kind, Op.ConvertUToF).bits(), size)
    # The exponent is counted from √½: its bits are taken away, and what is left of the fraction put on them.
    above = bits - root_half
    whole = above.shifted(form.fraction).converted(x.kind, Op.ConvertSToF)
    fraction = (above & ((1 << form.fraction) - 1)) + root_half
    return fraction.as_float(), subnormal.pick(whole - (form.bias - 1.0 + form.fraction), whole)


def log(x: Reg) -> Reg:
    """The natural logarithm: with f = m - 1 and s = f/(2 + f) that of m is 2·atanh s = f - s·(f - 2·s²·(1/3 + …))."""
    made, form = MADE[x.kind], WIDE[x.kind]
    m, n = _split(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    series = z * polynomial(z, made.atanh) * 2.0
    found = n * made.ln2[0] + (f - (s * (f - series) - n * made.ln2[1]))
    bits = x.bits()
    found = bits.below(0).pick(nan(x), found)
    found = magnitude(x).equals(0).pick(number(x, -math.inf), found)
    # Infinity and NaN as they are.
    return (bits.equals(form.top) | is_nan(x)).pick(x, found)


# --- powers -------------------------------------------------------------------------------------------------


def _product(a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """The product a · b as a sum of two floats, exact but for the last place of the second.

    Dekker, "A floating-point technique for extending the available precision".
    """
    product, upper = a * b, MADE[a.kind].upper
    high_a, high_b = (a.bits() & upper).as_float(), (b.bits() & upper).as_float()
    low_a, low_b = a - high_a, b - high_b
    error = high_a * high_b - product + high_a * low_b + low_a * high_b + low_a * low_b
    return product, error


def _sum(a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """The sum a + b as a sum of two floats, exact, for |a| ≥ |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _log2(x: Reg) -> tuple[Reg, Reg]:
    """The binary logarithm of |x| as a sum of two floats, 8 bits more exact than one; for finite numbers but 0."""
    made = MADE[x.kind]
    m, n = _split(x)
    f = m - 1.0
    divisor, lost = _sum(number(x, 1.0), m)  # m < √2: 1 + m loses at most the last place
    s = f / divisor
    back, error = _product(s, divisor)
    s_low = (f - back - error - s * lost) / divisor
    z = s * s
    factor, factor_low = made.log2e_twice
    high, low = _product(s, number(x, factor))
    low = low + s * factor_low + s_low * factor + s * factor * (z * polynomial(z, made.atanh))
    high, low = _sum(high, low)
    total, rest = _sum(n, high)
    return total, rest + low


def power(x: Reg, y: Reg) -> Reg:
    """The power y of x, as the C standard says: NaN for negative numbers to powers that are not whole."""
    found = _magnitude_of_power(x, y)
    size, size_y, negative = magnitude(x), magnitude(y), x.bits().below(0)
    one, top = number(x, 1.0), WIDE[x.kind].top
    whole = floored(y)
    is_whole, is_odd = equal(whole, y), ~equal(floored(y * 0.5) * 2.0, whole)
    found = (negative & is_whole & is_odd).pick(negated(found), found)
    inside = (size < top) & size.differs(0)
    found = (negative & inside & ~is_whole).pick(nan(x), found)
    found = is_nan(y).pick(y, is_nan(x).pick(x, found))
    return (size_y.equals(0) | x.bits().equals(one.bits())).pick(one, found)


def _magnitude_of_power(x: Reg, y: Reg) -> Reg:
    """The power y of |x|, for numbers that are not NaN."""
    made, top = MADE[x.kind], WIDE[x.kind].top
    high, low = _log2(x)
    # An exponent beyond `largest` decides no more, and products stay finite.
    times = _held(y, -made.largest, made.largest)
    product, rest = _product(times, high)
    product, rest = _sum(product, rest + times * low)
    held = _held(product, -made.power_range, made.power_range)
    turns = held.ext(Ext.RoundEven)
    rest = (absolute(product) < made.power_range).pick(rest, 0.0)
    found = _scaled(polynomial(held - turns + rest, made.exp2), turns)
    # 0 and infinity have no logarithm, and infinite exponents no product: the signs decide.
    size, rising = magnitude(x), ~y.bits().below(0)
    nothing, endless, one = number(x, 0.0), number(x, math.inf), number(x, 1.0)
    found = size.equals(0).pick(rising.pick(nothing, endless), found)
    found = size.equals(top).pick(rising.pick(endless, nothing), found)
    grows = ~(absolute(x) < 1.0)
    of_endless = _alike(grows, rising).pick(endless, nothing)
    found = magnitude(y).equals(top).pick(of_endless, found)
    return size.equals(one.bits()).pick(one, found)


def _alike(a: Reg, b: Reg) -> Reg:
    """Whether two truth values are the same."""
    return (a & b) | ~(a | b)
