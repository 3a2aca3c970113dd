// exp and log to about one unit in the last place; what drivers have is allowed to be far off, and there is none for
// double. Range reduction in two steps, then a polynomial: for float after Cephes, expf.c and logf.c (S. L. Moshier), for
// double after fdlibm, e_exp.c and e_log.c (Sun Microsystems).

float exact_exp(float x) {
    precise float n = roundEven(x * 1.44269504);
    precise float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    precise float y = 1.9875691500e-4;
    y = y * r + 1.3981999507e-3;
    y = y * r + 8.3334519073e-3;
    y = y * r + 4.1665795894e-2;
    y = y * r + 1.6666665459e-1;
    y = y * r + 5.0000001201e-1;
    y = y * (r * r) + r + 1.0;
    int whole = int(clamp(n, -150.0, 150.0)), part = whole / 2;
    float scaled = y * uintBitsToFloat(uint(part + 127) << 23) * uintBitsToFloat(uint(whole - part + 127) << 23);
    if ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u) {
        return x;
    }
    return x > 88.7228394 ? uintBitsToFloat(0x7f800000u) : (x < -104.0 ? 0.0 : scaled);
}

// Of positive normal numbers; NaN and infinity come through.
float exact_log(float x) {
    uint bits = floatBitsToUint(x);
    if (bits >= 0x7f800000u) {
        return x;
    }
    int e = int(bits >> 23) - 126;
    float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f000000u);
    if (m < 0.707106781) {
        e -= 1;
        m = m + m;
    }
    precise float r = m - 1.0, z = r * r, k = float(e);
    precise float y = 7.0376836292e-2;
    y = y * r - 1.1514610310e-1;
    y = y * r + 1.1676998740e-1;
    y = y * r - 1.2420140846e-1;
    y = y * r + 1.4249322787e-1;
    y = y * r - 1.6668057665e-1;
    y = y * r + 2.0000714765e-1;
    y = y * r - 2.4999993993e-1;
    y = y * r + 3.3333331174e-1;
    y = y * r * z;
    y = y - 2.12194440e-4 * k;
    y = y - 0.5 * z;
    return (r + y) + 0.693359375 * k;
}

#if IN == 64
double power_of_two(int n) {
    return packDouble2x32(uvec2(0u, uint(n + 1023) << 20));
}

double exact_exp(double x) {
    precise double n = roundEven(x * 1.44269504088896338700LF);
    precise double high = x - n * 6.93147180369123816490e-01LF, low = n * 1.90821492927058770002e-10LF;
    precise double r = high - low, t = r * r;
    precise double y = 4.13813679705723846039e-08LF;
    y = y * t - 1.65339022054652515390e-06LF;
    y = y * t + 6.61375632143793436117e-05LF;
    y = y * t - 2.77777777770155933842e-03LF;
    y = y * t + 1.66666666666666019037e-01LF;
    y = r - t * y;
    y = 1.0LF - ((low - (r * y) / (2.0LF - y)) - high);
    int whole = int(clamp(n, -1100.0LF, 1100.0LF)), part = whole / 2;
    double scaled = y * power_of_two(part) * power_of_two(whole - part);
    if (is_nan(x)) {
        return x;
    }
    return x > 709.782712893383973096LF ? packDouble2x32(uvec2(0u, 0x7ff00000u)) : (x < -746.0LF ? 0.0LF : scaled);
}

// Of positive normal numbers; NaN and infinity come through.
double exact_log(double x) {
    uvec2 bits = unpackDouble2x32(x);
    if (bits.y >= 0x7ff00000u) {
        return x;
    }
    int e = int(bits.y >> 20) - 1022;
    double m = packDouble2x32(uvec2(bits.x, (bits.y & 0xfffffu) | 0x3fe00000u));
    if (m < 0.70710678118654752440LF) {
        e -= 1;
        m = m + m;
    }
    precise double f = m - 1.0LF, s = f / (2.0LF + f), z = s * s, k = double(e), middle = 0.5LF * f * f;
    precise double y = 1.479819860511658591e-01LF;
    y = y * z + 1.531383769920937332e-01LF;
    y = y * z + 1.818357216161805012e-01LF;
    y = y * z + 2.222219843214978396e-01LF;
    y = y * z + 2.857142874366239149e-01LF;
    y = y * z + 3.999999999940941908e-01LF;
    y = y * z + 6.666666666666735130e-01LF;
    y = y * z;
    return k * 6.93147180369123816490e-01LF
        - ((middle - (s * (middle + y) + k * 1.90821492927058770002e-10LF)) - f);
}
#endif
