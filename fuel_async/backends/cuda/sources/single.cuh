// Kernels with one element for each thread.
__device__ __forceinline__ u32 thread_number() {
    return block_number() * blockDim.x + threadIdx.x;
}
