// Matrix products over batches, by tiles in shared memory. Operands are read through their strides, and an operand that
// serves several batches is repeated by a stride of 0.
//
// A workgroup has a tile of TILE_M · TILE_N, an invocation EACH · EACH elements of it, `TILE_M / EACH` rows apart. Sums
// over k are cut into splits, whose results lie one behind the other and are added up by another dispatch.
// With BITS 8 elements are integers, and their sums, which are exact, are limited to the range of the type.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "elements.glsl"
#if defined(IN)
#include "floats.glsl"
#else
#define RAW uint8_t
#define OUT_RAW uint8_t
#define ACC int
#define LOAD(x) (SIGNED != 0 ? bitfieldExtract(int(x), 0, 8) : int(x))
layout(constant_id = 4) const uint SIGNED = 0;
#endif
layout(constant_id = 0) const uint ACROSS = 16;
layout(constant_id = 1) const uint DOWN = 16;
// Which axis of an operand its loads go along: 1 for k.
layout(constant_id = 2) const uint LEFT_ALONG_K = 1;
layout(constant_id = 3) const uint RIGHT_ALONG_K = 0;
layout(local_size_x_id = 0, local_size_y_id = 1) in;
#ifndef EACH
#define EACH 1
#endif
const uint DEPTH = 16, THREADS = ACROSS * DOWN, TILE_M = DOWN * EACH, TILE_N = ACROSS * EACH;

layout(set = 0, binding = 0, std430) readonly buffer Left { RAW left[]; };
layout(set = 0, binding = 1, std430) readonly buffer Right { RAW right[]; };
#ifdef BIAS
layout(set = 0, binding = 2, std430) readonly buffer Bias { RAW bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Target { OUT_RAW target[]; };
#else
layout(set = 0, binding = 2, std430) writeonly buffer Target { OUT_RAW target[]; };
#endif
layout(push_constant) uniform Push {
    uint batches, splits, m, n, k, depth, left_at, right_at, bias_at, target_at, rank;
    uint left_row, left_step, right_row, right_step, bias_step;
    uint size[5];
    uint left_batch[5];
    uint right_batch[5];
} p;

// One more than a row has: what lies along k is then written without conflicts of banks.
const uint LEFT_ROW = TILE_M + 1, RIGHT_ROW = TILE_N + 1;
shared ACC lefts[DEPTH * LEFT_ROW];
shared ACC rights[DEPTH * RIGHT_ROW];

#define AXIS(k) if (p.rank > k) { \
    uint at = COORDINATE(k, rest, p.size); \
    left_from += at * p.left_batch[k]; \
    right_from += at * p.right_batch[k]; \
    rest /= p.size[k]; \
}

void main() {
    uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y, me = gl_LocalInvocationIndex;
    uint columns = (p.n + TILE_N - 1) / TILE_N, rows = (p.m + TILE_M - 1) / TILE_M;
    uint number = group_number(), column = number % columns * TILE_N, row = number / columns % rows * TILE_M;
    uint plane = number / (columns * rows), batch = plane % p.batches, part = plane / p.batches, rest = batch;
    bool exists = part < p.splits;
    uint left_from = p.left_at, right_from = p.right_at;
    AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4)
    uint start = part * p.depth, end = exists ? min(start + p.depth, p.k) : start;

    ACC acc[EACH][EACH];
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        [[unroll]] for (uint j = 0; j < EACH; j++) {
            acc[i][j] = ACC(0);
        }
    }
#ifndef IN
    // What is over 2^16 of each sum: so many terms cannot leave the range of int in between.
    ACC high[EACH][EACH];
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        [[unroll]] for (uint j = 0; j < EACH; j++) {
            high[i][j] = 0;
        }
    }
#endif
    for (uint base = start; base < end; base += DEPTH) {
        for (uint e = me; e < DEPTH * TILE_M; e += THREADS) {
            uint kk = LEFT_ALONG_K != 0 ? e % DEPTH : e / TILE_M, i = LEFT_ALONG_K != 0 ? e / DEPTH : e % TILE_M;
            bool inside = base + kk < end && row + i < p.m;
            uint at = left_from + (row + i) * p.left_row + (base + kk) * p.left_step;
            lefts[kk * LEFT_ROW + i] = inside ? ACC(LOAD(left[inside ? at : p.left_at])) : ACC(0);
        }
        for (uint e = me; e < DEPTH * TILE_N; e += THREADS) {
            uint kk = RIGHT_ALONG_K != 0 ? e % DEPTH : e / TILE_N, j = RIGHT_ALONG_K != 0 ? e / DEPTH : e % TILE_N;
            bool inside = base + kk < end && column + j < p.n;
            uint at = right_from + (base + kk) * p.right_row + (column + j) * p.right_step;
            rights[kk * RIGHT_ROW + j] = inside ? ACC(LOAD(right[inside ? at : p.right_at])) : ACC(0);
        }
        barrier();
        [[unroll]] for (uint kk = 0; kk < DEPTH; kk++) {
            ACC ours[EACH], theirs[EACH];
            [[unroll]] for (uint i = 0; i < EACH; i++) {
                ours[i] = lefts[kk * LEFT_ROW + i * DOWN + y];
                theirs[i] = rights[kk * RIGHT_ROW + i * ACROSS + x];
            }
            [[unroll]] for (uint i = 0; i < EACH; i++) {
                [[unroll]] for (uint j = 0; j < EACH; j++) {
                    acc[i][j] += ours[i] * theirs[j];
                }
            }
        }
#ifndef IN
        [[unroll]] for (uint i = 0; i < EACH; i++) {
            [[unroll]] for (uint j = 0; j < EACH; j++) {
                high[i][j] += acc[i][j] >> 16;
                acc[i][j] &= 0xffff;
            }
        }
#endif
        barrier();
    }
    if (!exists) {
        return;
    }
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        [[unroll]] for (uint j = 0; j < EACH; j++) {
            uint to_row = row + i * DOWN + y, to_column = column + j * ACROSS + x;
            if (to_row < p.m && to_column < p.n) {
                uint to = p.target_at + (plane * p.m + to_row) * p.n + to_column;
#ifdef IN
                ACC sum = acc[i][j];
#ifdef BIAS
                if (part == 0) {
                    sum += ACC(LOAD(bias[p.bias_at + to_column * p.bias_step]));
                }
#endif
                target[to] = STORE(sum);
#else
                int low = SIGNED != 0 ? -128 : 0, most = SIGNED != 0 ? 127 : 255;
                int sum = high[i][j] > 0 ? most : (high[i][j] < -1 ? low : high[i][j] * 65536 + acc[i][j]);
                target[to] = uint8_t(clamp(sum, low, most));
#endif
            }
        }
    }
}
