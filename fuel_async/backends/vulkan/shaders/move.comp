// Copies elements between two strided views of one shape.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { ELEMENT source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Target { ELEMENT target[]; };
layout(push_constant) uniform Push {
    uint count, rank, source_at, target_at;
    uint size[8];
    uint source_step[8];
    uint target_step[8];
} p;

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    from += at * p.source_step[k]; \
    to += at * p.target_step[k]; \
    rest /= p.size[k]; \
}

void main() {
    uint rest = invocation_number();
    if (rest >= p.count) {
        return;
    }
    uint from = p.source_at, to = p.target_at;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6) AXIS(7)
    target[to] = source[from];
}
