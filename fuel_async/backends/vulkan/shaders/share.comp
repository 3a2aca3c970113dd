// The gradient of a maximum: what comes from above, shared among the elements that equal the maximum.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
layout(set = 0, binding = 1, std430) readonly buffer Upstream { RAW upstream[]; };
layout(set = 0, binding = 2, std430) readonly buffer Maximum { ACC maximum[]; };
layout(set = 0, binding = 3, std430) readonly buffer Number { ACC number[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Target { OUT_RAW target[]; };
layout(push_constant) uniform Push {
    uint count, rank, source_at, upstream_at, maximum_at, number_at, target_at;
    uint size[6];
    uint source_step[6];
    uint upstream_step[6];
    uint row_step[6];
} p;

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    from += at * p.source_step[k]; \
    above += at * p.upstream_step[k]; \
    row += at * p.row_step[k]; \
    rest /= p.size[k]; \
}

void main() {
    uint to = invocation_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    uint from = p.source_at, above = p.upstream_at, row = 0;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5)
    ACC x = ACC(LOAD(source[from])), most = maximum[p.maximum_at + row];
    ACC part = ACC(LOAD(upstream[above])) / number[p.number_at + row];
    target[p.target_at + to] = STORE((is_same(x, most) && !is_nan(x) ? ACC(1.0) : ACC(0.0)) * part);
}
