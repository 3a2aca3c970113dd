// The place of the maximum or minimum along one axis: the first of equal ones, the first NaN if there is one.
#include "elements.cuh"
#include "floats.cuh"
#include "lanes.cuh"

#ifndef SPEC3
#define SPEC3 1
#endif
constexpr bool LARGEST = SPEC3 != 0;
constexpr u32 NOWHERE = 0xffffffffu;

struct Push {
    u32 rows, extent, row_rank, source_at, target_at, step;
    u32 row_size[8];
    u32 row_step[8];
};

struct Found {
    Acc value;
    u32 place;
};

// The one of two that comes first; nothing comes after everything.
__device__ __forceinline__ bool better(const Found &b, const Found &a) {
    if (a.place == NOWHERE || b.place == NOWHERE) {
        return b.place != NOWHERE;
    }
    bool a_nan = is_nan(a.value), b_nan = is_nan(b.value);
    if (a_nan || b_nan) {
        return b_nan && (!a_nan || b.place < a.place);
    }
    if (a.value == b.value) {
        return b.place < a.place;
    }
    return LARGEST ? b.value > a.value : b.value < a.value;
}

__device__ __forceinline__ Found best_of(const Found &a, const Found &b) {
    return better(b, a) ? b : a;
}

extern "C" __global__ void kernel_main(const In *source, u32 *target, const Push p) {
    __shared__ Found shared[THREADS];
    u32 lane = lane_number(), row = row_number(), rest = row;
    u32 end = row < p.rows ? p.extent : 0, from = p.source_at;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.row_rank) {
            from += coordinate(rest, p.row_size[k]) * p.row_step[k];
        }
    }
    Found found = {0, NOWHERE};
    for (u32 i = lane; i < end; i += LANES) {
        found = best_of(found, Found{loaded(source[from + i * p.step]), i});
    }
    found = over_lanes(shared, found, best_of);
    if (lane == 0 && row < p.rows) {
        target[p.target_at + row] = found.place;
    }
}
