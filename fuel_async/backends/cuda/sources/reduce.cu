// Folds elements of a strided operand to one: sum, maximum or minimum, NaN where there is one.
//
// Each row is cut into chunks whose results lie one behind the other, all rows of the first chunk first; a second
// launch folds those. With COUNT it counts the elements that equal the row's value in a second operand.
#include "elements.cuh"
#include "floats.cuh"
#include "lanes.cuh"

#ifndef SPEC3
#define SPEC3 0
#endif
constexpr u32 SUM = 0, MAXIMUM = 1, FOLD = SPEC3;

struct Push {
    u32 rows, chunks, extent, chunk, row_rank, rank, source_at, equal_at, target_at;
    // What the result is divided by, where `divides` is not 0.
    u32 divisor, divides;
    u32 row_size[5];
    u32 row_step[5];
    u32 size[5];
    u32 step[5];
};

// What a fold of no elements gives; -0 is what leaves every sum as it is.
__device__ __forceinline__ Acc nothing() {
    return FOLD == SUM ? (Acc)-0.0f : (FOLD == MAXIMUM ? -infinity() : infinity());
}

__device__ __forceinline__ Acc folded(Acc a, Acc b) {
    return FOLD == SUM ? a + b : (FOLD == MAXIMUM ? largest_of(a, b) : smallest_of(a, b));
}

__device__ __forceinline__ u32 row_start(u32 rest, const Push &p) {
    u32 from = p.source_at;
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        if (k < p.row_rank) {
            from += coordinate(rest, p.row_size[k]) * p.row_step[k];
        }
    }
    return from;
}

__device__ __forceinline__ u32 place_in_row(u32 rest, const Push &p) {
    u32 at = 0;
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        if (k < p.rank) {
            at += coordinate(rest, p.size[k]) * p.step[k];
        }
    }
    return at;
}

#ifdef COUNT
extern "C" __global__ void kernel_main(const In *source, const Acc *equal, Out *target, const Push p) {
#else
extern "C" __global__ void kernel_main(const In *source, Out *target, const Push p) {
#endif
    __shared__ Acc partial[THREADS];
    u32 lane = lane_number(), number = row_number();
    u32 row = number % p.rows, start = number / p.rows * p.chunk;
    bool exists = number < p.rows * p.chunks;
    u32 end = exists ? min(start + p.chunk, p.extent) : 0, from = row_start(row, p);
    Acc acc = nothing();
#ifdef COUNT
    Acc wanted = equal[p.equal_at + row];
#endif
    for (u32 i = start + lane; i < end; i += LANES) {
        Acc x = loaded(source[from + place_in_row(i, p)]);
#ifdef COUNT
        acc += x == wanted ? (Acc)1 : (Acc)0;
#else
        acc = folded(acc, x);
#endif
    }
    Acc total = over_lanes(partial, acc, folded);
    if (exists && lane == 0) {
        if (FOLD == SUM && p.extent == 0) {
            total = 0;
        }
        target[p.target_at + number] = stored(p.divides != 0 ? total / (Acc)p.divisor : total);
    }
}
