// Rotary position embedding, with the halves of a head as partners.
#include "elements.cuh"
#include "floats.cuh"
#include "single.cuh"

struct Push {
    u32 count, rank, head, positions, source_at, cosines_at, sines_at, target_at;
    u32 step, position_step, cosine_step, cosine_position_step, sine_step, sine_position_step;
    u32 size[8];
    u32 source_step[8];
};

extern "C" __global__ void kernel_main(
    const In *source, const In *cosines, const In *sines, Out *target, const Push p) {
    u32 to = thread_number();
    if (to >= p.count) {
        return;
    }
    u32 rest = to, i = coordinate(rest, p.head), position = coordinate(rest, p.positions), middle = p.head / 2;
    u32 from = p.source_at + position * p.position_step;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (k < p.rank) {
            from += coordinate(rest, p.size[k]) * p.source_step[k];
        }
    }
    Acc x = loaded(source[from + i * p.step]);
    Acc partner = loaded(source[from + (i < middle ? i + middle : i - middle) * p.step]);
    Acc c = loaded(cosines[p.cosines_at + position * p.cosine_position_step + i * p.cosine_step]);
    Acc s = loaded(sines[p.sines_at + position * p.sine_position_step + i * p.sine_step]);
    target[p.target_at + to] = stored(x * c + partner * (i < middle ? -s : s));
}
