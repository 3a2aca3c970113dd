// Adds elements to those that an index names along one axis; the target holds the base already.
//
// Each invocation has one element of the target and goes through the index for it, so sums have one order. With an axis
// longer than `last - first` several dispatches follow each other.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Index { uint index[]; };
layout(set = 0, binding = 1, std430) readonly buffer Source { RAW source[]; };
layout(set = 0, binding = 2, std430) buffer Target { ACC target[]; };
layout(push_constant) uniform Push {
    // Axis 0 of the target is the one that the index is for.
    uint count, rank, index_at, source_at, target_at, first, last, index_axis, source_axis, limit;
    uint size[5];
    uint index_step[5];
    uint source_step[5];
    uint target_step[5];
} p;

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    from += at * p.source_step[k]; \
    by += at * p.index_step[k]; \
    to += at * p.target_step[k]; \
    rest /= p.size[k]; \
    own = k == 0 ? at : own; \
}

void main() {
    uint rest = invocation_number();
    if (rest >= p.count) {
        return;
    }
    uint from = p.source_at, by = p.index_at, to = p.target_at, own = 0;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4)
    ACC sum = target[to];
    for (uint j = p.first; j < p.last; j++) {
        if (min(index[by + j * p.index_axis], p.limit) == own) {
            sum += ACC(LOAD(source[from + j * p.source_axis]));
        }
    }
    target[to] = sum;
}
