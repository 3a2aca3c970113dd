// Bits of numbers, conversions between kinds of numbers, and arithmetic whose rounding is named.
#pragma once

#define FUEL_BITS(name, to, from) \
    static inline to name(from x) { \
        to y; \
        __builtin_memcpy(&y, &x, sizeof y); \
        return y; \
    }

FUEL_BITS(__float_as_uint, unsigned int, float)
FUEL_BITS(__float_as_int, int, float)
FUEL_BITS(__uint_as_float, float, unsigned int)
FUEL_BITS(__int_as_float, float, int)
FUEL_BITS(__double_as_longlong, long long, double)
FUEL_BITS(__longlong_as_double, double, long long)
#undef FUEL_BITS

static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)high << 32 | (unsigned int)low);
}

// Conversions to whole numbers saturate. What becomes of NaN is told by PTX, cvt: 0, and with a double or a whole number
// of 64 bits on either side the highest bit alone.
#define FUEL_WHOLE(name, to, from, low, high, none, round) \
    static inline to name(from x) { \
        from y = round(x); \
        return y != y ? (to)(none) : (y <= (from)(low) ? (to)(low) : (y >= (from)(high) ? (to)(high) : (to)y)); \
    }
#define FUEL_WHOLES(name, from, nan32, suffix) \
    FUEL_WHOLE(__##name##2int_rz, int, from, -0x7fffffff - 1, 0x7fffffff, nan32, __builtin_trunc##suffix) \
    FUEL_WHOLE(__##name##2int_rn, int, from, -0x7fffffff - 1, 0x7fffffff, nan32, __builtin_rint##suffix) \
    FUEL_WHOLE(__##name##2int_rd, int, from, -0x7fffffff - 1, 0x7fffffff, nan32, __builtin_floor##suffix) \
    FUEL_WHOLE(__##name##2int_ru, int, from, -0x7fffffff - 1, 0x7fffffff, nan32, __builtin_ceil##suffix) \
    FUEL_WHOLE(__##name##2uint_rz, unsigned int, from, 0, 0xffffffffu, nan32, __builtin_trunc##suffix) \
    FUEL_WHOLE(__##name##2uint_rn, unsigned int, from, 0, 0xffffffffu, nan32, __builtin_rint##suffix) \
    FUEL_WHOLE(__##name##2ll_rz, long long, from, -0x7fffffffffffffffll - 1, 0x7fffffffffffffffll, 1ull << 63, __builtin_trunc##suffix) \
    FUEL_WHOLE(__##name##2ll_rn, long long, from, -0x7fffffffffffffffll - 1, 0x7fffffffffffffffll, 1ull << 63, __builtin_rint##suffix) \
    FUEL_WHOLE(__##name##2ull_rz, unsigned long long, from, 0, 0xffffffffffffffffull, 1ull << 63, __builtin_trunc##suffix) \
    FUEL_WHOLE(__##name##2ull_rn, unsigned long long, from, 0, 0xffffffffffffffffull, 1ull << 63, __builtin_rint##suffix)

FUEL_WHOLES(float, float, 0, f)
FUEL_WHOLES(double, double, 0x80000000u, )
#undef FUEL_WHOLES
#undef FUEL_WHOLE

// The compiler is told not to contract, and to the nearest is how the CPU rounds.
#define FUEL_ROUNDED(prefix, type, root, fused) \
    static inline type __##prefix##add_rn(type a, type b) { return a + b; } \
    static inline type __##prefix##sub_rn(type a, type b) { return a - b; } \
    static inline type __##prefix##mul_rn(type a, type b) { return a * b; } \
    static inline type __##prefix##div_rn(type a, type b) { return a / b; } \
    static inline type __##prefix##sqrt_rn(type a) { return root(a); } \
    static inline type __##prefix##rcp_rn(type a) { return 1 / a; }

FUEL_ROUNDED(f, float, __builtin_sqrtf, __builtin_fmaf)
FUEL_ROUNDED(d, double, __builtin_sqrt, __builtin_fma)
#undef FUEL_ROUNDED
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }

static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned int x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned int x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline double __ull2double_rn(unsigned long long x) { return (double)x; }

static inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
    return (unsigned int)((unsigned long long)a * b >> 32);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

template <class T> static inline T __ldg(const T *at) { return *at; }
