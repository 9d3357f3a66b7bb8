/* kernels/bodies/norm.h: what needs a sum or a maximum along a vector: RMSNorm and softmax. */
#ifndef KERNELS_BODIES_NORM_H
#define KERNELS_BODIES_NORM_H

#include "kernels/bodies/elementwise.h"

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

/* Where NaN is among the elements every p is NaN, or the sum is: all elements become NaN whatever m came out as. */
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

#endif
