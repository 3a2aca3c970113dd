// Rotary position embedding, with the halves of a head as partners.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "single.glsl"
layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
layout(set = 0, binding = 1, std430) readonly buffer Cosines { RAW cosines[]; };
layout(set = 0, binding = 2, std430) readonly buffer Sines { RAW sines[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Target { OUT_RAW target[]; };
layout(push_constant) uniform Push {
    uint count, rank, head, positions, source_at, cosines_at, sines_at, target_at;
    uint step, position_step, cosine_step, cosine_position_step, sine_step, sine_position_step;
    uint size[8];
    uint source_step[8];
} p;

#define AXIS(k) if (p.rank > k) { from += COORDINATE(k, rest, p.size) * p.source_step[k]; rest /= p.size[k]; }

void main() {
    uint to = invocation_number();
    if (to >= p.count) {
        return;
    }
    uint rest = to / p.head, i = to - rest * p.head, middle = p.head / 2, position = rest % p.positions;
    rest /= p.positions;
    uint from = p.source_at + position * p.position_step;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6) AXIS(7)
    ACC x = ACC(LOAD(source[from + i * p.step]));
    ACC partner = ACC(LOAD(source[from + (i < middle ? i + middle : i - middle) * p.step]));
    ACC c = ACC(LOAD(cosines[p.cosines_at + position * p.cosine_position_step + i * p.cosine_step]));
    ACC s = ACC(LOAD(sines[p.sines_at + position * p.sine_position_step + i * p.sine_step]));
    precise ACC turned = partner * (i < middle ? -s : s), y = x * c + turned;
    target[p.target_at + to] = STORE(y);
}
