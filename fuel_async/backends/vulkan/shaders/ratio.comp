// One number divided by another.
#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer Above { float above[]; };
layout(set = 0, binding = 1, std430) readonly buffer Below { float below[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { float target[]; };
layout(push_constant) uniform Push { uint above_at, below_at, target_at; } p;

void main() {
    target[p.target_at] = above[p.above_at] / below[p.below_at];
}
