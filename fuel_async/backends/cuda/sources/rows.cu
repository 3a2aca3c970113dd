// Normalisations along the last axis and their gradients, one of them chosen by a macro.
//
// Each row is walked two or three times by LANES threads; an element is written by the thread that read it last, so the
// output may be an input.
#include "elements.cuh"
#include "floats.cuh"
#include "lanes.cuh"
#include "exponentials.cuh"

struct Push {
    // A float in the first word, or a double in both.
    u32 eps[2];
    u32 rows, row_rank, extent, source_at, upstream_at, target_at, step, upstream_step;
    u32 row_size[6];
    u32 row_step[6];
    u32 upstream_row_step[6];
};

// One row as one of its lanes sees it. `sum` and `maximum` are of values of all lanes, and are called by all.
struct Row {
    const In *source, *upstream;
    Out *target;
    const Push &p;
    Acc (&shared)[THREADS];
    u32 lane, end, from, above, to;

    __device__ __forceinline__ Row(
        const In *source, const In *upstream, Out *target, const Push &p, Acc (&shared)[THREADS])
        : source(source), upstream(upstream), target(target), p(p), shared(shared), lane(lane_number()) {
        u32 row = row_number(), rest = row;
        end = row < p.rows ? p.extent : 0;
        from = p.source_at;
        above = p.upstream_at;
        to = p.target_at + row * p.extent;
#pragma unroll
        for (u32 k = 0; k < 6; k++) {
            if (k < p.row_rank) {
                u32 at = coordinate(rest, p.row_size[k]);
                from += at * p.row_step[k];
                above += at * p.upstream_row_step[k];
            }
        }
    }

    __device__ __forceinline__ Acc x(u32 i) const { return loaded(source[from + i * p.step]); }
    __device__ __forceinline__ Acc g(u32 i) const { return loaded(upstream[above + i * p.upstream_step]); }
    __device__ __forceinline__ void put(u32 i, Acc y) const { target[to + i] = stored(y); }

    template <class Body> __device__ __forceinline__ void each(Body body) const {
        for (u32 i = lane; i < end; i += LANES) {
            body(i);
        }
    }

    __device__ __forceinline__ Acc sum(Acc part) const {
        return over_lanes(shared, part, [](Acc a, Acc b) { return a + b; });
    }

    __device__ __forceinline__ Acc maximum(Acc part) const { return over_lanes(shared, part, largest_of<Acc>); }

    __device__ __forceinline__ Acc length() const { return (Acc)p.extent; }

    __device__ __forceinline__ Acc eps() const {
#if IN == 64
        return __hiloint2double((int)p.eps[1], (int)p.eps[0]);
#else
        return __uint_as_float(p.eps[0]);
#endif
    }
};

__device__ __forceinline__ void work(const Row &row) {
#if defined(SOFTMAX) || defined(LOG_SOFTMAX)
    Acc most = -infinity(), sum = 0;
    row.each([&](u32 i) { most = largest_of(most, row.x(i)); });
    most = row.maximum(most);
    row.each([&](u32 i) { sum += exact_exp(row.x(i) - most); });
    sum = row.sum(sum);
#ifdef SOFTMAX
    row.each([&](u32 i) { row.put(i, exact_exp(row.x(i) - most) / sum); });
#else
    sum = exact_log(sum);
    row.each([&](u32 i) { row.put(i, (row.x(i) - most) - sum); });
#endif
#elif defined(LAYER_NORM)
    Acc sum = 0, square = 0;
    row.each([&](u32 i) { sum += row.x(i); });
    Acc mean = row.sum(sum) / row.length();
    row.each([&](u32 i) {
        Acc y = row.x(i) - mean;
        square += y * y;
    });
    Acc deviation = sqrt(row.sum(square) / row.length() + row.eps());
    row.each([&](u32 i) { row.put(i, (row.x(i) - mean) / deviation); });
#elif defined(RMS_NORM)
    Acc square = 0;
    row.each([&](u32 i) {
        Acc x = row.x(i);
        square += x * x;
    });
    Acc size = sqrt(row.sum(square) / row.length() + row.eps());
    row.each([&](u32 i) { row.put(i, row.x(i) / size); });
#elif defined(SOFTMAX_BACKWARD)
    Acc along = 0;
    row.each([&](u32 i) { along += row.x(i) * row.g(i); });
    along = row.sum(along);
    row.each([&](u32 i) { row.put(i, (row.g(i) - along) * row.x(i)); });
#elif defined(LOG_SOFTMAX_BACKWARD)
    Acc sum = 0;
    row.each([&](u32 i) { sum += row.g(i); });
    sum = row.sum(sum);
    row.each([&](u32 i) { row.put(i, row.g(i) - exact_exp(row.x(i)) * sum); });
#elif defined(RMS_NORM_BACKWARD)
    Acc square = 0, along = 0;
    row.each([&](u32 i) {
        Acc x = row.x(i);
        square += x * x;
        along += x * row.g(i);
    });
    square = row.sum(square) / row.length() + row.eps();
    along = row.sum(along) / row.length() / square;
    Acc size = sqrt(square);
    row.each([&](u32 i) { row.put(i, (row.g(i) - row.x(i) * along) / size); });
#elif defined(LAYER_NORM_BACKWARD)
    Acc sum = 0, upper = 0, square = 0, along = 0;
    row.each([&](u32 i) {
        sum += row.x(i);
        upper += row.g(i);
    });
    Acc mean = row.sum(sum) / row.length();
    upper = row.sum(upper) / row.length();
    row.each([&](u32 i) {
        Acc y = row.x(i) - mean;
        square += y * y;
        along += y * row.g(i);
    });
    square = row.sum(square) / row.length() + row.eps();
    along = row.sum(along) / row.length() / square;
    Acc deviation = sqrt(square);
    row.each([&](u32 i) { row.put(i, (row.g(i) - ((row.x(i) - mean) * along + upper)) / deviation); });
#endif
}

#ifdef BACKWARD
extern "C" __global__ void kernel_main(const In *source, const In *upstream, Out *target, const Push p) {
#else
extern "C" __global__ void kernel_main(const In *source, Out *target, const Push p) {
    const In *upstream = source;
#endif
    __shared__ Acc shared[THREADS];
    work(Row(source, upstream, target, p, shared));
}
