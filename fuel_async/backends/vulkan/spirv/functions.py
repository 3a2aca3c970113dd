"""Exponentials, logarithms, powers and circular functions of float32.

Vulkan promises little of the built-in ones: an error of 2^-21 for log near 1, of 2^-11 for sin, and sin of a large
number may be anything. These are made of sums, products and integers, so that they are equally exact on every device:
within 2 units in the last place (powers: 4), tested against float64. Nothing is fitted: the coefficients are those of
Taylor series, or of the continued fraction of tanh, taken so far that what is left out does not count. NaN and
infinities come out as in numpy.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

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
    sign_bit,
    with_sign,
)
from fuel_async.backends.vulkan.spirv.module import F32, U32, Ext, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.spirv.code import Reg

_LN2 = math.log(2.0)
#: ln 2 with 15 bits, so that small whole multiples of it are exact, and what is left.
_LN2_HIGH = math.floor(_LN2 * 2**15) / 2**15
_LN2_LOW = _LN2 - _LN2_HIGH
_INFINITY = WIDE[F32].top


def _polynomial(x: Reg, coefficients: Sequence[float]) -> Reg:
    """c₀ + x·(c₁ + x·(c₂ + …))."""
    result = number(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def _power_of_two(exponent: Reg) -> Reg:
    """2 to a whole number from -126 to 127, given as an integer."""
    return ((exponent + 127) << 23).as_float()


def _scaled(x: Reg, exponent: Reg) -> Reg:
    """The product x · 2^exponent, in two factors, as one alone may be beyond the range: from -252 to 254."""
    half = exponent.shifted(1)
    return x * _power_of_two(half) * _power_of_two(exponent - half)


def _held(x: Reg, low: float, high: float) -> Reg:
    """The number x within bounds, for x that is not NaN."""
    above = (x < low).pick(number(x, low), x)
    return (number(x, high) < above).pick(number(x, high), above)


# --- exponentials -------------------------------------------------------------------------------------------

#: Of e^r for |r| ≤ ln(2)/2; what is left out is 1.2e-7 · 2^-4.
_EXP = [1 / math.factorial(k) for k in range(8)]
_EXP2 = [_LN2**k / math.factorial(k) for k in range(8)]


def exp(x: Reg) -> Reg:
    """e^x: n = ⌊x/ln 2⌉, e^(x - n·ln 2) · 2^n."""
    held = _held(x, -104.0, 89.0)
    turns = (held * (1 / _LN2)).ext(Ext.RoundEven)
    rest = held - turns * _LN2_HIGH - turns * _LN2_LOW
    found = _scaled(_polynomial(rest, _EXP), turns.converted(U32, Op.ConvertFToS))
    return is_nan(x).pick(x, found)


def exp2(x: Reg) -> Reg:
    """2^x."""
    held = _held(x, -151.0, 129.0)
    turns = held.ext(Ext.RoundEven)
    found = _scaled(_polynomial(held - turns, _EXP2), turns.converted(U32, Op.ConvertFToS))
    return is_nan(x).pick(x, found)


#: tanh x = x / (1 + x²/(3 + x²/(5 + x²/(7 + x²/9)))), as a quotient of polynomials in x².
_TANH_ABOVE, _TANH_BELOW = (945.0, 105.0, 1.0), (945.0, 420.0, 15.0)


def tanh(x: Reg) -> Reg:
    """The hyperbolic tangent: the fraction below 0.55, 1 - 2/(e^2|x| + 1) beyond."""
    size = absolute(x)
    square = x * x
    small = x * _polynomial(square, _TANH_ABOVE) / _polynomial(square, _TANH_BELOW)
    far = number(x, 1.0) - number(x, 2.0) / (x.code.call(exp, size * 2.0) + 1.0)
    found = (size < 0.55).pick(small, with_sign(far, x))
    return is_nan(x).pick(x, found)


# --- logarithms ---------------------------------------------------------------------------------------------


def _split(x: Reg) -> tuple[Reg, Reg]:
    """(m, n) with |x| = m · 2^n, m from √½ to √2, n a whole float; for positive finite numbers."""
    size = magnitude(x)
    subnormal = size < (1 << 23)
    bits = subnormal.pick(size.converted(F32, Op.ConvertUToF).bits(), size)
    # The exponent is counted from √½: its bits are taken away, and what is left of the fraction put on them.
    root_half = 0x3F3504F3
    above = bits - root_half
    exponent = above.shifted(23)
    fraction = (above & ((1 << 23) - 1)) + root_half
    whole = exponent.converted(F32, Op.ConvertSToF)
    return fraction.as_float(), subnormal.pick(whole - 149.0, whole)


#: atanh(s) = s + s³·(1/3 + s²/5 + …) for |s| ≤ 0.1716; what is left out is 2e-9 of it.
_ATANH = [1 / k for k in range(3, 13, 2)]


def log(x: Reg) -> Reg:
    """The natural logarithm: with f = m - 1 and s = f/(2 + f) that of m is 2·atanh s = f - s·(f - 2·s²·(1/3 + …))."""
    m, n = _split(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    series = z * _polynomial(z, _ATANH) * 2.0
    found = n * _LN2_HIGH + (f - (s * (f - series) - n * _LN2_LOW))
    bits, size = x.bits(), magnitude(x)
    of_zero = number(x, -math.inf)
    found = bits.below(0).pick(nan(x), found)
    found = size.equals(0).pick(of_zero, found)
    # Infinity and NaN as they are.
    return (bits.equals(_INFINITY) | is_nan(x)).pick(x, found)


# --- powers -------------------------------------------------------------------------------------------------


def _product(a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """The product a · b as a sum of two floats, exact.

    Dekker, "A floating-point technique for extending the available precision".
    """
    product = a * b
    high_a, high_b = (a.bits() & 0xFFFFF000).as_float(), (b.bits() & 0xFFFFF000).as_float()
    low_a, low_b = a - high_a, b - high_b
    error = high_a * high_b - product + high_a * low_b + low_a * high_b + low_a * low_b
    return product, error


def _sum(a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """The sum a + b as a sum of two floats, exact, for |a| ≥ |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


_LOG2E_TWICE = 2.0 / _LN2
_LOG2E_HIGH = float(np.float32(_LOG2E_TWICE))
_LOG2E_LOW = _LOG2E_TWICE - _LOG2E_HIGH


def _log2(x: Reg) -> tuple[Reg, Reg]:
    """The binary logarithm of |x| as a sum of two floats with some 32 bits; for positive finite numbers."""
    m, n = _split(x)
    f = m - 1.0
    divisor, lost = _sum(number(x, 1.0), m)  # m < √2: 1 + m loses at most the last place
    s = f / divisor
    back, error = _product(s, divisor)
    s_low = (f - back - error - s * lost) / divisor
    z = s * s
    high, low = _product(s, number(x, _LOG2E_HIGH))
    low = low + s * _LOG2E_LOW + s_low * _LOG2E_HIGH + s * _LOG2E_HIGH * (z * _polynomial(z, _ATANH))
    high, low = _sum(high, low)
    total, rest = _sum(n, high)
    return total, rest + low


def power(x: Reg, y: Reg) -> Reg:
    """The power y of x, as the C standard says: NaN for negative numbers to powers that are not whole."""
    one = number(x, 1.0)
    high, low = _log2(x)
    # The least logarithm but 0 is 2^-24, so a larger exponent decides no more, and products stay finite.
    times = _held(y, -(2.0**40), 2.0**40)
    product, rest = _product(times, high)
    product, rest = _sum(product, rest + times * low)
    held = _held(product, -250.0, 250.0)
    turns = held.ext(Ext.RoundEven)
    rest = (absolute(product) < 250.0).pick(rest, 0.0)
    found = _scaled(_polynomial(held - turns + rest, _EXP2), turns.converted(U32, Op.ConvertFToS))
    # |x| without a logarithm of its own: 0 and infinity, by the signs of y.
    size, rising = magnitude(x), ~y.bits().below(0)
    nothing, endless = number(x, 0.0), number(x, math.inf)
    found = size.equals(0).pick(rising.pick(nothing, endless), found)
    found = size.equals(_INFINITY).pick(rising.pick(endless, nothing), found)
    size_y, grows = magnitude(y), ~(absolute(x) < 1.0)
    of_endless = _alike(grows, rising).pick(endless, nothing)
    found = size_y.equals(_INFINITY).pick(of_endless, found)
    found = size.equals(one.bits()).pick(one, found)
    whole = floored(y)
    odd = floored(y * 0.5) * 2.0
    is_whole, is_odd = equal(whole, y), ~equal(odd, whole)
    negative = x.bits().below(0)
    found = (negative & is_whole & is_odd).pick(negated(found), found)
    inside = (size < _INFINITY) & size.differs(0)
    found = (negative & inside & ~is_whole).pick(nan(x), found)
    found = is_nan(y).pick(y, is_nan(x).pick(x, found))
    return (size_y.equals(0) | x.bits().equals(one.bits())).pick(one, found)


def _alike(a: Reg, b: Reg) -> Reg:
    """Whether two truth values are the same."""
    return (a & b) | ~(a | b)


# --- circular functions -------------------------------------------------------------------------------------

#: 2/π in binary after 32 zero bits, as words.
_TWO_OVER_PI = (0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(6)]


def _quarter_turns(x: Reg) -> tuple[Reg, Reg]:
    """(q, r) with x = (q + …4k)·π/2 + r, |r| ≤ π/4, for |x| ≥ ½ (Payne and Hanek, "Radian reduction").

    |x| is m · 2^(e - 150) with m of 24 bits. Those bits of 2/π that make whole multiples of 4 are left out; m times the
    next 96 gives the quarter with 2 bits and the fraction with 62.
    """
    code, bits = x.code, magnitude(x)
    m = (bits & ((1 << 23) - 1)) | (1 << 23)
    at = (bits >> 23) - 120  # the place of the first bit that is wanted: e - 150 + 30
    word, shift = at >> 5, at & 31
    words = [code.constant(U32, value) for value in _TWO_OVER_PI]
    low, twos, fours = (word & 1).differs(0), (word & 2).differs(0), (word & 4).differs(0)

    def picked(k: int) -> Reg:
        pairs = [low.pick(words[k + i + 1], words[k + i]) for i in (0, 2)]
        four = twos.pick(pairs[1], pairs[0])
        return fours.pick(words[k + 4], four)

    found = [picked(k) for k in range(4)]
    shifted = shift.differs(0)
    window = [
        shifted.pick((a << shift) | (b >> ((code.constant(U32, 32) - shift) & 31)), a)
        for a, b in itertools.pairwise(found)
    ]
    below = m * window[1]
    lower = below + m.high_product(window[2])
    carry = (lower < below).pick(code.constant(U32, 1), 0)
    upper = m * window[0] + m.high_product(window[1]) + carry
    quarter = (upper + (1 << 29)) >> 30
    high = upper - (quarter << 30)
    # The fraction is high · 2^32 + lower, signed, in units of 2^-62.
    minus = high.below(0)
    flipped = code.constant(U32, 0) - lower
    borrow = lower.differs(0).pick(code.constant(U32, 1), 0)
    high = minus.pick(code.constant(U32, 0) - high - borrow, high)
    lower = minus.pick(flipped, lower)
    size = high.converted(F32, Op.ConvertUToF) * 2.0**-30 + lower.converted(F32, Op.ConvertUToF) * 2.0**-62
    angle = size * (math.pi / 2)
    return quarter, minus.pick(negated(angle), angle)


def _circular(x: Reg, turned: int) -> Reg:
    """The sine of |x| + turned·π/2."""
    quarter, rest = _quarter_turns(x)
    small = absolute(x) < 0.5
    quarter = small.pick(x.code.constant(U32, turned), quarter + turned)
    rest = small.pick(absolute(x), rest)
    square = rest * rest
    sine, cosine = rest * _polynomial(square, _SIN), _polynomial(square, _COS)
    found = (quarter & 1).differs(0).pick(cosine, sine)
    flipped = (found.bits() ^ ((quarter & 2) << 30)).as_float()
    return (magnitude(x) < _INFINITY).pick(flipped, nan(x))


def sin(x: Reg) -> Reg:
    """The sine: that of |x|, with the sign of x."""
    found = _circular(x, 0)
    return (found.bits() ^ sign_bit(x)).as_float()


def cos(x: Reg) -> Reg:
    """The cosine."""
    return _circular(x, 1)
