// __half: the bits of an IEEE binary16. Sums, products, quotients and roots of halves are exact enough in float for one
// rounding at the end to be the only one.
#pragma once

struct __half_raw { unsigned short x; };

static inline float fuel_widened(unsigned short h) {
    unsigned int sign = (h & 0x8000u) << 16, m = h & 0x7fffu, bits;
    float x;
    if (m < 0x400u) { // a whole number of 2^-24
        x = (float)m * 5.9604644775390625e-8f;
        __builtin_memcpy(&bits, &x, sizeof bits);
        bits |= sign;
    } else {
        bits = sign | ((m << 13) + (m >= 0x7c00u ? 0x70000000u : 0x38000000u));
    }
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

// To the nearest, ties to even; every NaN becomes the one that the hardware gives.
static inline unsigned short fuel_narrowed(float x) {
    unsigned int bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    unsigned int sign = bits >> 16 & 0x8000u, m = bits & 0x7fffffffu;
    if (m > 0x7f800000u) {
        return 0x7fff;
    }
    if (m >= 0x47800000u) {
        return (unsigned short)(sign | 0x7c00u);
    }
    if (m >= 0x38800000u) {
        unsigned int rest = m - 0x38000000u;
        return (unsigned short)(sign | (rest + 0xfffu + (rest >> 13 & 1u)) >> 13);
    }
    // Adding 1/2 leaves the whole number of 2^-24 in the last digits, rounded as sums are.
    float magnitude = __builtin_fabsf(x) + 0.5f;
    __builtin_memcpy(&bits, &magnitude, sizeof bits);
    return (unsigned short)(sign | (bits - 0x3f000000u));
}

struct __half {
    unsigned short bits;
    __half() = default;
    __half(float x) : bits(fuel_narrowed(x)) {}
    __half(double x);
    __half(__half_raw raw) : bits(raw.x) {}
    operator float() const { return fuel_widened(bits); }
};
using half = __half;

static inline float __half2float(__half h) { return fuel_widened(h.bits); }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline unsigned short __half_as_ushort(__half h) { return h.bits; }
static inline short __half_as_short(__half h) { return (short)h.bits; }
static inline __half __ushort_as_half(unsigned short x) { return __half(__half_raw{x}); }
static inline __half __short_as_half(short x) { return __half(__half_raw{(unsigned short)x}); }
static inline bool __hisnan(__half h) { return (h.bits & 0x7fffu) > 0x7c00u; }

// Through a float that is rounded to odd, so that the second rounding sees on which side of a tie the double is.
static inline float fuel_to_odd(double x) {
    float y = (float)x;
    unsigned int bits;
    __builtin_memcpy(&bits, &y, sizeof bits);
    if ((double)y != x && x == x && (bits & 0x7fffffffu) != 0x7f800000u) {
        bool above = y > 0 ? (double)y > x : (double)y < x; // in magnitude
        bits = above ? (bits - 1) | 1 : bits | 1;
        __builtin_memcpy(&y, &bits, sizeof y);
    }
    return y;
}

inline __half::__half(double x) : bits(fuel_narrowed(fuel_to_odd(x))) {}
static inline __half __double2half(double x) { return __half(x); }

#define FUEL_HALF_ARITHMETIC(type) \
    static inline type operator+(type a, type b) { return type((float)a + (float)b); } \
    static inline type operator-(type a, type b) { return type((float)a - (float)b); } \
    static inline type operator*(type a, type b) { return type((float)a * (float)b); } \
    static inline type operator/(type a, type b) { return type((float)a / (float)b); } \
    static inline type operator-(type a) { a.bits ^= 0x8000u; return a; } \
    static inline bool operator==(type a, type b) { return (float)a == (float)b; } \
    static inline bool operator!=(type a, type b) { return (float)a != (float)b; } \
    static inline bool operator<(type a, type b) { return (float)a < (float)b; } \
    static inline bool operator<=(type a, type b) { return (float)a <= (float)b; } \
    static inline bool operator>(type a, type b) { return (float)a > (float)b; } \
    static inline bool operator>=(type a, type b) { return (float)a >= (float)b; } \
    static inline type __hadd(type a, type b) { return a + b; } \
    static inline type __hsub(type a, type b) { return a - b; } \
    static inline type __hmul(type a, type b) { return a * b; } \
    static inline type __hdiv(type a, type b) { return a / b; } \
    static inline type __hneg(type a) { return -a; } \
    static inline type hsqrt(type a) { return type(__builtin_sqrtf((float)a)); }

FUEL_HALF_ARITHMETIC(__half)
