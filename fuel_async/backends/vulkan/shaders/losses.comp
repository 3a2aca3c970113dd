// The cross entropy of rows of scores against targets, and whether each row counts, in two arrays.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "lanes.glsl"
#include "exponentials.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Scores { RAW source[]; };
layout(set = 0, binding = 1, std430) readonly buffer Targets { uvec2 targets[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Losses { OUT_RAW losses[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Counted { OUT_RAW counted[]; };
layout(push_constant) uniform Push {
    uvec2 ignored;
    uint rows, row_rank, extent, source_at, targets_at, losses_at, counted_at, step;
    uint row_size[6];
    uint row_step[6];
    uint targets_step[6];
} p;

shared ACC partial[THREADS];

#define ROW_AXIS(k) if (p.row_rank > k) { \
    uint at = COORDINATE(k, rest, p.row_size); \
    from += at * p.row_step[k]; \
    by += at * p.targets_step[k]; \
    rest /= p.row_size[k]; \
}

void main() {
    uint me = gl_LocalInvocationIndex, lane = lane_number(), row = group_number() * ROWS + row_in_group();
    uint end = row < p.rows ? p.extent : 0u, from = p.source_at, by = p.targets_at, rest = row;
    ROW_AXIS(0) ROW_AXIS(1) ROW_AXIS(2) ROW_AXIS(3) ROW_AXIS(4) ROW_AXIS(5)
    ACC most = lowest(), sum = ACC(0.0);
    for (uint i = lane; i < end; i += LANES) {
        ACC x = LOAD(source[from + i * p.step]);
        most = LARGEST_OF(most, x);
    }
    partial[me] = most;
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        if (lane < reach) {
            ACC other = partial[me + reach * lane_step()];
            partial[me] = LARGEST_OF(partial[me], other);
        }
        barrier();
    }
    most = partial[me - lane * lane_step()];
    barrier();
    for (uint i = lane; i < end; i += LANES) {
        sum += exact_exp(LOAD(source[from + i * p.step]) - most);
    }
    partial[me] = sum;
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        if (lane < reach) {
            partial[me] += partial[me + reach * lane_step()];
        }
        barrier();
    }
    if (lane == 0 && row < p.rows) {
        uvec2 wanted = targets[by];
        bool counts = wanted != p.ignored;
        ACC loss = ACC(0.0);
        if (counts && p.extent != 0) {
            uint place = wanted.y != 0 ? 0u : min(wanted.x, p.extent - 1);
            loss = exact_log(partial[me]) - (LOAD(source[from + place * p.step]) - most);
        }
        losses[p.losses_at + row] = loss;
        counted[p.counted_at + row] = OUT_RAW(counts ? 1.0 : 0.0);
    }
}
