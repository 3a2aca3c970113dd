// The gradient of a pad along one axis: each element gets the sum of the places that show it. That axis is outside of
// the others.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Target { OUT_RAW target[]; };
layout(push_constant) uniform Push {
    uint count, rank, source_at, target_at, source_axis, target_axis, unpadded, before, after, mode;
    uint size[7];
    uint source_step[7];
    uint target_step[7];
} p;
const uint REFLECT = 1, REPLICATE = 2;

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
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6)
    uint i = rest, behind = p.unpadded - 1 - i;
    ACC sum = ACC(LOAD(source[from + (i + p.before) * p.source_axis]));
    if (p.mode == REFLECT) {
        if (i > 0 && i <= p.before) {
            sum += ACC(LOAD(source[from + (p.before - i) * p.source_axis]));
        }
        if (behind > 0 && behind <= p.after) {
            sum += ACC(LOAD(source[from + (p.before + p.unpadded - 1 + behind) * p.source_axis]));
        }
    } else if (p.mode == REPLICATE) {
        uint heads = i == 0 ? p.before : 0u, tails = behind == 0 ? p.after : 0u;
        for (uint j = 0; j < heads; j++) {
            sum += ACC(LOAD(source[from + j * p.source_axis]));
        }
        for (uint j = 0; j < tails; j++) {
            sum += ACC(LOAD(source[from + (p.before + p.unpadded + j) * p.source_axis]));
        }
    }
    target[to + i * p.target_axis] = STORE(sum);
}
