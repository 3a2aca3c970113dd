// Running sums along an axis. Each lane adds up a piece of its row, and then goes on from the sums of those before it.
#include "elements.cuh"
#include "floats.cuh"
#include "lanes.cuh"

struct Push {
    u32 rows, row_rank, extent, source_at, target_at, step, target_step;
    u32 row_size[8];
    u32 row_step[8];
    u32 target_row_step[8];
};

extern "C" __global__ void kernel_main(const In *source, Out *target, const Push p) {
    __shared__ Acc partial[THREADS];
    u32 me = threadIdx.x, lane = lane_number(), row = row_number(), rest = row;
    u32 from = p.source_at, to = p.target_at, piece = (p.extent + LANES - 1) / LANES;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.row_rank) {
            u32 at = coordinate(rest, p.row_size[k]);
            from += at * p.row_step[k];
            to += at * p.target_row_step[k];
        }
    }
    u32 start = lane * piece, end = row < p.rows ? min(start + piece, p.extent) : 0;
    Acc sum = 0;
    for (u32 i = start; i < end; i++) {
        sum += loaded(source[from + i * p.step]);
    }
    partial[me] = sum;
    __syncthreads();
    for (u32 reach = 1; reach < LANES; reach *= 2) {
        Acc before = lane >= reach ? partial[me - reach * LANE_STEP] : (Acc)0;
        __syncthreads();
        partial[me] += before;
        __syncthreads();
    }
    sum = lane > 0 ? partial[me - LANE_STEP] : (Acc)0;
    for (u32 i = start; i < end; i++) {
        sum += loaded(source[from + i * p.step]);
        target[to + i * p.target_step] = stored(sum);
    }
}
