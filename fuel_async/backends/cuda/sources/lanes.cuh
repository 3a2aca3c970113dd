// Blocks whose threads share the elements of rows: LANES to a row, as many rows as there are lanes' worth of THREADS.
// Lanes are neighbours where LANE_FAST, as for rows that lie in a piece, else rows are.
#ifndef SPEC0
#define SPEC0 64
#endif
#ifndef SPEC1
#define SPEC1 64
#endif
#ifndef SPEC2
#define SPEC2 1
#endif
constexpr u32 THREADS = SPEC0, LANES = SPEC1, ROWS = THREADS / LANES;
constexpr bool LANE_FAST = SPEC2 != 0;
// From one lane to the next, in shared arrays with an element for each thread.
constexpr u32 LANE_STEP = LANE_FAST ? 1 : ROWS;

__device__ __forceinline__ u32 lane_number() {
    return LANE_FAST ? threadIdx.x % LANES : threadIdx.x / ROWS;
}

__device__ __forceinline__ u32 row_number() {
    return block_number() * ROWS + (LANE_FAST ? threadIdx.x / LANES : threadIdx.x % ROWS);
}

// What the lanes of a row make of one value each: neighbours first folded by `fold` at the distance of half the lanes,
// then of a quarter, ... All threads of a block call it, and each gets the result of its row.
template <class T, class Fold> __device__ __forceinline__ T over_lanes(T (&shared)[THREADS], const T &own, Fold fold) {
    u32 me = threadIdx.x, lane = lane_number();
    shared[me] = own;
    __syncthreads();
    for (u32 reach = LANES / 2; reach > 0; reach /= 2) {
        if (lane < reach) {
            shared[me] = fold(shared[me], shared[me + reach * LANE_STEP]);
        }
        __syncthreads();
    }
    T whole = shared[me - lane * LANE_STEP];
    __syncthreads();
    return whole;
}
