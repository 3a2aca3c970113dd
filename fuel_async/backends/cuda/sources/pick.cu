// Takes elements along one axis by an index operand: gather, and index_select with an index repeated along the others.
#include "elements.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, source_at, index_at, target_at, axis_step, last;
    u32 size[8];
    u32 source_step[8];
    u32 index_step[8];
};

extern "C" __global__ void kernel_main(const Element *source, const u32 *index, Element *target, const Push p) {
    u32 to = thread_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    u32 from = p.source_at, by = p.index_at;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            by += at * p.index_step[k];
        }
    }
    target[p.target_at + to] = source[from + min(index[by], p.last) * p.axis_step];
}
