// The gradient of a maximum: what comes from above, shared among the elements that equal the maximum.
#include "elements.cuh"
#include "floats.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, source_at, upstream_at, maximum_at, number_at, target_at;
    u32 size[6];
    u32 source_step[6];
    u32 upstream_step[6];
    u32 row_step[6];
};

extern "C" __global__ void kernel_main(
    const In *source, const In *upstream, const Acc *maximum, const Acc *number, Out *target, const Push p) {
    u32 to = thread_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    u32 from = p.source_at, above = p.upstream_at, row = 0;
#pragma unroll
    for (u32 k = 0; k < 6; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            above += at * p.upstream_step[k];
            row += at * p.row_step[k];
        }
    }
    Acc part = loaded(upstream[above]) / number[p.number_at + row];
    bool same = loaded(source[from]) == maximum[p.maximum_at + row];
    target[p.target_at + to] = stored((same ? (Acc)1 : (Acc)0) * part);
}
