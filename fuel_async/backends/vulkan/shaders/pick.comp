// Takes elements along one axis by an index operand: gather, and index_select with an index repeated along the others.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { ELEMENT source[]; };
layout(set = 0, binding = 1, std430) readonly buffer Index { uint index[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { ELEMENT target[]; };
layout(push_constant) uniform Push {
    uint count, rank, source_at, index_at, target_at, axis_step, last;
    uint size[8];
    uint source_step[8];
    uint index_step[8];
} p;

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    from += at * p.source_step[k]; \
    by += at * p.index_step[k]; \
    rest /= p.size[k]; \
}

void main() {
    uint to = invocation_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    uint from = p.source_at, by = p.index_at;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6) AXIS(7)
    target[p.target_at + to] = source[from + min(index[by], p.last) * p.axis_step];
}
