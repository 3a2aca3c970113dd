"""Arithmetic of floats that does not depend on what a device makes of NaN, signed zeros and subnormal numbers.

Devices may take subnormal operands for zeros, may assume that there is no NaN, and round conversions as they like.
So comparisons, signs, and conversions to and from narrow formats are done on the bits; quotients and roots are scaled
where an operand is subnormal, and remainders are those of integers. Sums and products are the device's: a subnormal
result or operand may count as 0 there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.backends.grids.formats import Format
from fuel_async.backends.vulkan.spirv.module import F32, F64, U32, U64, Ext, Kind, Op

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.backends.vulkan.spirv.code import Reg


#: By kind: the formats in which is computed.
WIDE: Mapping[Kind, Format] = {F32: Format(23, 127, 0xFF << 23), F64: Format(52, 1023, 0x7FF << 52)}


def magnitude(x: Reg) -> Reg:
    """The bits without the sign."""
    return x.bits() & ((1 << (x.kind.bits - 1)) - 1)


def sign_bit(x: Reg) -> Reg:
    """The bits of the sign alone."""
    return x.bits() & (1 << (x.kind.bits - 1))


def is_nan(x: Reg) -> Reg:
    """Whether x is NaN."""
    return x.code.constant(x.bits().kind, WIDE[x.kind].top) < magnitude(x)


def number(x: Reg, value: float) -> Reg:
    """A constant of x's kind."""
    return x.code.constant(x.kind, value)


def _subnormal(x: Reg) -> Reg:
    """Whether the exponent is 0: subnormal or zero."""
    return magnitude(x) < (1 << WIDE[x.kind].fraction)


# --- order --------------------------------------------------------------------------------------------------


def _rank(x: Reg) -> tuple[Reg, Reg]:
    """A signed integer that orders numbers, zeros of both signs equal; and whether x is NaN."""
    bits, size = x.bits(), magnitude(x)
    zero = x.code.constant(bits.kind, 0)
    return bits.below(0).pick(zero - size, size), x.code.constant(bits.kind, WIDE[x.kind].top) < size


def less(a: Reg, b: Reg) -> Reg:
    """Whether a < b; not if either is NaN."""
    (i, no), (j, neither) = _rank(a), _rank(b)
    return i.below(j) & ~(no | neither)


def at_most(a: Reg, b: Reg) -> Reg:
    """Whether a ≤ b; not if either is NaN."""
    (i, no), (j, neither) = _rank(a), _rank(b)
    return ~(j.below(i) | no | neither)


def equal(a: Reg, b: Reg) -> Reg:
    """Whether a = b; not if either is NaN."""
    (i, no), (j, neither) = _rank(a), _rank(b)
    return i.equals(j) & ~(no | neither)


def larger(a: Reg, b: Reg) -> Reg:
    """The larger, NaN if either is."""
    (i, no), (j, neither) = _rank(a), _rank(b)
    return (no | ~(i.below(j) | neither)).pick(a, b)


def smaller(a: Reg, b: Reg) -> Reg:
    """The smaller, NaN if either is."""
    (i, no), (j, neither) = _rank(a), _rank(b)
    return (no | ~(j.below(i) | neither)).pick(a, b)


# --- signs and whole numbers --------------------------------------------------------------------------------


def negated(x: Reg) -> Reg:
    """The opposite -x, on the bits."""
    return (x.bits() ^ (1 << (x.kind.bits - 1))).as_float()


def absolute(x: Reg) -> Reg:
    """|x|, on the bits."""
    return magnitude(x).as_float()


def with_sign(x: Reg, sign: Reg) -> Reg:
    """|x| with the sign of the other."""
    return (magnitude(x) | sign_bit(sign)).as_float()


def floored(x: Reg) -> Reg:
    """The largest whole number at most x: -1 for a subnormal number below 0."""
    whole = x.ext(Ext.Floor)
    return less(x, whole).pick(whole - 1.0, whole)


def ceiled(x: Reg) -> Reg:
    """The least whole number at least x: 1 for a subnormal number above 0."""
    whole = x.ext(Ext.Ceil)
    return less(whole, x).pick(whole + 1.0, whole)


# --- quotients, remainders, roots ------------------------------------------------------------------------------------


def scaled_up(x: Reg) -> Reg:
    """The product x · 2^64, exact for subnormal numbers."""
    form = WIDE[x.kind]
    exact = magnitude(x).converted(x.kind, Op.ConvertUToF) * 2.0 ** (64 + 1 - form.bias - form.fraction)
    return _subnormal(x).pick(with_sign(exact, x), x * 2.0**64)


def quotient(a: Reg, b: Reg) -> Reg:
    """The quotient a / b, also where an operand, or the reciprocal of the divisor, is subnormal."""
    form = WIDE[a.kind]
    huge = number(a, 2.0 ** (form.bias - 2))
    tiny, vast = _subnormal(a) | _subnormal(b), huge < absolute(b)
    down = number(a, 2.0**-64)
    return tiny.pick(scaled_up(a), vast.pick(a * down, a)) / tiny.pick(scaled_up(b), vast.pick(b * down, b))


def root(x: Reg) -> Reg:
    """The square root: that of a zero is the zero, of a negative number NaN."""
    tiny = _subnormal(x)
    plain = tiny.pick(scaled_up(x), x).ext(Ext.Sqrt)
    found = tiny.pick(plain * 2.0**-32, plain)
    bits, none = x.bits(), nan(x)
    of_negative = bits.below(0).pick(none, found)
    return magnitude(x).equals(0).pick(x, is_nan(x).pick(x, of_negative))


def nan(x: Reg) -> Reg:
    """A NaN of x's kind."""
    form = WIDE[x.kind]
    return x.code.constant(x.bits().kind, form.top | 1 << (form.fraction - 1)).as_float()


def remainder(a: Reg, b: Reg) -> Reg:
    """The remainder a - ⌊a/b⌋·b, with the sign of b: exact up to the last sum, for float32 and float64.

    Both are whole numbers times powers of two; the remainder of the whole numbers is found by long division, 8 bits at
    a time. One that is subnormal may count as 0.
    """
    form, code = WIDE[a.kind], a.code
    uint = U32 if a.kind is F32 else U64
    hidden = 1 << form.fraction

    def parts(x: Reg) -> tuple[Reg, Reg]:
        size = magnitude(x)
        exponent = size >> form.fraction
        zero = exponent.equals(0)
        whole = (size & (hidden - 1)) | zero.pick(code.constant(uint, 0), hidden)
        return whole, zero.pick(code.constant(uint, 1), exponent)

    (whole_a, exponent_a), (whole_b, exponent_b) = parts(a), parts(b)
    below = exponent_a < exponent_b
    distance = below.pick(code.constant(uint, 0), exponent_a - exponent_b)
    divisor = whole_b.equals(0).pick(code.constant(uint, 1), whole_b)
    rest = code.repeat(distance >> 3, whole_a % divisor, lambda rest: (rest << 8) % divisor)
    rest = (rest << (distance & 7)) % divisor
    # Its value is rest · 2^(exponent - bias - fraction): a whole float times two powers of two.
    power = exponent_b - (form.bias + form.fraction)
    half = power.shifted(1)
    scale = [((k + form.bias) << form.fraction).as_float() for k in (half, power - half)]
    size = rest.converted(a.kind, Op.ConvertUToF) * scale[0] * scale[1]
    found = with_sign(below.pick(absolute(a), size), a)
    apart = (sign_bit(a) ^ sign_bit(b)).differs(0)
    none = below.pick(magnitude(a), rest).equals(0)
    found = none.pick(with_sign(number(a, 0.0), b), apart.pick(found + b, found))
    undefined = ~(magnitude(a) < form.top) | magnitude(b).equals(0)
    found = undefined.pick(nan(a), found)
    return is_nan(b).pick(b, is_nan(a).pick(a, found))


# --- conversions --------------------------------------------------------------------------------------------


def widened(bits: Reg, form: Format) -> Reg:
    """The float32 of the bits of a narrow format, which are the lower bits of a U32."""
    shift, sign_at = 23 - form.fraction, form.top.bit_length()
    size, sign = bits & ((1 << sign_at) - 1), (bits >> sign_at) << 31
    if form.bias == 127:
        return (bits << shift).as_float()
    normal = (size << shift) + ((127 - form.bias) << 23)
    least = size.converted(F32, Op.ConvertUToF) * 2.0 ** (1 - form.bias - form.fraction)
    finite = (size < (1 << form.fraction)).pick(least.bits(), normal)
    endless = form.has_infinities
    # NaN keeps its fraction where infinities tell the exponent; else there is one NaN.
    special = (size << shift) | (0xFF << 23) if endless else bits.code.constant(U32, 0x7FC00000)
    first = form.top if endless else form.top + 1
    return ((size < first).pick(finite, special) | sign).as_float()


def narrowed(x: Reg, form: Format) -> Reg:
    """The bits of a float32 in a narrow format, rounded half to even; too large becomes infinity, or NaN."""
    shift, sign_at = 23 - form.fraction, form.top.bit_length()
    bits, size = x.bits(), magnitude(x)
    endless = form.has_infinities
    largest = form.top if endless else form.top + 1
    undefined = form.top | 1 << (form.fraction - 1) if endless else largest
    rounded = (size - ((127 - form.bias) << 23) + ((1 << (shift - 1)) - 1) + ((size >> shift) & 1)) >> shift
    if form.bias != 127:
        # Added to a number whose last place is the least number, a small one is rounded to whole multiples of that.
        anchor = 2.0 ** (23 + 1 - form.bias - form.fraction)
        least = (size.as_float() + anchor).bits() - number(x, anchor).bits()
        rounded = (size < ((128 - form.bias) << 23)).pick(least, rounded)
        most = x.code.constant(U32, largest)
        rounded = (most < rounded).pick(most, rounded)
    finite = is_nan(x).pick(x.code.constant(U32, undefined), rounded)
    return finite | ((bits >> 31) << sign_at)


def to_double(x: Reg) -> Reg:
    """The float64 of a float32, exact for subnormal numbers."""
    exact = magnitude(x).converted(F64, Op.ConvertUToF) * 2.0**-149
    signed = x.bits().below(0).pick(negated(exact), exact)
    return _subnormal(x).pick(signed, x.converted(F64, Op.FConvert))


def to_single_odd(x: Reg) -> Reg:
    """The float32 of a float64, rounded so that rounding it once more is like rounding once.

    What is not exact becomes the odd neighbour (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
    proved algorithms using rounding to odd").
    """
    single = x.converted(F32, Op.FConvert)
    back = single.converted(F64, Op.FConvert)
    bits = single.bits()
    below = (absolute(x) < absolute(back)).pick(bits - 1, bits)
    return back.differs(x).pick((below | 1), bits).as_float()
