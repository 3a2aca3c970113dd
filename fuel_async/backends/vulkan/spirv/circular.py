"""The sine and the cosine of float32, exact to 2 units in the last place for every number, however large.

For float64 there are none: its range would take 1,200 binary digits of 2/π.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from fuel_async.backends.vulkan.spirv.floats import WIDE, absolute, magnitude, nan, negated, sign_bit
from fuel_async.backends.vulkan.spirv.functions import polynomial
from fuel_async.backends.vulkan.spirv.module import F32, U32, Op

if TYPE_CHECKING:
    from fuel_async.backends.vulkan.spirv.code import Reg

INFINITY = WIDE[F32].top
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
        shifted.pick((a << shift) | (b >> ((code.constant(U32, 32) - shift) & 31)), a) for a, b in pairwise(found)
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
    sine, cosine = rest * polynomial(square, _SIN), polynomial(square, _COS)
    found = (quarter & 1).differs(0).pick(cosine, sine)
    flipped = (found.bits() ^ ((quarter & 2) << 30)).as_float()
    return (magnitude(x) < INFINITY).pick(flipped, nan(x))


def sin(x: Reg) -> Reg:
    """The sine: that of |x|, with the sign of x."""
    found = _circular(x, 0)
    return (found.bits() ^ sign_bit(x)).as_float()


def cos(x: Reg) -> Reg:
    """The cosine."""
    return _circular(x, 1)
