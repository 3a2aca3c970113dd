// Puts one number where a mask is not 0.
#include "elements.cuh"
#include "single.cuh"

struct Push {
    u32 fill[2];
    u32 count, rank, source_at, mask_at, target_at;
    u32 size[8];
    u32 source_step[8];
    u32 mask_step[8];
};

extern "C" __global__ void kernel_main(const Element *source, const u8 *mask, Element *target, const Push p) {
    u32 to = thread_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    u32 from = p.source_at, by = p.mask_at;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            by += at * p.mask_step[k];
        }
    }
    target[p.target_at + to] = mask[by] != 0 ? element_of(p.fill) : source[from];
}
