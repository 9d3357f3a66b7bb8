/* kernels/bodies/gradients.h: kernels that only training needs: derivatives of activations and
 * norms, softmax whose normalizer is kept, and AdamW. src/train says where the formulas come
 * from. */
#ifndef KERNELS_BODIES_GRADIENTS_H
#define KERNELS_BODIES_GRADIENTS_H

#include "kernels/bodies/norm.h"

/* ---- Activations ----------------------------------------------------------------------------- */

/* SiLU'(x) = s (1 + x (1 - s)), s = sigmoid(x). For x = -inf: 0, the limit. */
V_INLINE f32x16 v_silu_slope(f32x16 x)
{
    f32x16 s = v_sigmoid(x), one = v_set(1.0f);
    f32x16 d = v_mul(s, v_fma(x, v_sub(one, s), one));
    return v_select(v_lt(x, v_set(-EXP_HIGH)), v_zero(), d);
}

/* GELU'(x) = (1 + erf(x / sqrt 2)) / 2 + x exp(-x^2 / 2) / sqrt(2 pi) */
V_INLINE f32x16 v_gelu_slope(f32x16 x)
{
    f32x16 e = v_erf(v_mul(x, v_set(0x1.6a09e6p-1f)));
    f32x16 density = v_mul(v_exp(v_mul(v_mul(v_set(-0.5f), x), x)), v_set(0.3989423f));
    return v_fma(x, density, v_mul(v_set(0.5f), v_add(v_set(1.0f), e)));
}

/* Of y = x (1 + t) / 2, t = tanh(u), u = c (x + 0.044715 x^3), c = sqrt(2 / pi):
 * (1 + t) / 2 + x (1 - t^2) / 2 * c (1 + 0.134145 x^2) */
V_INLINE f32x16 v_gelu_tanh_slope(f32x16 x)
{
    f32x16 xx = v_mul(x, x), one = v_set(1.0f), half = v_set(0.5f);
    f32x16 t  = v_tanh(v_mul(v_set(0.7978846f), v_mul(x, v_fma(v_set(0.044715f), xx, one))));
    f32x16 du = v_mul(v_set(0.7978846f), v_fma(v_set(0.134145f), xx, one));
    f32x16 dt = v_mul(v_mul(half, x), v_sub(one, v_mul(t, t)));
    return v_fma(dt, du, v_mul(half, v_add(one, t)));
}

V_INLINE f32x16 v_relu_slope(f32x16 x)
{
    return v_select(v_lt(v_zero(), x), v_set(1.0f), v_zero());
}

V_INLINE f32x16 v_relu2_slope(f32x16 x) { return v_mul(v_set(2.0f), v_relu(x)); }

#define GATED_BACKWARD(name, act, slope)                                                          \
    static void name(float *h, float *gate, float *up, const float *d_h, int n)                   \
    {                                                                                             \
        for (int i = 0; i < n; i += LANES) {                                                      \
            int    len = min_int(LANES, n - i);                                                   \
            f32x16 g = load_upto(gate + i, len), u = load_upto(up + i, len),                       \
            d = load_upto(d_h + i, len);                                                           \
            f32x16 a = act(g);                                                                    \
            store_upto(gate + i, v_mul(v_mul(d, u), slope(g)), len);                              \
            store_upto(up + i, v_mul(d, a), len);                                                 \
            store_upto(h + i, v_mul(a, u), len);                                                  \
        }                                                                                         \
    }

GATED_BACKWARD(swiglu_backward, v_silu, v_silu_slope)
GATED_BACKWARD(geglu_backward, v_gelu_tanh, v_gelu_tanh_slope)
GATED_BACKWARD(geglu_erf_backward, v_gelu, v_gelu_slope)

#define PLAIN_BACKWARD(name, act, slope)                                                          \
    static void name(float *h, float *x, const float *d_h, int n)                                 \
    {                                                                                             \
        for (int i = 0; i < n; i += LANES) {                                                      \
            int    len = min_int(LANES, n - i);                                                   \
            f32x16 v = load_upto(x + i, len), d = load_upto(d_h + i, len);                        \
            store_upto(x + i, v_mul(d, slope(v)), len);                                           \
            store_upto(h + i, act(v), len);                                                       \
        }                                                                                         \
    }

PLAIN_BACKWARD(gelu_backward, v_gelu, v_gelu_slope)
PLAIN_BACKWARD(gelu_tanh_backward, v_gelu_tanh, v_gelu_tanh_slope)
PLAIN_BACKWARD(relu_backward, v_relu, v_relu_slope)
PLAIN_BACKWARD(relu2_backward, v_relu2, v_relu2_slope)

/* ---- Norms ----------------------------------------------------------------------------------- */

static float dot(const float *x, const float *y, int n)
{
    f32x16 lane = v_zero();
    for (int i = 0; i < n; i += LANES) {
        int len = min_int(LANES, n - i);
        lane    = v_fma(load_upto(x + i, len), load_upto(y + i, len), lane);
    }
    return v_fold_sum(lane);
}

/* y = c r w + b, c = x - mean (RMSNorm: x), r = 1 / sqrt(mean(c^2) + eps), h = c r, g = d_y w:
 *   d_x += r (g - h mean(g h) - mean(g)), the last for LayerNorm alone; d_w += d_y h; d_b += d_y */
V_INLINE void norm_backward(float *d_x, float *d_w, float *d_b, const float *x, const float *w,
                            const float *d_y, float mean, float r, bool centred, int n)
{
    f32x16 gh = v_zero(), sum = v_zero(), m = v_set(mean), by = v_set(r);
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 dy = load_upto(d_y + i, len), h = v_mul(v_sub(load_upto(x + i, len), m), by);
        f32x16 g = v_mul(dy, load_upto(w + i, len));
        gh  = v_fma(g, h, gh);
        sum = v_add(sum, g);
        if (d_w)
            store_upto(d_w + i, v_fma(dy, h, load_upto(d_w + i, len)), len);
        if (d_b)
            store_upto(d_b + i, v_add(load_upto(d_b + i, len), dy), len);
    }
    f32x16 mean_gh = v_set(v_fold_sum(gh) / (float)n),
           mean_g = v_set(centred ? v_fold_sum(sum) / (float)n : 0.0f);
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 h = v_mul(v_sub(load_upto(x + i, len), m), by),
               g = v_mul(load_upto(d_y + i, len), load_upto(w + i, len));
        f32x16 d = v_sub(v_sub(g, v_mul(h, mean_gh)), mean_g);
        store_upto(d_x + i, v_fma(by, d, load_upto(d_x + i, len)), len);
    }
}

static void rms_norm_backward(float *d_x, float *d_w, const float *x, const float *w,
                              const float *d_y, int n, float eps)
{
    float r = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);
    norm_backward(d_x, d_w, NULL, x, w, d_y, 0.0f, r, false, n);
}

static void layer_norm_backward(float *d_x, float *d_w, float *d_b, const float *x, const float *w,
                                const float *d_y, int n, float eps)
{
    f32x16 lane = v_zero();
    for (int i = 0; i < n; i += LANES)
        lane = v_add(lane, load_upto(x + i, min_int(LANES, n - i)));
    float mean = v_fold_sum(lane) / (float)n;
    float r    = 1.0f / sqrtf(squares_around(x, mean, n) / (float)n + eps);
    norm_backward(d_x, d_w, d_b, x, w, d_y, mean, r, true, n);
}

/* ---- Softmax --------------------------------------------------------------------------------- */

static void softmax_scaled(float *x, float scale, int n, float *m_out, float *l_out)
{
    f32x16 top = v_set(-INFINITY), sum = v_zero(), by = v_set(scale);
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 s   = v_mul(load_upto(x + i, len), by);
        top        = v_max(v_select(v_range(0, len), s, v_set(-INFINITY)), top);
    }
    f32x16 m = v_set(v_fold_max(top));
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 p   = v_exp(v_sub(v_mul(load_upto(x + i, len), by), m));
        sum        = v_add(sum, v_select(v_range(0, len), p, v_zero()));
        store_upto(x + i, p, len);
    }
    float  l = v_fold_sum(sum);
    f32x16 r = v_set(1.0f / l);
    for (int i = 0; i < n; i += LANES) {
        int len = min_int(LANES, n - i);
        store_upto(x + i, v_mul(load_upto(x + i, len), r), len);
    }
    *m_out = v_first(m);
    *l_out = l;
}

/* Recomputes the probabilities from the m and l of softmax_scaled: training does not store
 * them. */
static void softmax_again(float *x, float scale, float m, float l, int n)
{
    f32x16 by = v_set(scale), top = v_set(m), r = v_set(1.0f / l);
    for (int i = 0; i < n; i += LANES) {
        int len = min_int(LANES, n - i);
        store_upto(x + i, v_mul(v_exp(v_sub(v_mul(load_upto(x + i, len), by), top)), r), len);
    }
}

/* d_s = p (d_p - sum(p d_p)) scale: the derivative of softmax, without its matrix. */
static void softmax_backward(float *d_s, const float *p, float sum, float scale, int n)
{
    f32x16 by = v_set(scale), mean = v_set(sum);
    for (int i = 0; i < n; i += LANES) {
        int len = min_int(LANES, n - i);
        store_upto(d_s + i,
                   v_mul(v_mul(load_upto(p + i, len), v_sub(load_upto(d_s + i, len), mean)), by),
                   len);
    }
}

/* ---- AdamW ----------------------------------------------------------------------------------- */

static void adamw(float *w, float *m, float *v, const float *g, int n, const AdamwStep *s)
{
    f32x16 b1 = v_set(s->beta1), b2 = v_set(s->beta2), c1 = v_set(1.0f - s->beta1),
           c2 = v_set(1.0f - s->beta2);
    f32x16 clip = v_set(s->grad_scale), keep = v_set(s->keep), step = v_set(s->step),
           root = v_set(s->root), eps = v_set(s->eps);
    for (int i = 0; i < n; i += LANES) {
        int    len = min_int(LANES, n - i);
        f32x16 d  = v_mul(load_upto(g + i, len), clip);
        f32x16 m1 = v_fma(b1, load_upto(m + i, len), v_mul(c1, d));
        f32x16 v1 = v_fma(b2, load_upto(v + i, len), v_mul(c2, v_mul(d, d)));
        f32x16 below = v_add(v_mul(v_sqrt(v1), root), eps);
        f32x16 kept  = v_mul(load_upto(w + i, len), keep);
        store_upto(m + i, m1, len);
        store_upto(v + i, v1, len);
        store_upto(w + i, v_sub(kept, v_mul(step, v_div(m1, below))), len);
    }
}

#endif
