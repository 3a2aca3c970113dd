// __nv_bfloat16: the upper half of a float, rounded to the nearest, ties to even.
#pragma once

#include "cuda_fp16.h"

struct __nv_bfloat16_raw { unsigned short x; };

struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) {
        unsigned int whole;
        __builtin_memcpy(&whole, &x, sizeof whole);
        bool none = (whole & 0x7fffffffu) > 0x7f800000u; // every NaN becomes the one that the hardware gives
        bits = (unsigned short)(none ? 0x7fffu : (whole + 0x7fffu + (whole >> 16 & 1u)) >> 16);
    }
    __nv_bfloat16(double x) : __nv_bfloat16(fuel_to_odd(x)) {}
    __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
    operator float() const {
        unsigned int whole = (unsigned int)bits << 16;
        float x;
        __builtin_memcpy(&x, &whole, sizeof x);
        return x;
    }
};

static inline float __bfloat162float(__nv_bfloat16 h) { return (float)h; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
static inline short __bfloat16_as_short(__nv_bfloat16 h) { return (short)h.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16(__nv_bfloat16_raw{x}); }
static inline __nv_bfloat16 __short_as_bfloat16(short x) { return __ushort_as_bfloat16((unsigned short)x); }
static inline bool __hisnan(__nv_bfloat16 h) { return (h.bits & 0x7fffu) > 0x7f80u; }

FUEL_HALF_ARITHMETIC(__nv_bfloat16)
