// Keeps a triangle of matrices and puts 0 in place of the rest.
#include "elements.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, source_at, target_at, upper;
    int diagonal;
    u32 size[8];
    u32 source_step[8];
};

extern "C" __global__ void kernel_main(const Element *source, Element *target, const Push p) {
    u32 to = thread_number(), rest = to;
    if (to >= p.count) {
        return;
    }
    u32 from = p.source_at;
    int place[8] = {};
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.rank) {
            u32 at = coordinate(rest, p.size[k]);
            from += at * p.source_step[k];
            place[k] = (int)at;
        }
    }
    // Axes 0 and 1 are columns and rows, never folded.
    int column = place[0], row = place[1];
    bool keep = p.upper != 0 ? row + p.diagonal <= column : row + p.diagonal >= column;
    target[p.target_at + to] = keep ? source[from] : (Element)0;
}
