/* kernels/bodies/norm.h: kernels with a sum or a maximum along a vector: RMSNorm, LayerNorm,
 * softmax, the codes of a KV cache. */
#ifndef KERNELS_BODIES_NORM_H
#define KERNELS_BODIES_NORM_H

#include "kernels/bodies/elementwise.h"

/* Element i goes to lane i % 16, then the lanes are folded 8, 4, 2, 1. This shape of the sum is
 * part of the definition, so it may not depend on how many lanes a register has. Elements past n
 * are loaded as 0 and add nothing. */
static void rms_norm(float *y, const float *x, const float *w, int n, float eps)
{
    f32x16 lane = v_zero();
    int    i    = 0;
    for (; i + LANES <= n; i += LANES)
        lane = v_fma(v_load(x + i), v_load(x + i), lane);
    if (i < n)
        lane = v_fma(v_load_n(x + i, n - i), v_load_n(x + i, n - i), lane);
    float  ss = v_fold_sum(lane);
    f32x16 r  = v_set(1.0f / sqrtf(ss / (float)n + eps));

    for (i = 0; i + LANES <= n; i += LANES)
        v_store(y + i, v_mul(v_mul(v_load(x + i), r), v_load(w + i)));
    if (i < n)
        v_store_n(y + i, v_mul(v_mul(v_load_n(x + i, n - i), r), v_load_n(w + i, n - i)), n - i);
}

/* 16-lane sum of (x - mean)^2: lanes past the end would hold mean^2, so they are left out. */
static float squares_around(const float *x, float mean, int n)
{
    f32x16 lane = v_zero(), m = v_set(mean);
    int    i    = 0;
    for (; i + LANES <= n; i += LANES) {
        f32x16 c = v_sub(v_load(x + i), m);
        lane     = v_fma(c, c, lane);
    }
    if (i < n) {
        f32x16 c = v_select(v_range(0, n - i), v_sub(v_load_n(x + i, n - i), m), v_zero());
        lane     = v_fma(c, c, lane);
    }
    return v_fold_sum(lane);
}

/* Without a bias y = (c * r) * w. */
static void layer_norm(float *y, const float *x, const float *w, const float *b, int n, float eps)
{
    f32x16 lane = v_zero();
    for (int i = 0; i < n; i += LANES)
        lane = v_add(lane, load_upto(x + i, min_int(LANES, n - i)));
    float  mean = v_fold_sum(lane) / (float)n;
    f32x16 m    = v_set(mean), r = v_set(1.0f / sqrtf(squares_around(x, mean, n) / (float)n + eps));
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 c   = v_mul(v_sub(load_upto(x + i, len), m), r), by = load_upto(w + i, len);
        store_upto(y + i, b ? v_fma(c, by, load_upto(b + i, len)) : v_mul(c, by), len);
    }
}

/* The maximum is subtracted first, so that no exponential overflows. If an element is NaN, every p
 * is NaN, or the sum is: all become NaN, whatever m is. */
static void softmax(float *x, int n)
{
    f32x16 top = v_set(-INFINITY), sum = v_zero();
    for (int i = 0; i < n; i += LANES) {
        int len = n - i < LANES ? n - i : LANES;
        top     = v_max(v_select(v_range(0, len), load_upto(x + i, len), v_set(-INFINITY)), top);
    }
    f32x16 m = v_set(v_fold_max(top));
    for (int i = 0; i < n; i += LANES) {
        int    len = n - i < LANES ? n - i : LANES;
        f32x16 p   = v_exp(v_sub(load_upto(x + i, len), m));
        sum        = v_add(sum, v_select(v_range(0, len), p, v_zero()));
        store_upto(x + i, p, len);
    }
    f32x16 r = v_set(1.0f / v_fold_sum(sum));
    for (int i = 0; i < n; i += LANES) {
        int len = n - i < LANES ? n - i : LANES;
        store_upto(x + i, v_mul(load_upto(x + i, len), r), len);
    }
}

/* Definition "KV cache q8". x * 0 is NaN exactly where x is infinite or NaN; among finite numbers
 * the largest bit pattern is the largest value. Adding 1.5 * 2^23 rounds to an integer, ties to
 * even. */
static float f32_to_q8(int8_t *code, const float *x, int n)
{
    f32x16 top = v_zero(), bad = v_zero(), round = v_set(0x1.8p23f);
    for (int i = 0; i < n; i += LANES) {
        f32x16 v = load_upto(x + i, min_int(LANES, n - i));
        top      = v_max(v_abs(v), top);
        bad      = v_fma(v, v_zero(), bad);
    }
    float amax = v_fold_max(top), wrong = v_fold_sum(bad), scale = amax / 127.0f;
    if (wrong != wrong || amax < 0x1p-100f) {
        memset(code, 0, (size_t)n);
        return wrong != wrong ? NAN : 0.0f;
    }
    f32x16 r = v_set(1.0f / scale);
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 v   = v_mul(load_upto(x + i, len), r);
        v_store_i8_n(code + i, v_sub(v_add(v, round), round), len);
    }
    return scale;
}

#endif
