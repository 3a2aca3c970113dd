// The short vectors of CUDA C and their makers.
#pragma once

#define FUEL_VECTORS(type, name) \
    struct name##2 { type x, y; }; \
    struct name##3 { type x, y, z; }; \
    struct name##4 { type x, y, z, w; }; \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

FUEL_VECTORS(signed char, char)
FUEL_VECTORS(unsigned char, uchar)
FUEL_VECTORS(short, short)
FUEL_VECTORS(unsigned short, ushort)
FUEL_VECTORS(int, int)
FUEL_VECTORS(unsigned int, uint)
FUEL_VECTORS(long long, longlong)
FUEL_VECTORS(unsigned long long, ulonglong)
FUEL_VECTORS(float, float)
FUEL_VECTORS(double, double)
#undef FUEL_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};
