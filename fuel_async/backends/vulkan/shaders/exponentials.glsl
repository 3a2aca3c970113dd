// exp and log of floats to about one unit in the last place; what drivers have is allowed to be far off.
// After Cephes, expf.c and logf.c (S. L. Moshier): range reduction in two steps, then a polynomial.

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
