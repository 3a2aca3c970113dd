"""Functions of scalars that CUDA C lacks, as text: a program has those that it calls.

Conversions to and from narrow formats are done on the bits, so that programs need no header: the half types come with
one that not every installation has. For f16 a GPU has instructions of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.backends.grids.formats import NARROW, Format
from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Integers that hold the bits of so many bytes.
BITS_TYPES: Mapping[int, str] = {1: "unsigned char", 2: "unsigned short"}
#: How a function begins.
_INLINE = "static __device__ __forceinline__"


class Function(NamedTuple):
    """One function: its text, and the functions that it calls."""

    text: str
    calls: tuple[str, ...] = ()


def hexadecimal(value: float) -> str:
    """Return the text of a finite number, exact, without zeros that say nothing."""
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def widening(dtype: DType) -> str:
    """Return the name of the function from the bits of a narrow format to float."""
    return f"widened_{dtype}"


def narrowing(dtype: DType) -> str:
    """Return the name of the function from float to the bits of a narrow format."""
    return f"narrowed_{dtype}"


def written(names: Iterable[str]) -> list[str]:
    """Return the texts of functions and of those that they call, each once and in the order of the table."""
    wanted = set[str]()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending += FUNCTIONS[name].calls
    return [function.text for name, function in FUNCTIONS.items() if name in wanted]


# --- of floats ----------------------------------------------------------------------------------------------


def _remainder(kind: str, suffix: str) -> str:
    return f"""\
// a - floor(a / b) * b, with the sign of b.
{_INLINE} {kind} remainder_of({kind} a, {kind} b) {{
    {kind} rest = fmod{suffix}(a, b);
    if (rest == 0) {{
        return copysign{suffix}(rest, b);
    }}
    return (rest < 0) != (b < 0) ? rest + b : rest;
}}"""


def _extreme(name: str, order: str, kind: str) -> str:
    return f"""\
{_INLINE} {kind} {name}({kind} a, {kind} b) {{ return a {order} b || a != a ? a : b; }}"""


_TO_ODD = f"""\
// The float of a double, rounded so that rounding it once more is like rounding once: what is not exact becomes the odd
// neighbour.
{_INLINE} float to_odd(double x) {{
    float single = (float)x;
    u32 bits = __float_as_uint(single);
    double back = (double)single;
    u32 below = fabs(x) < fabs(back) ? bits - 1u : bits;
    return back < x || back > x ? __uint_as_float(below | 1u) : single;
}}"""


# --- of narrow formats --------------------------------------------------------------------------------------


def _float(value: float) -> str:
    return f"{hexadecimal(value)}f"


def _on_gpu(instruction: str, text: str) -> str:
    return f"#ifdef __CUDA_ARCH__\n{instruction}\n#else\n{text}\n#endif"


def _widened(dtype: DType, form: Format) -> str:
    """From bits, which are the lower ones of a word, to float: exact, and NaN where it was NaN."""
    shift, sign_at = 23 - form.fraction, form.top.bit_length()
    head = f"{_INLINE} float {widening(dtype)}(u32 bits)"
    if form.bias == 127:
        return f"{head} {{ return __uint_as_float(bits << {shift}); }}"
    first = form.top if form.has_infinities else form.top + 1
    special = f"size << {shift} | 0x7f800000u" if form.has_infinities else "0x7fc00000u"
    least = _float(2.0 ** (1 - form.bias - form.fraction))
    return f"""\
{head} {{
    u32 size = bits & {(1 << sign_at) - 1:#x}u, sign = bits >> {sign_at} << 31;
    u32 normal = (size << {shift}) + {(127 - form.bias) << 23:#x}u;
    u32 finite = size < {1 << form.fraction:#x}u ? __float_as_uint((float)size * {least}) : normal;
    return __uint_as_float((size < {first:#x}u ? finite : {special}) | sign);
}}"""


def _narrowed(dtype: DType, form: Format) -> str:
    """To the bits of a narrow format, rounded half to even; too large becomes infinity, or NaN."""
    shift, sign_at = 23 - form.fraction, form.top.bit_length()
    kind = BITS_TYPES[dtype.nbytes]
    largest = form.top if form.has_infinities else form.top + 1
    undefined = form.top | 1 << (form.fraction - 1) if form.has_infinities else largest
    lines = [
        f"{_INLINE} {kind} {narrowing(dtype)}(float x) {{",
        "    u32 bits = __float_as_uint(x), size = bits & 0x7fffffffu;",
        f"    u32 even = size >> {shift} & 1u, half = {(1 << (shift - 1)) - 1:#x}u + even;",
        f"    u32 rounded = (size - {(127 - form.bias) << 23:#x}u + half) >> {shift};",
    ]
    if form.bias != 127:
        # Added to a number whose last place is the least number, a small one is rounded to whole multiples of that.
        anchor = _float(2.0 ** (23 + 1 - form.bias - form.fraction))
        lines += [
            f"    u32 least = __float_as_uint(__uint_as_float(size) + {anchor}) - __float_as_uint({anchor});",
            f"    rounded = size < {(128 - form.bias) << 23:#x}u ? least : rounded;",
            f"    rounded = rounded > {largest:#x}u ? {largest:#x}u : rounded;",
        ]
    lines += [
        f"    rounded = size > 0x7f800000u ? {undefined:#x}u : rounded;",
        f"    return ({kind})(rounded | bits >> 31 << {sign_at});",
        "}",
    ]
    return "\n".join(lines)


_F16_WIDENED = f"""\
{_INLINE} float {widening(DType.F16)}(u32 bits) {{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)bits));
    return x;
}}"""
_F16_NARROWED = f"""\
{_INLINE} unsigned short {narrowing(DType.F16)}(float x) {{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}}"""


def _conversions() -> dict[str, Function]:
    made = dict[str, Function]()
    for dtype, form in NARROW.items():
        texts = _widened(dtype, form), _narrowed(dtype, form)
        if dtype is DType.F16:
            texts = _on_gpu(_F16_WIDENED, texts[0]), _on_gpu(_F16_NARROWED, texts[1])
        made |= {widening(dtype): Function(texts[0]), narrowing(dtype): Function(texts[1])}
    return made


#: By name; those of floats by name and type.
FUNCTIONS: Mapping[str, Function] = {
    **{
        f"{name} {kind}": Function(text)
        for kind, suffix in (("float", "f"), ("double", ""))
        for name, text in (
            ("remainder_of", _remainder(kind, suffix)),
            ("larger", _extreme("larger", ">=", kind)),
            ("smaller", _extreme("smaller", "<=", kind)),
        )
    },
    "to_odd": Function(_TO_ODD),
    **_conversions(),
}
