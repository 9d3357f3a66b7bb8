/* kernels/bodies/elementwise.h: operations where element i depends on elements i alone; any length,
 * any alignment. */
#ifndef KERNELS_BODIES_ELEMENTWISE_H
#define KERNELS_BODIES_ELEMENTWISE_H

#include "kernels/bodies/blocking.h"
#include "kernels/bodies/math.h"

/* y[i] = f(x[i]). The last vector is loaded and stored in part: nothing past n is touched. */
#define MAP(name, f)                                          \
    static void name(float *y, const float *x, int n)         \
    {                                                         \
        int i = 0;                                            \
        for (; i + LANES <= n; i += LANES)                    \
            v_store(y + i, f(v_load(x + i)));                 \
        if (i < n)                                            \
            v_store_n(y + i, f(v_load_n(x + i, n - i)), n - i); \
    }

MAP(map_exp, v_exp)
MAP(map_sigmoid, v_sigmoid)
MAP(map_gelu, v_gelu)
MAP(map_gelu_tanh, v_gelu_tanh)
MAP(map_relu, v_relu)
MAP(map_relu2, v_relu2)

/* Source: Huang and Schlag 2024, "Deriving Activation Functions Using Integration". v: p, n, beta,
 * eps of docs/numerics.md. NaN takes the second form. */
static void xielu(float *y, const float *x, const float *v, int n)
{
    f32x16 pos = v_set(v[0]), neg = v_set(v[1]), beta = v_set(v[2]), eps = v_set(v[3]);
    for (int i = 0; i < n; i += LANES) {
        int    len = n - i < LANES ? n - i : LANES;
        f32x16 u = load_upto(x + i, len), line = v_mul(beta, u);
        f32x16 low  = v_select(v_lt(eps, u), eps, u);
        f32x16 down = v_fma(neg, v_sub(v_expm1_low(low), u), line);
        f32x16 up   = v_fma(v_mul(pos, u), u, line);
        store_upto(y + i, v_select(v_lt(v_zero(), u), up, down), len);
    }
}

/* Sixteen channels of all tokens before the next sixteen: their weights, which are stored by
 * channel, are transposed once. len: channels; the last vector may have fewer. */
V_INLINE void conv_lanes(const ConvArgs *a, int at, int len)
{
    float        turned[MOST_TAPS][LANES];
    const f32x16 shift = a->shift ? load_upto(a->shift + at, len) : v_zero();
    const float *w = a->w + (size_t)at * (size_t)a->taps;
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < a->taps; j++)
            turned[j][i] = i < len ? w[i * a->taps + j] : 0.0f;
    for (int t = 0; t < a->n_tok; t++) {
        float *y   = a->y + (size_t)t * a->y_stride + at;
        f32x16 sum = shift;
        for (int j = 0; j < a->taps; j++)
            sum = v_fma(v_load(turned[j]), load_upto(a->u[t + j] + at, len), sum);
        store_upto(y, a->silu ? v_silu(sum) : v_mul(load_upto(y, len), sum), len);
    }
}

static void short_conv(const ConvArgs *a)
{
    int at = 0;
    for (; at + LANES <= a->n; at += LANES)
        conv_lanes(a, at, LANES);
    if (at < a->n)
        conv_lanes(a, at, a->n - at);
}

static void add(float *x, const float *y, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(x + i, v_add(v_load(x + i), v_load(y + i)));
    if (i < n)
        v_store_n(x + i, v_add(v_load_n(x + i, n - i), v_load_n(y + i, n - i)), n - i);
}

/* The product is rounded before it is added: docs/numerics.md has two steps here, so no v_fma. */
static void add_scaled(float *x, const float *y, float m, int n)
{
    f32x16 by = v_set(m);
    int    i  = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(x + i, v_add(v_load(x + i), v_mul(v_load(y + i), by)));
    if (i < n)
        v_store_n(x + i, v_add(v_load_n(x + i, n - i), v_mul(v_load_n(y + i, n - i), by)), n - i);
}

/* One rounding: the definition has a fused step here. */
static void add_weighted(float *y, const float *f, float p, int n)
{
    f32x16 by = v_set(p);
    int    i  = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(y + i, v_fma(by, v_load(f + i), v_load(y + i)));
    if (i < n)
        v_store_n(y + i, v_fma(by, v_load_n(f + i, n - i), v_load_n(y + i, n - i)), n - i);
}

static void scale(float *x, float m, int n)
{
    f32x16 by = v_set(m);
    for (int i = 0; i < n; i += LANES) {
        int len = n - i < LANES ? n - i : LANES;
        store_upto(x + i, v_mul(load_upto(x + i, len), by), len);
    }
}

static void soft_cap(float *x, float cap, int n)
{
    f32x16 c = v_set(cap);
    for (int i = 0; i < n; i += LANES) {
        int len = n - i < LANES ? n - i : LANES;
        store_upto(x + i, v_mul(c, v_tanh(v_div(load_upto(x + i, len), c))), len);
    }
}

/* The gated feed-forward: act(gate) * up. Source: Shazeer 2020, "GLU Variants Improve
 * Transformer". */
#define GATED(name, act)                                                                           \
    static void name(float *h, const float *gate, const float *up, int n)                          \
    {                                                                                              \
        int i = 0;                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                         \
            v_store(h + i, v_mul(act(v_load(gate + i)), v_load(up + i)));                          \
        if (i < n)                                                                                 \
            v_store_n(h + i, v_mul(act(v_load_n(gate + i, n - i)), v_load_n(up + i, n - i)),       \
                      n - i);                                                                      \
    }

GATED(swiglu, v_silu)
GATED(geglu, v_gelu_tanh)
GATED(geglu_erf, v_gelu)

/* Source: RoFormer (Su et al. 2021), section 3.4.2, with the pairs (i, i + rot / 2) of Llama in
 * Hugging Face's layout. One product of each pair is rounded, the other is fused: the definition
 * says which. */
static void rope(float *x, int n_heads, int head_dim, int rot, const float *cosine,
                 const float *sine)
{
    int half = rot / 2;
    for (int h = 0; h < n_heads; h++, x += head_dim)
        for (int i = 0; i < half; i += LANES) {
            int    n = half - i < LANES ? half - i : LANES;
            f32x16 c = load_upto(cosine + i, n), s = load_upto(sine + i, n);
            f32x16 x0 = load_upto(x + i, n), x1 = load_upto(x + half + i, n);
            store_upto(x + i, v_fma(x0, c, v_neg(v_mul(x1, s))), n);
            store_upto(x + half + i, v_fma(x1, c, v_mul(x0, s)), n);
        }
}

/* The tail goes through an array: no machine here stores part of a vector of f16. */
static void f32_to_f16_all(uint16_t *y, const float *x, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store_f16(y + i, v_load(x + i));
    if (i < n) {
        uint16_t tail[LANES];
        v_store_f16(tail, v_load_n(x + i, n - i));
        memcpy(y + i, tail, (size_t)(n - i) * sizeof *y);
    }
}

static void f16_to_f32_all(float *y, const uint16_t *x, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(y + i, v_load_f16(x + i));
    if (i < n) {
        uint16_t tail[LANES] = { 0 };
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        v_store_n(y + i, v_load_f16(tail), n - i);
    }
}

#endif
