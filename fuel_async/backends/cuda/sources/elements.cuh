// What kernels share: words, where a thread is in a folded grid, and elements as bits.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Blocks are counted through x, then y, then z: a grid too long for one axis goes on along the next.
__device__ __forceinline__ u32 block_number() {
    return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

// Threads of a block in order, however its axes are cut.
__device__ __forceinline__ u32 thread_in_block() {
    return threadIdx.y * blockDim.x + threadIdx.x;
}

// Takes the coordinate along an axis of `size` places off `rest`; axes are counted from the innermost.
__device__ __forceinline__ u32 coordinate(u32 &rest, u32 size) {
    u32 whole = rest / size, at = rest - whole * size;
    rest = whole;
    return at;
}

// An element that is moved and not computed with, by its SIZE in bytes.
#if SIZE == 1
typedef u8 Element;
#elif SIZE == 2
typedef u16 Element;
#elif SIZE == 4
typedef u32 Element;
#elif SIZE == 8
typedef u64 Element;
#endif

#ifdef SIZE
// An element from the two words that hold it, the low one first.
__device__ __forceinline__ Element element_of(const u32 (&words)[2]) {
    return (Element)((u64)words[1] << 32 | words[0]);
}
#endif
