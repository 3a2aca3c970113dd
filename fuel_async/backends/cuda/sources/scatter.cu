// Adds elements to those that an index names along one axis; the target holds the base already.
//
// Each thread has one element of the target and goes through the index for it, so sums have one order. With an axis
// longer than `last - first` several launches follow each other.
#include "elements.cuh"
#include "floats.cuh"
#include "single.cuh"

struct Push {
    // Axis 0 of the target is the one that the index is for.
    u32 count, rank, index_at, source_at, target_at, first, last, index_axis, source_axis, limit;
    u32 size[5];
    u32 index_step[5];
    u32 source_step[5];
    u32 target_step[5];
};

extern "C" __global__ void kernel_main(const u32 *index, const In *source, Acc *target, const Push p) {
    u32 rest = thread_number();
    if (rest >= p.count) {
        return;
    }
    u32 from = p.source_at, by = p.index_at, to = p.target_at, own = 0;
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            by += at * p.index_step[k];
            to += at * p.target_step[k];
            own = k == 0 ? at : own;
        }
    }
    Acc sum = target[to];
    for (u32 j = p.first; j < p.last; j++) {
        if (min(index[by + j * p.index_axis], p.limit) == own) {
            sum += loaded(source[from + j * p.source_axis]);
        }
    }
    target[to] = sum;
}
