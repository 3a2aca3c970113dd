// Matrix products over batches, by tiles in shared memory. Operands are read through their strides, and an operand that
// serves several batches is repeated by a stride of 0.
//
// A block of ACROSS · DOWN threads has a tile of TILE_M · TILE_N, a thread EACH · EACH elements of it, `TILE_M / EACH`
// rows apart. Sums over k are cut into splits, whose results lie one behind the other and are added up by another
// launch. Without IN elements are integers of 8 bits, and their sums, which are exact, are limited to the range of the
// type.
#include "elements.cuh"
#ifdef IN
#include "floats.cuh"
#else
typedef u8 In;
typedef u8 Out;
typedef int Acc;
#if SPEC4
constexpr int LOWEST = -128, HIGHEST = 127;
__device__ __forceinline__ int loaded(In x) { return (signed char)x; }
#else
constexpr int LOWEST = 0, HIGHEST = 255;
__device__ __forceinline__ int loaded(In x) { return x; }
#endif
#endif

#ifndef EACH
#define EACH 1
#endif
#ifndef SPEC0
#define SPEC0 16
#endif
#ifndef SPEC1
#define SPEC1 16
#endif
#ifndef SPEC2
#define SPEC2 1
#endif
#ifndef SPEC3
#define SPEC3 0
#endif
constexpr u32 ACROSS = SPEC0, DOWN = SPEC1, THREADS = ACROSS * DOWN;
constexpr u32 DEPTH = 16, TILE_M = DOWN * EACH, TILE_N = ACROSS * EACH;
// Which axis of an operand its loads go along.
constexpr bool LEFT_ALONG_K = SPEC2 != 0, RIGHT_ALONG_K = SPEC3 != 0;
// One more than a row has: what lies along k is then written without conflicts of banks.
constexpr u32 LEFT_ROW = TILE_M + 1, RIGHT_ROW = TILE_N + 1;

struct Push {
    u32 batches, splits, m, n, k, depth, left_at, right_at, bias_at, target_at, rank;
    u32 left_row, left_step, right_row, right_step, bias_step;
    u32 size[5];
    u32 left_batch[5];
    u32 right_batch[5];
};

#ifdef BIAS
extern "C" __global__ void __launch_bounds__(THREADS) kernel_main(
    const In *__restrict__ left, const In *__restrict__ right, const In *__restrict__ bias, Out *__restrict__ target,
    const Push p) {
#else
extern "C" __global__ void __launch_bounds__(THREADS) kernel_main(
    const In *__restrict__ left, const In *__restrict__ right, Out *__restrict__ target, const Push p) {
#endif
    __shared__ Acc lefts[DEPTH * LEFT_ROW];
    __shared__ Acc rights[DEPTH * RIGHT_ROW];
    u32 me = thread_in_block(), x = me % ACROSS, y = me / ACROSS;
    u32 columns = (p.n + TILE_N - 1) / TILE_N, rows = (p.m + TILE_M - 1) / TILE_M;
    u32 number = block_number(), column = number % columns * TILE_N, row = number / columns % rows * TILE_M;
    u32 plane = number / (columns * rows), part = plane / p.batches, rest = plane % p.batches;
    bool exists = part < p.splits;
    u32 left_from = p.left_at, right_from = p.right_at;
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            left_from += at * p.left_batch[k];
            right_from += at * p.right_batch[k];
        }
    }
    u32 start = part * p.depth, end = exists ? min(start + p.depth, p.k) : start;

    Acc acc[EACH][EACH] = {};
#ifndef IN
    // What is over 2^16 of each sum: so many terms cannot leave the range of int in between.
    int high[EACH][EACH] = {};
#endif
    for (u32 base = start; base < end; base += DEPTH) {
        for (u32 e = me; e < DEPTH * TILE_M; e += THREADS) {
            u32 kk = LEFT_ALONG_K ? e % DEPTH : e / TILE_M, i = LEFT_ALONG_K ? e / DEPTH : e % TILE_M;
            bool inside = base + kk < end && row + i < p.m;
            u32 at = left_from + (row + i) * p.left_row + (base + kk) * p.left_step;
            lefts[kk * LEFT_ROW + i] = inside ? loaded(left[at]) : (Acc)0;
        }
        for (u32 e = me; e < DEPTH * TILE_N; e += THREADS) {
            u32 kk = RIGHT_ALONG_K ? e % DEPTH : e / TILE_N, j = RIGHT_ALONG_K ? e / DEPTH : e % TILE_N;
            bool inside = base + kk < end && column + j < p.n;
            u32 at = right_from + (base + kk) * p.right_row + (column + j) * p.right_step;
            rights[kk * RIGHT_ROW + j] = inside ? loaded(right[at]) : (Acc)0;
        }
        __syncthreads();
#pragma unroll
        for (u32 kk = 0; kk < DEPTH; kk++) {
            Acc ours[EACH], theirs[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
                ours[i] = lefts[kk * LEFT_ROW + i * DOWN + y];
                theirs[i] = rights[kk * RIGHT_ROW + i * ACROSS + x];
            }
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
#pragma unroll
                for (u32 j = 0; j < EACH; j++) {
                    acc[i][j] += ours[i] * theirs[j];
                }
            }
        }
#ifndef IN
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                high[i][j] += acc[i][j] >> 16;
                acc[i][j] &= 0xffff;
            }
        }
#endif
        __syncthreads();
    }
    if (!exists) {
        return;
    }
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            u32 to_row = row + i * DOWN + y, to_column = column + j * ACROSS + x;
            if (to_row < p.m && to_column < p.n) {
                u32 to = p.target_at + (plane * p.m + to_row) * p.n + to_column;
#ifdef IN
                Acc sum = acc[i][j];
#ifdef BIAS
                if (part == 0) {
                    sum += loaded(bias[p.bias_at + to_column * p.bias_step]);
                }
#endif
                target[to] = stored(sum);
#else
                int sum = high[i][j] > 0 ? HIGHEST : (high[i][j] < -1 ? LOWEST : high[i][j] * 65536 + acc[i][j]);
                target[to] = (u8)min(max(sum, LOWEST), HIGHEST);
#endif
            }
        }
    }
}
