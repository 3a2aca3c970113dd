// Writes a strided value into a slice whose place along one axis is read when it runs, in a ring where it wraps.
// That axis is outside of the others.
#include "elements.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, source_at, place_at, target_at, source_axis, target_axis, modulus, most, words;
    u32 size[6];
    u32 source_step[6];
    u32 target_step[6];
};

// Limited to what can be written: of a place out of range, which the host refuses, nothing is kept.
__device__ __forceinline__ u32 first_place(const u32 *place, const Push &p) {
    u32 low = place[p.place_at];
    if (p.words == 2) {
        u32 high = place[p.place_at + 1];
        low = high >= 0x80000000u ? 0u : (high != 0u ? 0xfffffffeu : low);
    }
    return min(low % p.modulus, p.most);
}

extern "C" __global__ void kernel_main(const Element *source, const u32 *place, Element *target, const Push p) {
    u32 rest = thread_number();
    if (rest >= p.count) {
        return;
    }
    u32 from = p.source_at, to = p.target_at;
#pragma unroll
    for (u32 k = 0; k < 6; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            to += at * p.target_step[k];
        }
    }
    u32 along = first_place(place, p) + rest;
    along = along >= p.modulus ? along - p.modulus : along;
    target[to + along * p.target_axis] = source[from + rest * p.source_axis];
}
