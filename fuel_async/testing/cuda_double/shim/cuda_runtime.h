// CUDA C on a CPU: what kernels find without including anything. Included before each program; no standard headers, so
// that a program compiles in a few milliseconds and has no names that NVRTC does not give it.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

using size_t = decltype(sizeof 0);

#include "vector_types.h"

static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

#include "atomics.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "fibers.h"
#include "launching.h"
#include "math_functions.h"
#include "numbers.h"
