// Floats of three sizes, computed in float or double: IN and OUT say the bits of an element as it lies in memory.
// Elements of 16 bits are f16, or bf16 where HALF_IS_BF16, and are widened and narrowed here by their bits.
#extension GL_EXT_shader_16bit_storage : require

#ifndef OUT
#define OUT IN
#endif

#if IN == 64 || OUT == 64
#define ACC double
#else
#define ACC float
#endif

#if IN == 16 || OUT == 16
layout(constant_id = 4) const uint HALF_IS_BF16 = 0;
#endif

#if IN == 16
#define RAW uint16_t
#define LOAD(x) widened(uint(x))
#elif IN == 32
#define RAW float
#define LOAD(x) (x)
#else
#define RAW double
#define LOAD(x) (x)
#endif

#if OUT == 16
#define OUT_RAW uint16_t
#define STORE(x) uint16_t(narrowed(x))
#elif OUT == 32
#define OUT_RAW float
#define STORE(x) OUT_RAW(x)
#else
#define OUT_RAW double
#define STORE(x) OUT_RAW(x)
#endif

bool is_nan(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

// Comparisons by bits, with zeros alike: devices may take subnormal numbers for zeros.
int rank_of(float x) {
    int bits = floatBitsToInt(x);
    return (bits & 0x7fffffff) == 0 ? 0 : (bits < 0 ? bits ^ 0x7fffffff : bits);
}

bool is_above(float a, float b) {
    return rank_of(a) > rank_of(b);
}

bool is_same(float a, float b) {
    return rank_of(a) == rank_of(b);
}

#if IN == 64 || OUT == 64
bool is_nan(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint high = bits.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0u);
}

bool is_above(double a, double b) {
    return a > b;
}

bool is_same(double a, double b) {
    return a == b;
}
#endif

// What all numbers are above of, but for itself and NaN.
ACC lowest() {
#if IN == 64 || OUT == 64
    return packDouble2x32(uvec2(0u, 0xfff00000u));
#else
    return uintBitsToFloat(0xff800000u);
#endif
}

// The larger one, NaN where there is one.
#define LARGEST_OF(a, b) (is_nan(a) ? a : (is_nan(b) || is_above(b, a) ? b : a))
#define SMALLEST_OF(a, b) (is_nan(a) ? a : (is_nan(b) || is_above(a, b) ? b : a))

#if IN == 16 || OUT == 16
float widened(uint h) {
    if (HALF_IS_BF16 != 0) {
        return uintBitsToFloat(h << 16);
    }
    uint sign = (h & 0x8000u) << 16, m = h & 0x7fffu;
    if (m >= 0x7c00u) {
        return uintBitsToFloat(sign | 0x7f800000u | ((m & 0x3ffu) << 13));
    }
    if (m < 0x400u) { // subnormal: a whole number of 2^-24
        return uintBitsToFloat(sign | floatBitsToUint(float(m) * 5.9604644775390625e-8));
    }
    return uintBitsToFloat(sign | ((m << 13) + 0x38000000u));
}

// To the nearest, ties to even.
uint narrowed(float value) {
    uint bits = floatBitsToUint(value), m = bits & 0x7fffffffu;
    if (HALF_IS_BF16 != 0) {
        return m > 0x7f800000u ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    }
    uint sign = (bits >> 16) & 0x8000u;
    if (m > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (m >= 0x47800000u) {
        return sign | 0x7c00u;
    }
    if (m >= 0x38800000u) {
        uint r = m - 0x38000000u;
        return sign | ((r + 0xfffu + ((r >> 13) & 1u)) >> 13);
    }
    if (m <= 0x33000000u) {
        return sign;
    }
    uint digits = (m & 0x7fffffu) | 0x800000u, shift = 126u - (m >> 23);
    uint whole = digits >> shift, rest = digits & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    return sign | (whole + uint(rest > tie || (rest == tie && (whole & 1u) != 0u)));
}
#endif
