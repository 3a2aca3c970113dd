// How a kernel is launched from outside: its arguments as pointers to their values, as cuLaunchKernel takes them.
#pragma once

struct fuel_launch {
    unsigned int grid[3], block[3];
    void **arguments;
    // Room for the stacks of a block's threads, and for what it shares beyond its own arrays.
    char *stacks, *shared;
    size_t shared_nbytes;
};

static thread_local char *fuel_shared;

template <int... at> struct fuel_numbers {};

template <class... A> struct fuel_call {
    static constexpr unsigned int count = sizeof...(A);
    static constexpr unsigned int nbytes[] = {sizeof(A)..., 0};

    template <void (*kernel)(A...), int... at> static inline void with(void **arguments, fuel_numbers<at...>) {
        kernel(*(A *)arguments[at]...);
    }
    template <void (*kernel)(A...)> static void run(void **arguments) {
        with<kernel>(arguments, fuel_numbers<__integer_pack(sizeof...(A))...>());
    }
};

template <class... A> static constexpr fuel_call<A...> fuel_call_of(void (*)(A...)) { return {}; }

// Calls `kernel` for each thread of each block, one block after the other. 0, or 1 when threads of a block came to
// different barriers.
template <bool barriers> static inline int fuel_run(const fuel_launch &launch, void (*body)(void **)) {
    gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    blockDim = {launch.block[0], launch.block[1], launch.block[2]};
    fuel_shared = launch.shared;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                __builtin_memset(launch.shared, 0xff, launch.shared_nbytes);
                if constexpr (barriers) {
                    if (!fuel_run_fibers(body, launch.arguments, launch.stacks)) {
                        return 1;
                    }
                } else {
                    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) {
                        for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) {
                            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) {
                                body(launch.arguments);
                            }
                        }
                    }
                }
            }
        }
    }
    return 0;
}

// The entries of one kernel, under a name that no other program has.
#define FUEL_EXPORTED extern "C" __attribute__((visibility("default")))
#define FUEL_EXPORT(name, kernel, barriers) \
    FUEL_EXPORTED const unsigned int *fuel_parameters_##name(unsigned int *count) { \
        using call = decltype(fuel_call_of(&kernel)); \
        *count = call::count; \
        return call::nbytes; \
    } \
    FUEL_EXPORTED int fuel_launch_##name(const fuel_launch *launch) { \
        return fuel_run<barriers>(*launch, &decltype(fuel_call_of(&kernel))::template run<&kernel>); \
    }
