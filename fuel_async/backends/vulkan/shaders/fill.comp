// Puts one number where a mask is not 0.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { ELEMENT source[]; };
layout(set = 0, binding = 1, std430) readonly buffer Mask { uint8_t mask[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { ELEMENT target[]; };
layout(push_constant) uniform Push {
    uvec2 fill;
    uint count, rank, source_at, mask_at, target_at;
    uint size[8];
    uint source_step[8];
    uint mask_step[8];
} p;

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    from += at * p.source_step[k]; \
    by += at * p.mask_step[k]; \
    rest /= p.size[k]; \
}

void main() {
    uint to = invocation_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    uint from = p.source_at, by = p.mask_at;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6) AXIS(7)
    if (uint(mask[by]) != 0u) {
        target[p.target_at + to] = FILL;
    } else {
        target[p.target_at + to] = source[from];
    }
}
