// Folds elements of a strided operand to one: sum, maximum or minimum, NaN where there is one.
//
// Each row is cut into chunks whose results lie one behind the other, all rows of the first chunk first; a second
// dispatch folds those. With COUNT it counts the elements that equal the row's value in a second operand.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "lanes.glsl"
layout(constant_id = 3) const uint FOLD = 0;
const uint SUM = 0, MAXIMUM = 1;

layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
#ifdef COUNT
layout(set = 0, binding = 1, std430) readonly buffer Equal { ACC equal[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { OUT_RAW target[]; };
#else
layout(set = 0, binding = 1, std430) writeonly buffer Target { OUT_RAW target[]; };
#endif
layout(push_constant) uniform Push {
    uint rows, chunks, extent, chunk, row_rank, rank, source_at, equal_at, target_at;
    // What the result is divided by; 0 for nothing.
    uint divisor, divides;
    uint row_size[5];
    uint row_step[5];
    uint size[5];
    uint step[5];
} p;

shared ACC partial[THREADS];

#define ROW_AXIS(k) if (p.row_rank > k) { \
    from += COORDINATE(k, rest, p.row_size) * p.row_step[k]; \
    rest /= p.row_size[k]; \
}
#define AXIS(k) if (p.rank > k) { at += COORDINATE(k, rest, p.size) * p.step[k]; rest /= p.size[k]; }

uint row_start(uint rest) {
    uint from = p.source_at;
    ROW_AXIS(0) ROW_AXIS(1) ROW_AXIS(2) ROW_AXIS(3) ROW_AXIS(4)
    return from;
}

uint place_in_row(uint rest) {
    uint at = 0;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4)
    return at;
}

ACC nothing() {
#if IN == 64
    return FOLD == SUM ? ACC(-0.0) : packDouble2x32(uvec2(0u, FOLD == MAXIMUM ? 0xfff00000u : 0x7ff00000u));
#else
    return FOLD == SUM ? -0.0 : uintBitsToFloat(FOLD == MAXIMUM ? 0xff800000u : 0x7f800000u);
#endif
}

ACC folded(ACC a, ACC b) {
    if (FOLD == SUM) {
        return a + b;
    }
    return FOLD == MAXIMUM ? LARGEST_OF(a, b) : SMALLEST_OF(a, b);
}

void main() {
    uint lane = lane_number(), number = group_number() * ROWS + row_in_group();
    uint row = number % p.rows, start = (number / p.rows) * p.chunk;
    bool exists = number < p.rows * p.chunks;
    uint end = exists ? min(start + p.chunk, p.extent) : 0u, from = row_start(row);
    ACC acc = nothing();
#ifdef COUNT
    ACC wanted = equal[p.equal_at + row];
#endif
    for (uint i = start + lane; i < end; i += LANES) {
        ACC x = ACC(LOAD(source[from + place_in_row(i)]));
#ifdef COUNT
        acc += is_same(x, wanted) && !is_nan(x) ? ACC(1.0) : ACC(0.0);
#else
        acc = folded(acc, x);
#endif
    }
    partial[gl_LocalInvocationIndex] = acc;
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        if (lane < reach) {
            uint other = gl_LocalInvocationIndex + reach * lane_step();
            partial[gl_LocalInvocationIndex] = folded(partial[gl_LocalInvocationIndex], partial[other]);
        }
        barrier();
    }
    if (exists && lane == 0) {
        ACC total = partial[gl_LocalInvocationIndex];
        if (FOLD == SUM && p.extent == 0) {
            total = ACC(0.0);
        }
        target[p.target_at + number] = STORE(p.divides != 0 ? total / ACC(p.divisor) : total);
    }
}
