// The gradient of a pad along one axis: each element gets the sum of the places that show it. That axis is outside of
// the others.
#include "elements.cuh"
#include "floats.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, source_at, target_at, source_axis, target_axis, unpadded, before, after, mode;
    u32 size[7];
    u32 source_step[7];
    u32 target_step[7];
};

constexpr u32 REFLECT = 1, REPLICATE = 2;

extern "C" __global__ void kernel_main(const In *source, Out *target, const Push p) {
    u32 rest = thread_number();
    if (rest >= p.count) {
        return;
    }
    u32 from = p.source_at, to = p.target_at;
#pragma unroll
    for (u32 k = 0; k < 7; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            to += at * p.target_step[k];
        }
    }
    u32 i = rest, behind = p.unpadded - 1 - i;
    Acc sum = loaded(source[from + (i + p.before) * p.source_axis]);
    if (p.mode == REFLECT) {
        if (i > 0 && i <= p.before) {
            sum += loaded(source[from + (p.before - i) * p.source_axis]);
        }
        if (behind > 0 && behind <= p.after) {
            sum += loaded(source[from + (p.before + p.unpadded - 1 + behind) * p.source_axis]);
        }
    } else if (p.mode == REPLICATE) {
        u32 heads = i == 0 ? p.before : 0, tails = behind == 0 ? p.after : 0;
        for (u32 j = 0; j < heads; j++) {
            sum += loaded(source[from + j * p.source_axis]);
        }
        for (u32 j = 0; j < tails; j++) {
            sum += loaded(source[from + (p.before + p.unpadded + j) * p.source_axis]);
        }
    }
    target[to + i * p.target_axis] = stored(sum);
}
