// Keeps a triangle of matrices and puts 0 in place of the rest.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { ELEMENT source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Target { ELEMENT target[]; };
layout(push_constant) uniform Push {
    uint count, rank, source_at, target_at, upper;
    int diagonal;
    uint size[8];
    uint source_step[8];
} p;

#define AXIS(k) if (p.rank > k) { from += COORDINATE(k, rest, p.size) * p.source_step[k]; rest /= p.size[k]; }

void main() {
    uint to = invocation_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    // Axes 0 and 1 are columns and rows, never folded.
    int column = int(COORDINATE(0, rest, p.size)), row = int(COORDINATE(1, (rest / p.size[0]), p.size));
    bool keep = p.upper != 0 ? row + p.diagonal <= column : row + p.diagonal >= column;
    uint from = p.source_at;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6) AXIS(7)
    if (keep) {
        target[p.target_at + to] = source[from];
    } else {
        target[p.target_at + to] = NOUGHT;
    }
}
