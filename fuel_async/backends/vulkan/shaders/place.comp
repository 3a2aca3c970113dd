// Writes a strided value into a slice whose place along one axis is read when it runs, in a ring where it wraps.
// That axis is outside of the others.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { ELEMENT source[]; };
layout(set = 0, binding = 1, std430) readonly buffer Place { uint place[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { ELEMENT target[]; };
layout(push_constant) uniform Push {
    uint count, rank, source_at, place_at, target_at, source_axis, target_axis, modulus, most, words;
    uint size[6];
    uint source_step[6];
    uint target_step[6];
} p;

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    from += at * p.source_step[k]; \
    to += at * p.target_step[k]; \
    rest /= p.size[k]; \
}

// Limited to what can be written: of a place out of range, which the host refuses, nothing is kept.
uint first_place() {
    uint low = place[p.place_at];
    if (p.words == 2) {
        uint high = place[p.place_at + 1];
        low = high >= 0x80000000u ? 0u : (high != 0u ? 0xfffffffeu : low);
    }
    return min(low % p.modulus, p.most);
}

void main() {
    uint rest = invocation_number();
    if (rest >= p.count) {
        return;
    }
    uint from = p.source_at, to = p.target_at;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5)
    uint along = first_place() + rest;
    along = along >= p.modulus ? along - p.modulus : along;
    target[to + along * p.target_axis] = source[from + rest * p.source_axis];
}
