// exp and log to about one unit in the last place, with the same bits on every device. Range reduction in two steps, then
// a polynomial: for float after Cephes, expf.c and logf.c (S. L. Moshier), for double after fdlibm, e_exp.c and e_log.c
// (Sun Microsystems).

__device__ __forceinline__ float exact_exp(float x) {
    float n = rintf(x * 1.44269504f);
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    int whole = __float2int_rz(fminf(fmaxf(n, -150.0f), 150.0f)), part = whole / 2;
    float scaled = y * __int_as_float((part + 127) << 23) * __int_as_float((whole - part + 127) << 23);
    if (is_nan(x)) {
        return x;
    }
    return x > 88.7228394f ? infinity() : (x < -104.0f ? 0.0f : scaled);
}

// Of positive normal numbers; NaN and infinity come through.
__device__ __forceinline__ float exact_log(float x) {
    u32 bits = __float_as_uint(x);
    if (bits >= 0x7f800000u) {
        return x;
    }
    int e = (int)(bits >> 23) - 126;
    float m = __uint_as_float((bits & 0x7fffffu) | 0x3f000000u);
    if (m < 0.707106781f) {
        e -= 1;
        m = m + m;
    }
    float r = m - 1.0f, z = r * r, k = (float)e;
    float y = 7.0376836292e-2f;
    y = y * r - 1.1514610310e-1f;
    y = y * r + 1.1676998740e-1f;
    y = y * r - 1.2420140846e-1f;
    y = y * r + 1.4249322787e-1f;
    y = y * r - 1.6668057665e-1f;
    y = y * r + 2.0000714765e-1f;
    y = y * r - 2.4999993993e-1f;
    y = y * r + 3.3333331174e-1f;
    y = y * r * z;
    y = y - 2.12194440e-4f * k;
    y = y - 0.5f * z;
    return (r + y) + 0.693359375f * k;
}

#if IN == 64
__device__ __forceinline__ double power_of_two(int n) {
    return __longlong_as_double((long long)(n + 1023) << 52);
}

__device__ __forceinline__ double exact_exp(double x) {
    double n = rint(x * 1.44269504088896338700);
    double high = x - n * 6.93147180369123816490e-01, low = n * 1.90821492927058770002e-10;
    double r = high - low, t = r * r;
    double y = 4.13813679705723846039e-08;
    y = y * t - 1.65339022054652515390e-06;
    y = y * t + 6.61375632143793436117e-05;
    y = y * t - 2.77777777770155933842e-03;
    y = y * t + 1.66666666666666019037e-01;
    y = r - t * y;
    y = 1.0 - ((low - (r * y) / (2.0 - y)) - high);
    int whole = __double2int_rz(fmin(fmax(n, -1100.0), 1100.0)), part = whole / 2;
    double scaled = y * power_of_two(part) * power_of_two(whole - part);
    if (is_nan(x)) {
        return x;
    }
    return x > 709.782712893383973096 ? (double)infinity() : (x < -746.0 ? 0.0 : scaled);
}

// Of positive normal numbers; NaN and infinity come through.
__device__ __forceinline__ double exact_log(double x) {
    u64 bits = (u64)__double_as_longlong(x);
    if (bits >= 0x7ff0000000000000ull) {
        return x;
    }
    int e = (int)(bits >> 52) - 1022;
    double m = __longlong_as_double((long long)((bits & 0xfffffffffffffull) | 0x3fe0000000000000ull));
    if (m < 0.70710678118654752440) {
        e -= 1;
        m = m + m;
    }
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, k = (double)e, middle = 0.5 * f * f;
    double y = 1.479819860511658591e-01;
    y = y * z + 1.531383769920937332e-01;
    y = y * z + 1.818357216161805012e-01;
    y = y * z + 2.222219843214978396e-01;
    y = y * z + 2.857142874366239149e-01;
    y = y * z + 3.999999999940941908e-01;
    y = y * z + 6.666666666666735130e-01;
    y = y * z;
    return k * 6.93147180369123816490e-01
        - ((middle - (s * (middle + y) + k * 1.90821492927058770002e-10)) - f);
}
#endif
