// One number divided by another.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "floats.glsl"
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer Above { RAW above[]; };
layout(set = 0, binding = 1, std430) readonly buffer Below { RAW below[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { OUT_RAW target[]; };
layout(push_constant) uniform Push { uint above_at, below_at, target_at; } p;

void main() {
    target[p.target_at] = STORE(above[p.above_at] / below[p.below_at]);
}
