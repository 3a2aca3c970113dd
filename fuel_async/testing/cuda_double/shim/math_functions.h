// Functions of math: those of the C library, under the names and for the types that CUDA C has.
#pragma once

#define FUEL_UNARY(name) \
    extern "C" double name(double); \
    extern "C" float name##f(float); \
    static inline float name(float x) { return name##f(x); }
#define FUEL_BINARY(name) \
    extern "C" double name(double, double); \
    extern "C" float name##f(float, float); \
    static inline float name(float x, float y) { return name##f(x, y); }

FUEL_UNARY(acos)
FUEL_UNARY(acosh)
FUEL_UNARY(asin)
FUEL_UNARY(asinh)
FUEL_UNARY(atan)
FUEL_UNARY(atanh)
FUEL_UNARY(cbrt)
FUEL_UNARY(ceil)
FUEL_UNARY(cos)
FUEL_UNARY(cosh)
FUEL_UNARY(erf)
FUEL_UNARY(erfc)
FUEL_UNARY(exp)
FUEL_UNARY(exp2)
FUEL_UNARY(expm1)
FUEL_UNARY(fabs)
FUEL_UNARY(floor)
FUEL_UNARY(log)
FUEL_UNARY(log10)
FUEL_UNARY(log1p)
FUEL_UNARY(log2)
FUEL_UNARY(nearbyint)
FUEL_UNARY(rint)
FUEL_UNARY(round)
FUEL_UNARY(sin)
FUEL_UNARY(sinh)
FUEL_UNARY(sqrt)
FUEL_UNARY(tan)
FUEL_UNARY(tanh)
FUEL_UNARY(trunc)
FUEL_BINARY(atan2)
FUEL_BINARY(copysign)
FUEL_BINARY(fdim)
FUEL_BINARY(fmax)
FUEL_BINARY(fmin)
FUEL_BINARY(fmod)
FUEL_BINARY(hypot)
FUEL_BINARY(nextafter)
FUEL_BINARY(pow)
FUEL_BINARY(remainder)
#undef FUEL_UNARY
#undef FUEL_BINARY

extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
static inline float ldexp(float x, int n) { return ldexpf(x, n); }
static inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
static inline float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }

static inline bool isnan(float x) { return __builtin_isnan(x); }
static inline bool isnan(double x) { return __builtin_isnan(x); }
static inline bool isinf(float x) { return __builtin_isinf(x); }
static inline bool isinf(double x) { return __builtin_isinf(x); }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline bool isfinite(double x) { return __builtin_isfinite(x); }
static inline bool signbit(float x) { return __builtin_signbit(x); }
static inline bool signbit(double x) { return __builtin_signbit(x); }

extern "C" int abs(int);
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }

// Of floats the one that is a number, as fmin and fmax have it; of a signed and an unsigned number both are unsigned.
#define FUEL_EXTREMES(type) \
    static inline type min(type a, type b) { return b < a ? b : a; } \
    static inline type max(type a, type b) { return a < b ? b : a; }
#define FUEL_MIXED(type, other) \
    static inline type min(type a, other b) { return min(a, (type)b); } \
    static inline type min(other a, type b) { return min((type)a, b); } \
    static inline type max(type a, other b) { return max(a, (type)b); } \
    static inline type max(other a, type b) { return max((type)a, b); }

FUEL_EXTREMES(int)
FUEL_EXTREMES(unsigned int)
FUEL_EXTREMES(long long)
FUEL_EXTREMES(unsigned long long)
FUEL_MIXED(unsigned int, int)
FUEL_MIXED(unsigned long long, long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
FUEL_MIXED(double, float)
#undef FUEL_EXTREMES
#undef FUEL_MIXED
