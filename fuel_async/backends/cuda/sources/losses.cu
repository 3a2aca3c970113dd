// The cross entropy of rows of scores against targets, and whether each row counts, in two arrays.
#include "elements.cuh"
#include "floats.cuh"
#include "lanes.cuh"
#include "exponentials.cuh"

struct Push {
    u32 ignored[2];
    u32 rows, row_rank, extent, source_at, targets_at, losses_at, counted_at, step;
    u32 row_size[6];
    u32 row_step[6];
    u32 targets_step[6];
};

extern "C" __global__ void kernel_main(
    const In *source, const u64 *targets, Out *losses, Out *counted, const Push p) {
    __shared__ Acc shared[THREADS];
    u32 lane = lane_number(), row = row_number(), rest = row;
    u32 end = row < p.rows ? p.extent : 0, from = p.source_at, by = p.targets_at;
#pragma unroll
    for (u32 k = 0; k < 6; k++) {
        if (k < p.row_rank) {
            u32 at = coordinate(rest, p.row_size[k]);
            from += at * p.row_step[k];
            by += at * p.targets_step[k];
        }
    }
    Acc most = -infinity(), sum = 0;
    for (u32 i = lane; i < end; i += LANES) {
        most = largest_of(most, loaded(source[from + i * p.step]));
    }
    most = over_lanes(shared, most, largest_of<Acc>);
    for (u32 i = lane; i < end; i += LANES) {
        sum += exact_exp(loaded(source[from + i * p.step]) - most);
    }
    sum = over_lanes(shared, sum, [](Acc a, Acc b) { return a + b; });
    if (lane == 0 && row < p.rows) {
        u64 wanted = targets[by], ignored = (u64)p.ignored[1] << 32 | p.ignored[0];
        bool counts = wanted != ignored;
        Acc loss = 0;
        if (counts && p.extent != 0) {
            u32 place = wanted >> 32 != 0 ? 0 : min((u32)wanted, p.extent - 1);
            loss = exact_log(sum) - (loaded(source[from + place * p.step]) - most);
        }
        losses[p.losses_at + row] = stored(loss);
        counted[p.counted_at + row] = stored(counts ? (Acc)1 : (Acc)0);
    }
}
