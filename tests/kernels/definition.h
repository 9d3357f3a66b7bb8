/* tests/kernels/definition.h: docs/numerics.md executed literally, one short scalar loop for each
 * kernel, with nothing taken from src/kernels but the argument structs. Slow on purpose: this is
 * what every table must equal bit by bit. */
#ifndef TESTS_DEFINITION_H
#define TESTS_DEFINITION_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/number.h"
#include "kernels/kernels.h"

static float def_max(float a, float b) { return a > b ? a : b; }

/* lane = index mod 16, ascending, unused lanes +0, then 8+8, 4+4, 2+2, 1+1 */
static float def_fold(float lane[16])
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

static float def_exp(float x)
{
    if (isnan(x))
        return x;
    if (x < -87.33654f)
        return 0.0f;
    if (x > 88.72283f)
        return INFINITY;
    float n = fmaf(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
    float r = fmaf(n, -0x1.62e430p-1f, x);
    r       = fmaf(n, 0x1.05c610p-29f, r);
    static const float c[] = {
        0x1.6ac71cp-10f, 0x1.123ddep-7f, 0x1.555858p-5f, 0x1.55548cp-3f, 0x1.fffffcp-2f, 1.0f, 1.0f
    };
    float p = c[0];
    for (int i = 1; i < 7; i++)
        p = fmaf(p, r, c[i]);
    return f32_from(f32_bits(p) + ((uint32_t)(int32_t)n << 23));
}

static float def_sigmoid(float x) { return 1.0f / (1.0f + def_exp(-x)); }
static float def_silu(float x) { return x < -88.72283f ? -0.0f : x / (1.0f + def_exp(-x)); }

static float def_softplus(float x)
{
    static const float c[] = { 0x1.1ed7bep-3f, 0x1.1ebd0ep-3f, 0x1.99d208p-3f, 0x1.555502p-2f };
    float t = def_exp(-fabsf(x)), s = t / (2.0f + t), z = s * s, d = s + s, p = c[0];
    for (int i = 1; i < 4; i++)
        p = fmaf(p, z, c[i]);
    return (x > 0.0f ? x : 0.0f) + fmaf(d * z, p, d);
}

static float def_tanh(float x)
{
    static const float c[] = { -0x1.767a14p-8f, 0x1.524c40p-6f, -0x1.b842c4p-5f, 0x1.11075ep-3f,
                               -0x1.555534p-2f };
    float t = fabsf(x), z = x * x, p = c[0];
    if (!(t < 0.625f))
        return copysignf(1.0f - 2.0f / (def_exp(2.0f * t) + 1.0f), x);
    for (int i = 1; i < 5; i++)
        p = fmaf(p, z, c[i]);
    return copysignf(fmaf(p * z, t, t), x);
}

static float def_erf(float x)
{
    static const float a[] = { -0x1.37c790p-11f, 0x1.46b666p-8f, -0x1.b6777ep-6f,
                               0x1.ce195ap-4f,   -0x1.8126e2p-2f, 0x1.06eba6p-3f };
    static const float b[] = { -0x1.97b2f0p-17f, 0x1.5c1c76p-12f, -0x1.e24e9ep-9f, 0x1.869b12p-6f,
                               -0x1.b384f0p-4f,  -0x1.452b5ap-1f, -0x1.20effep+0f };
    float t = fabsf(x), z = x * x, p;
    if (t < 0.9375f) {
        p = a[0];
        for (int i = 1; i < 6; i++)
            p = fmaf(p, z, a[i]);
        return copysignf(fmaf(p, t, t), x);
    }
    t = t > 4.0f ? 4.0f : t;
    p = b[0];
    for (int i = 1; i < 7; i++)
        p = fmaf(p, t, b[i]);
    return copysignf(1.0f - def_exp(p * t), x);
}

static float def_gelu(float x) { return (0.5f * x) * (1.0f + def_erf(x * 0x1.6a09e6p-1f)); }
static float def_gelu_tanh(float x)
{
    float u = x * fmaf(0.044715f, x * x, 1.0f);
    return (0.5f * x) * (1.0f + def_tanh(0.7978846f * u));
}

static float def_relu(float x) { return x < 0.0f ? 0.0f : x; }
/* exp(x) - 1, x <= 0 */
static float def_expm1_low(float x)
{
    static const float c[] = { 0x1.6ac71cp-10f, 0x1.123ddep-7f, 0x1.555858p-5f, 0x1.55548cp-3f,
                               0x1.fffffcp-2f };
    if (isnan(x) || x < -87.33654f)
        return isnan(x) ? x : -1.0f;
    float n = fmaf(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
    float r = fmaf(n, 0x1.05c610p-29f, fmaf(n, -0x1.62e430p-1f, x)), p = c[0];
    for (int i = 1; i < 5; i++)
        p = fmaf(p, r, c[i]);
    float power = ldexpf(1.0f, (int)n);
    return fmaf(power, fmaf(p * r, r, r), power - 1.0f);
}
static const float XIELU[4] = { 1.7f, 0.9f, 0.5f, -1e-6f };
static float def_xielu(float x)
{
    float low = x > XIELU[3] ? XIELU[3] : x, line = XIELU[2] * x;
    return x > 0 ? fmaf(XIELU[0] * x, x, line) : fmaf(XIELU[1], def_expm1_low(low) - x, line);
}

static float def_relu2(float x) { return def_relu(x) * def_relu(x); }

/* w [rows][k] row-major, already widened. */
static void def_matmul(float *y, size_t y_stride, const float *w, int rows, const float *x,
                       size_t x_stride, int k, int n_tok, const float *bias)
{
    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < rows; r++) {
            float acc = bias ? bias[r] : 0.0f;
            for (int k0 = 0; k0 < k; k0 += 256) {
                float c = 0.0f;
                for (int i = k0; i < k && i < k0 + 256; i++)
                    c = fmaf(w[(size_t)r * (size_t)k + (size_t)i],
                             x[(size_t)t * x_stride + (size_t)i], c);
                acc = acc + c;
            }
            y[(size_t)t * y_stride + (size_t)r] = acc;
        }
}

static void def_rms_norm(float *y, const float *x, const float *w, int n, float eps)
{
    float lane[16] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float r = 1.0f / sqrtf(def_fold(lane) / (float)n + eps);
    for (int i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

/* b may be NULL: then the last step is one multiplication. */
static void def_layer_norm(float *y, const float *x, const float *w, const float *b, int n,
                           float eps)
{
    float lane[16] = { 0 }, square[16] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % 16] = lane[i % 16] + x[i];
    float mean = def_fold(lane) / (float)n;
    for (int i = 0; i < n; i++)
        square[i % 16] = fmaf(x[i] - mean, x[i] - mean, square[i % 16]);
    float r = 1.0f / sqrtf(def_fold(square) / (float)n + eps);
    for (int i = 0; i < n; i++)
        y[i] = b ? fmaf((x[i] - mean) * r, w[i], b[i]) : ((x[i] - mean) * r) * w[i];
}

static void def_softmax(float *x, int n)
{
    float m = -INFINITY, lane[16] = { 0 };
    for (int i = 0; i < n; i++)
        m = def_max(x[i], m);
    for (int i = 0; i < n; i++) {
        x[i]         = def_exp(x[i] - m);
        lane[i % 16] = lane[i % 16] + x[i];
    }
    float r = 1.0f / def_fold(lane);
    for (int i = 0; i < n; i++)
        x[i] = x[i] * r;
}

static void def_rope(float *x, int n_heads, int head_dim, int rot, const float *cosine,
                     const float *sine)
{
    for (int h = 0; h < n_heads; h++)
        for (int i = 0; i < rot / 2; i++) {
            float *a = x + h * head_dim + i, *b = a + rot / 2, x0 = *a, x1 = *b;
            *a = fmaf(x0, cosine[i], -(x1 * sine[i]));
            *b = fmaf(x1, cosine[i], x0 * sine[i]);
        }
}

/* Returns the scale. */
static float def_f32_to_q8(int8_t *code, const float *x, int n)
{
    uint32_t amax = 0;
    for (int i = 0; i < n; i++)
        amax = (f32_bits(x[i]) & 0x7fffffffu) > amax ? f32_bits(x[i]) & 0x7fffffffu : amax;
    memset(code, 0, (size_t)n);
    if (amax >= 0x7f800000u)
        return NAN;
    if (f32_from(amax) < 0x1p-100f)
        return 0.0f;
    float scale = f32_from(amax) / 127.0f, r = 1.0f / scale;
    for (int i = 0; i < n; i++)
        code[i] = (int8_t)rintf(x[i] * r);
    return scale;
}

/* k, v: [64][head_dim] row-major, already widened; part: m, l, then o at 16. */
static void def_attn_tile(float *part, const float *q, const float *k, const float *v, int head_dim,
                          int first, int end, float scale, float cap)
{
    float s[64], m = -INFINITY, lane[16] = { 0 };
    for (int t = first; t < end; t++) {
        float a = 0.0f;
        for (int d = 0; d < head_dim; d++)
            a = fmaf(q[d], k[t * head_dim + d], a);
        s[t] = a * scale;
        if (cap > 0)
            s[t] = cap * def_tanh(s[t] / cap);
        m = def_max(s[t], m);
    }
    for (int d = 0; d < head_dim; d++)
        part[16 + d] = 0.0f;
    for (int t = first; t < end; t++) {
        float p      = def_exp(s[t] - m);
        lane[t % 16] = lane[t % 16] + p;
        for (int d = 0; d < head_dim; d++)
            part[16 + d] = fmaf(p, v[t * head_dim + d], part[16 + d]);
    }
    part[0] = m;
    part[1] = def_fold(lane);
}

static void def_attn_merge(float *state, const float *part, int head_dim)
{
    float m = state[0], top = def_max(part[0], m), a = def_exp(m - top), b = def_exp(part[0] - top);
    state[1] = fmaf(state[1], a, part[1] * b);
    for (int d = 0; d < head_dim; d++)
        state[16 + d] = fmaf(state[16 + d], a, part[16 + d] * b);
    state[0] = top;
}

static void def_attn_end(float *y, const float *state, int head_dim)
{
    float r = 1.0f / state[1];
    for (int d = 0; d < head_dim; d++)
        y[d] = state[16 + d] * r;
}

#endif
