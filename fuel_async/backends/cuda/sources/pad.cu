// Adds elements at the edges of axes: one number, or the operand's own, reflected or repeated.
#include "elements.cuh"
#include "single.cuh"

struct Push {
    u32 fill[2];
    u32 count, rank, source_at, target_at, mode;
    u32 size[6];
    u32 before[6];
    u32 unpadded[6];
    u32 source_step[6];
};

constexpr u32 CONSTANT = 0, REFLECT = 1;

extern "C" __global__ void kernel_main(const Element *source, Element *target, const Push p) {
    u32 to = thread_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    u32 from = p.source_at;
    bool outside = false;
#pragma unroll
    for (u32 k = 0; k < 6; k++) {
        if (k < p.rank) {
            int at = (int)coordinate(rest, p.size[k]) - (int)p.before[k], end = (int)p.unpadded[k] - 1;
            outside = outside || at < 0 || at > end;
            if (p.mode == REFLECT) {
                at = at < 0 ? -at : (at > end ? 2 * end - at : at);
            } else {
                at = min(max(at, 0), max(end, 0));
            }
            from += (u32)at * p.source_step[k];
        }
    }
    target[p.target_at + to] = outside && p.mode == CONSTANT ? element_of(p.fill) : source[from];
}
