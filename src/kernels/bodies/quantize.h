/* kernels/bodies/quantize.h: activations to integers of 8 or 16 bits, docs/numerics.md,
 * "Activations for quantized weights". */
#ifndef KERNELS_BODIES_QUANTIZE_H
#define KERNELS_BODIES_QUANTIZE_H

#include "kernels/bodies/blocking.h"

V_INLINE f32x16 load_some(const float *x, int i, int n)
{
    return n - i >= LANES ? v_load(x + i) : v_load_n(x + i, n - i);
}

/* n floats with one scale; q gets 16 at a time, 0 past n. Returns the scale. */
V_INLINE float quantize_group(int16_t *q, const float *x, int n, float most_q)
{
    i512    most = i_set32(0), magnitude = i_set32(0x7fffffff);
    int32_t lane[16], amax = 0;
    for (int i = 0; i < n; i += LANES) /* without the sign, integers have the order of floats */
        most = i_max32(most, i_and(i_bits(load_some(x, i, n)), magnitude));
    i_store(lane, most);
    for (int i = 0; i < 16; i++)
        amax = lane[i] > amax ? lane[i] : amax;
    if (amax >= 0x7f800000 || amax < 0x0d800000) { /* infinite or NaN; under 2^-100 */
        memset(q, 0, (size_t)(n + LANES - 1) / LANES * LANES * sizeof *q);
        return amax >= 0x7f800000 ? NAN : 0;
    }
    float  d = f32_from((uint32_t)amax) / most_q;
    f32x16 r = v_set(1.0f / d), round = v_set(0x1.8p23f); /* the sum's low bits: the integer */
    for (int i = 0; i < n; i += LANES)
        i_store_low16(q + i, i_bits(v_add(v_mul(load_some(x, i, n), r), round)));
    return d;
}

static void quantize(int16_t *q, float *d, const float *x, int n, Integers ints)
{
    int   each   = int_each(ints);
    float most_q = ints == INT16 ? 32512.0f : 127.0f;
    for (int c = 0; c < n; c += each)
        *d++ = quantize_group(q + c, x + c, min_int(n - c, each), most_q);
    for (int c = (n + LANES - 1) / LANES * LANES; c % 64 != 0; c++)
        q[c] = 0;
}

#endif
