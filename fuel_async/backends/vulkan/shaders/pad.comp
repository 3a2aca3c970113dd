// Adds elements at the edges of axes: one number, or the operand's own, reflected or repeated.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { ELEMENT source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Target { ELEMENT target[]; };
layout(push_constant) uniform Push {
    uvec2 fill;
    uint count, rank, source_at, target_at, mode;
    uint size[6];
    uint before[6];
    uint unpadded[6];
    uint source_step[6];
} p;
const uint REFLECT = 1;

#define AXIS(k) if (p.rank > k) { \
    int at = int(COORDINATE(k, rest, p.size)) - int(p.before[k]), end = int(p.unpadded[k]) - 1; \
    outside = outside || at < 0 || at > end; \
    at = p.mode == REFLECT ? (at < 0 ? -at : (at > end ? 2 * end - at : at)) : clamp(at, 0, max(end, 0)); \
    from += uint(at) * p.source_step[k]; \
    rest /= p.size[k]; \
}

void main() {
    uint to = invocation_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    uint from = p.source_at;
    bool outside = false;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5)
    if (outside && p.mode == 0) {
        target[p.target_at + to] = FILL;
    } else {
        target[p.target_at + to] = source[from];
    }
}
