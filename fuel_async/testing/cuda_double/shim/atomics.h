// Atomic functions: launches of several streams may touch the same words at the same time.
#pragma once

#define FUEL_ATOMIC(name, type, next) \
    static inline type name(type *at, type value) { \
        type old = __atomic_load_n(at, __ATOMIC_RELAXED); \
        while (!__atomic_compare_exchange_n(at, &old, (type)(next), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old; \
    }
#define FUEL_ATOMICS(type) \
    FUEL_ATOMIC(atomicAdd, type, old + value) \
    FUEL_ATOMIC(atomicExch, type, value) \
    FUEL_ATOMIC(atomicMin, type, value < old ? value : old) \
    FUEL_ATOMIC(atomicMax, type, value > old ? value : old) \
    FUEL_ATOMIC(atomicAnd, type, old & value) \
    FUEL_ATOMIC(atomicOr, type, old | value) \
    FUEL_ATOMIC(atomicXor, type, old ^ value) \
    static inline type atomicCAS(type *at, type wanted, type value) { \
        __atomic_compare_exchange_n(at, &wanted, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
        return wanted; \
    }

FUEL_ATOMICS(int)
FUEL_ATOMICS(unsigned int)
FUEL_ATOMICS(unsigned long long)
FUEL_ATOMIC(atomicSub, int, old - value)
FUEL_ATOMIC(atomicSub, unsigned int, old - value)
#undef FUEL_ATOMICS
#undef FUEL_ATOMIC

#define FUEL_ATOMIC_FLOAT(type, bits) \
    static inline type atomicAdd(type *at, type value) { \
        bits was = __atomic_load_n((bits *)at, __ATOMIC_RELAXED), now; \
        type old; \
        do { \
            __builtin_memcpy(&old, &was, sizeof old); \
            type sum = old + value; \
            __builtin_memcpy(&now, &sum, sizeof now); \
        } while (!__atomic_compare_exchange_n((bits *)at, &was, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        return old; \
    }

FUEL_ATOMIC_FLOAT(float, unsigned int)
FUEL_ATOMIC_FLOAT(double, unsigned long long)
#undef FUEL_ATOMIC_FLOAT

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() {}
