// The place of the maximum or minimum along one axis: the first of equal ones, the first NaN if there is one.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "lanes.glsl"
layout(constant_id = 3) const uint LARGEST = 1;

layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Target { uint target[]; };
layout(push_constant) uniform Push {
    uint rows, extent, row_rank, source_at, target_at, step;
    uint row_size[8];
    uint row_step[8];
} p;

shared ACC values[THREADS];
shared uint places[THREADS];

#define ROW_AXIS(k) if (p.row_rank > k) { \
    from += COORDINATE(k, rest, p.row_size) * p.row_step[k]; \
    rest /= p.row_size[k]; \
}

uint row_start(uint rest) {
    uint from = p.source_at;
    ROW_AXIS(0) ROW_AXIS(1) ROW_AXIS(2) ROW_AXIS(3) ROW_AXIS(4) ROW_AXIS(5) ROW_AXIS(6) ROW_AXIS(7)
    return from;
}

// Whether `b` at `j` comes before `a` at `i`; nothing comes after everything.
const uint NOWHERE = 0xffffffffu;

bool better(ACC b, uint j, ACC a, uint i) {
    if (i == NOWHERE || j == NOWHERE) {
        return j != NOWHERE;
    }
    bool a_nan = is_nan(a), b_nan = is_nan(b);
    if (a_nan || b_nan) {
        return b_nan && (!a_nan || j < i);
    }
    return is_same(a, b) ? j < i : (LARGEST != 0 ? is_above(b, a) : is_above(a, b));
}

void main() {
    uint lane = lane_number(), row = group_number() * ROWS + row_in_group();
    uint end = row < p.rows ? p.extent : 0u, from = row_start(row), place = NOWHERE;
    ACC value = ACC(0.0);
    for (uint i = lane; i < end; i += LANES) {
        ACC x = ACC(LOAD(source[from + i * p.step]));
        if (better(x, i, value, place)) {
            value = x;
            place = i;
        }
    }
    uint me = gl_LocalInvocationIndex;
    values[me] = value;
    places[me] = place;
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        uint other = me + reach * lane_step();
        if (lane < reach && better(values[other], places[other], values[me], places[me])) {
            values[me] = values[other];
            places[me] = places[other];
        }
        barrier();
    }
    if (lane == 0 && row < p.rows) {
        target[p.target_at + row] = places[me];
    }
}
