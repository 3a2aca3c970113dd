// Copies elements between two strided views of one shape.
#include "elements.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, source_at, target_at;
    u32 size[8];
    u32 source_step[8];
    u32 target_step[8];
};

extern "C" __global__ void kernel_main(const Element *source, Element *target, const Push p) {
    u32 rest = thread_number();
    if (rest >= p.count) {
        return;
    }
    u32 from = p.source_at, to = p.target_at;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            to += at * p.target_step[k];
        }
    }
    target[to] = source[from];
}
