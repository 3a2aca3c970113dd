// Normalisations along the last axis and their gradients, one of them chosen by a macro.
//
// Each row is walked two or three times by LANES invocations; an element is written by the invocation that read it last,
// so the output may be an input.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "floats.glsl"
#include "lanes.glsl"
#include "exponentials.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Source { RAW source[]; };
#ifdef BACKWARD
layout(set = 0, binding = 1, std430) readonly buffer Upstream { RAW upstream[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Target { OUT_RAW target[]; };
#else
layout(set = 0, binding = 1, std430) writeonly buffer Target { OUT_RAW target[]; };
#endif
layout(push_constant) uniform Push {
    // A float in the first word, or a double in both.
    uvec2 eps;
    uint rows, row_rank, extent, source_at, upstream_at, target_at, step, upstream_step;
    uint row_size[6];
    uint row_step[6];
    uint upstream_row_step[6];
} p;

shared ACC partial[THREADS];

#define ROW_AXIS(k) if (p.row_rank > k) { \
    uint at = COORDINATE(k, rest, p.row_size); \
    from += at * p.row_step[k]; \
    above += at * p.upstream_row_step[k]; \
    rest /= p.row_size[k]; \
}

uint me, lane, row, from, above, end;

void find_row() {
    me = gl_LocalInvocationIndex;
    lane = lane_number();
    row = group_number() * ROWS + row_in_group();
    end = row < p.rows ? p.extent : 0u;
    from = p.source_at;
    above = p.upstream_at;
    uint rest = row;
    ROW_AXIS(0) ROW_AXIS(1) ROW_AXIS(2) ROW_AXIS(3) ROW_AXIS(4) ROW_AXIS(5)
}

ACC x_at(uint i) {
    return ACC(LOAD(source[from + i * p.step]));
}

#ifdef BACKWARD
ACC g_at(uint i) {
    return ACC(LOAD(upstream[above + i * p.upstream_step]));
}
#endif

void put(uint i, ACC y) {
    target[p.target_at + row * p.extent + i] = STORE(y);
}

// The sum over all lanes of a row, in each of them. Every invocation calls it.
ACC whole_row(ACC part) {
    partial[me] = part;
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        if (lane < reach) {
            partial[me] += partial[me + reach * lane_step()];
        }
        barrier();
    }
    ACC total = partial[me - lane * lane_step()];
    barrier();
    return total;
}

// The same for maxima, of which a NaN is one.
ACC row_maximum(ACC part) {
    partial[me] = part;
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        if (lane < reach) {
            ACC other = partial[me + reach * lane_step()];
            partial[me] = LARGEST_OF(partial[me], other);
        }
        barrier();
    }
    ACC total = partial[me - lane * lane_step()];
    barrier();
    return total;
}

ACC eps() {
#if IN == 64
    return packDouble2x32(p.eps);
#else
    return uintBitsToFloat(p.eps.x);
#endif
}

#define EACH(statement) for (uint i = lane; i < end; i += LANES) { statement; }

#if defined(SOFTMAX) || defined(LOG_SOFTMAX)
void work() {
    ACC most = lowest(), sum = ACC(0.0);
    EACH(ACC x = x_at(i); most = LARGEST_OF(most, x))
    most = row_maximum(most);
    EACH(sum += exact_exp(x_at(i) - most))
    sum = whole_row(sum);
#ifdef SOFTMAX
    EACH(put(i, exact_exp(x_at(i) - most) / sum))
#else
    sum = exact_log(sum);
    EACH(put(i, (x_at(i) - most) - sum))
#endif
}
#elif defined(LAYER_NORM)
void work() {
    ACC sum = ACC(0.0), square = ACC(0.0), length = ACC(p.extent);
    EACH(sum += x_at(i))
    ACC mean = whole_row(sum) / length;
    EACH(ACC y = x_at(i) - mean; square += y * y)
    ACC deviation = sqrt(whole_row(square) / length + eps());
    EACH(put(i, (x_at(i) - mean) / deviation))
}
#elif defined(RMS_NORM)
void work() {
    ACC square = ACC(0.0);
    EACH(ACC x = x_at(i); square += x * x)
    ACC size = sqrt(whole_row(square) / ACC(p.extent) + eps());
    EACH(put(i, x_at(i) / size))
}
#elif defined(SOFTMAX_BACKWARD)
void work() {
    ACC along = ACC(0.0);
    EACH(along += x_at(i) * g_at(i))
    along = whole_row(along);
    EACH(put(i, (g_at(i) - along) * x_at(i)))
}
#elif defined(LOG_SOFTMAX_BACKWARD)
void work() {
    ACC sum = ACC(0.0);
    EACH(sum += g_at(i))
    sum = whole_row(sum);
    EACH(put(i, g_at(i) - exact_exp(x_at(i)) * sum))
}
#elif defined(RMS_NORM_BACKWARD)
void work() {
    ACC square = ACC(0.0), along = ACC(0.0), length = ACC(p.extent);
    EACH(ACC x = x_at(i); square += x * x; along += x * g_at(i))
    square = whole_row(square) / length + eps();
    along = whole_row(along) / length / square;
    ACC size = sqrt(square);
    EACH(put(i, (g_at(i) - x_at(i) * along) / size))
}
#elif defined(LAYER_NORM_BACKWARD)
void work() {
    ACC sum = ACC(0.0), upper = ACC(0.0), square = ACC(0.0), along = ACC(0.0), length = ACC(p.extent);
    EACH(sum += x_at(i); upper += g_at(i))
    ACC mean = whole_row(sum) / length;
    upper = whole_row(upper) / length;
    EACH(ACC y = x_at(i) - mean; square += y * y; along += y * g_at(i))
    square = whole_row(square) / length + eps();
    along = whole_row(along) / length / square;
    ACC deviation = sqrt(square);
    EACH(put(i, (g_at(i) - ((x_at(i) - mean) * along + upper)) / deviation))
}
#endif

void main() {
    find_row();
    work();
}
