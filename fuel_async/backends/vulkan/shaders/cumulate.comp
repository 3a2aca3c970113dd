// Running sums along an axis. Each lane adds up a piece of its row, and then goes on from the sums of those before it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "lanes.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Target { OUT_RAW target[]; };
layout(push_constant) uniform Push {
    uint rows, row_rank, extent, source_at, target_at, step, target_step;
    uint row_size[8];
    uint row_step[8];
    uint target_row_step[8];
} p;

shared ACC partial[THREADS];

#define ROW_AXIS(k) if (p.row_rank > k) { \
    uint at = COORDINATE(k, rest, p.row_size); \
    from += at * p.row_step[k]; \
    to += at * p.target_row_step[k]; \
    rest /= p.row_size[k]; \
}

void main() {
    uint me = gl_LocalInvocationIndex, lane = lane_number(), row = group_number() * ROWS + row_in_group(), rest = row;
    uint from = p.source_at, to = p.target_at, piece = (p.extent + LANES - 1) / LANES;
    ROW_AXIS(0) ROW_AXIS(1) ROW_AXIS(2) ROW_AXIS(3) ROW_AXIS(4) ROW_AXIS(5) ROW_AXIS(6) ROW_AXIS(7)
    uint start = lane * piece, end = row < p.rows ? min(start + piece, p.extent) : 0u;
    ACC sum = ACC(0.0);
    for (uint i = start; i < end; i++) {
        sum += ACC(LOAD(source[from + i * p.step]));
    }
    partial[me] = sum;
    barrier();
    for (uint reach = 1; reach < LANES; reach *= 2) {
        ACC before = lane >= reach ? partial[me - reach * lane_step()] : ACC(0.0);
        barrier();
        partial[me] += before;
        barrier();
    }
    sum = lane > 0 ? partial[me - lane_step()] : ACC(0.0);
    for (uint i = start; i < end; i++) {
        sum += ACC(LOAD(source[from + i * p.step]));
        target[to + i * p.target_step] = STORE(sum);
    }
}
