// Floats of three sizes, computed in float or double: IN and OUT say the bits of an element as it lies in memory.
// Elements of 16 bits are __half, or __nv_bfloat16 where SPEC4 is 1.
#ifndef OUT
#define OUT IN
#endif
#ifndef SPEC4
#define SPEC4 0
#endif

#if IN == 16 || OUT == 16
#if SPEC4
#include <cuda_bf16.h>
typedef __nv_bfloat16 Half;
__device__ __forceinline__ float widened(Half x) { return __bfloat162float(x); }
__device__ __forceinline__ Half narrowed(float x) { return __float2bfloat16_rn(x); }
#else
#include <cuda_fp16.h>
typedef __half Half;
__device__ __forceinline__ float widened(Half x) { return __half2float(x); }
__device__ __forceinline__ Half narrowed(float x) { return __float2half_rn(x); }
#endif
#endif

#if IN == 64 || OUT == 64
typedef double Acc;
#else
typedef float Acc;
#endif

#if IN == 16
typedef Half In;
__device__ __forceinline__ Acc loaded(In x) { return widened(x); }
#elif IN == 32
typedef float In;
__device__ __forceinline__ Acc loaded(In x) { return x; }
#else
typedef double In;
__device__ __forceinline__ Acc loaded(In x) { return x; }
#endif

#if OUT == 16
typedef Half Out;
__device__ __forceinline__ Out stored(Acc x) { return narrowed((float)x); }
#elif OUT == 32
typedef float Out;
__device__ __forceinline__ Out stored(Acc x) { return (Out)x; }
#else
typedef double Out;
__device__ __forceinline__ Out stored(Acc x) { return x; }
#endif

template <class T> __device__ __forceinline__ bool is_nan(T x) { return x != x; }

// The larger or smaller one, NaN where there is one; of equal ones the first.
template <class T> __device__ __forceinline__ T largest_of(T a, T b) {
    return is_nan(a) ? a : (is_nan(b) || b > a ? b : a);
}

template <class T> __device__ __forceinline__ T smallest_of(T a, T b) {
    return is_nan(a) ? a : (is_nan(b) || b < a ? b : a);
}

__device__ __forceinline__ Acc infinity() { return (Acc)__uint_as_float(0x7f800000u); }
