/* tests/kernels/definition_blocks.h: blocks as a GGUF file has them, read literally (ggml-common.h,
 * ggml-quants.c), and docs/numerics.md, "GGUF types", executed on them; nothing is taken from src
 * but f16 and the names of types. */
#ifndef TESTS_DEFINITION_BLOCKS_H
#define TESTS_DEFINITION_BLOCKS_H

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "quant/quant.h"

/* One block: n codes, a sub-scale and a minimum for each `sub` of them. */
typedef struct DefBlock {
    int   n, sub_k;
    int   code[256], sub[16], min[16];
    float d, dmin, m;
} DefBlock;

/* The columns that share a scale and a zero point; 0: a type of GGUF files. */
static inline int def_group(WeightType t)
{
    return t == WT_Q4_Z32 ? 32 : t == WT_Q4_Z64 ? 64 : t == WT_Q4_Z128 ? 128 : 0;
}
static inline bool def_has_runs(WeightType t)
{
    return t == WT_Q8_0 || t == WT_Q4_0 || t == WT_Q4_1 || t == WT_Q5_0 || t == WT_Q5_1
        || t == WT_IQ4_NL || t == WT_MXFP4 || def_group(t);
}
static inline int def_block_k(WeightType t) { return def_has_runs(t) ? 32 : 256; }
static inline int def_block_bytes(WeightType t)
{
    return def_group(t)  ? 19 : t == WT_MXFP4 ? 17 : t == WT_Q4_1 ? 20 : t == WT_Q5_0 ? 22
        : t == WT_Q5_1   ? 24 : t == WT_IQ4_NL ? 18
        : t == WT_Q8_0   ? 34 : t == WT_Q4_0 ? 18 : t == WT_Q4_K ? 144 : t == WT_Q5_K ? 176
        : t == WT_IQ4_XS ? 136 : t == WT_Q2_K ? 84 : t == WT_Q3_K ? 110
        : t == WT_Q8_16  ? 276 : 210;
}

static inline float def_half(const uint8_t *p) { return f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

/* get_scale_min_k4 */
static inline void def_scale_min(int j, const uint8_t *q, int *d, int *m)
{
    if (j < 4) {
        *d = q[j] & 63, *m = q[j + 4] & 63;
    } else {
        *d = (q[j + 4] & 0xF) | (q[j - 4] >> 6) << 4;
        *m = (q[j + 4] >> 4) | (q[j] >> 6) << 4;
    }
}

/* Twice the value of an e2m1 number: sign, two bits of exponent, one of mantissa. */
static inline int def_e2m1(int bits)
{
    int exponent = bits >> 1 & 3, mantissa = bits & 1;
    int twice = exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1);
    return bits & 8 ? -twice : twice;
}

static inline void def_block(WeightType t, const uint8_t *b, DefBlock *o)
{
    *o = (DefBlock){ .n = def_block_k(t), .sub_k = 32 };
    if (t == WT_Q8_0 || t == WT_Q4_0) {
        o->d = def_half(b), o->sub[0] = 1;
        for (int i = 0; i < 32; i++)
            o->code[i] =
                t == WT_Q8_0 ? (int8_t)b[2 + i] : (i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4) - 8;
        return;
    }
    if (def_group(t)) {
        o->d = def_half(b), o->sub[0] = 1;
        for (int i = 0; i < 32; i++)
            o->code[i] = (i < 16 ? b[3 + i] & 15 : b[3 + i - 16] >> 4) - (b[2] & 15);
        return;
    }
    if (t == WT_Q4_1) {
        o->d = def_half(b), o->m = def_half(b + 2), o->sub[0] = 1;
        for (int i = 0; i < 32; i++)
            o->code[i] = i < 16 ? b[4 + i] & 15 : b[4 + i - 16] >> 4;
        return;
    }
    if (t == WT_Q5_0 || t == WT_Q5_1) { /* dequantize_row_q5_0, dequantize_row_q5_1 */
        const uint8_t *high = b + (t == WT_Q5_0 ? 2 : 4), *low = high + 4;
        o->d = def_half(b), o->m = t == WT_Q5_1 ? def_half(b + 2) : 0, o->sub[0] = 1;
        for (int i = 0; i < 32; i++)
            o->code[i] = (i < 16 ? low[i] & 15 : low[i - 16] >> 4)
                + (high[i / 8] >> i % 8 & 1) * 16 - (t == WT_Q5_0 ? 16 : 0);
        return;
    }
    if (t == WT_IQ4_NL || t == WT_IQ4_XS) { /* dequantize_row_iq4_nl, _xs; kvalues_iq4nl */
        static const int values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113 };
        const uint8_t *q = b + (t == WT_IQ4_NL ? 2 : 8);
        o->d = def_half(b), o->sub[0] = 1;
        for (int s = 0; t == WT_IQ4_XS && s < 8; s++)
            o->sub[s] = ((b[4 + s / 2] >> 4 * (s % 2) & 0xf)
                         | ((b[2] | b[3] << 8) >> 2 * s & 3) << 4) - 32;
        for (int i = 0; i < o->n; i++)
            o->code[i] = values[i % 32 < 16 ? q[i / 32 * 16 + i % 32] & 0xf
                                            : q[i / 32 * 16 + i % 32 - 16] >> 4];
        return;
    }
    if (t == WT_MXFP4) {
        o->d = ldexpf(1, b[0] - 128), o->sub[0] = 1;
        for (int i = 0; i < 32; i++)
            o->code[i] = def_e2m1(i < 16 ? b[1 + i] & 15 : b[1 + i - 16] >> 4);
        return;
    }
    if (t == WT_Q2_K) { /* dequantize_row_q2_K */
        o->d = def_half(b + 80), o->dmin = def_half(b + 82), o->sub_k = 16;
        for (int j = 0; j < 16; j++)
            o->sub[j] = b[j] & 0xF, o->min[j] = b[j] >> 4;
        for (int i = 0; i < 256; i++)
            o->code[i] = b[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        return;
    }
    if (t == WT_Q3_K) { /* dequantize_row_q3_K */
        o->d = def_half(b + 108), o->sub_k = 16;
        for (int j = 0; j < 16; j++) {
            int low   = b[96 + j % 8] >> j / 8 * 4 & 15;
            o->sub[j] = (low | (b[104 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
        }
        for (int i = 0; i < 256; i++) {
            int two    = b[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
            o->code[i] = two - (b[i % 32] >> i / 32 & 1 ? 0 : 4);
        }
        return;
    }
    if (t == WT_Q6_K) {
        o->d = def_half(b + 208), o->sub_k = 16;
        for (int i = 0; i < 16; i++)
            o->sub[i] = (int8_t)b[192 + i];
        for (int half = 0; half < 2; half++)
            for (int l = 0; l < 32; l++) {
                const uint8_t *ql = b + 64 * half, *qh = b + 128 + 32 * half;
                int           *y  = o->code + 128 * half;
                y[l]      = ((ql[l] & 0xF) | ((qh[l] >> 0) & 3) << 4) - 32;
                y[l + 32] = ((ql[l + 32] & 0xF) | ((qh[l] >> 2) & 3) << 4) - 32;
                y[l + 64] = ((ql[l] >> 4) | ((qh[l] >> 4) & 3) << 4) - 32;
                y[l + 96] = ((ql[l + 32] >> 4) | ((qh[l] >> 6) & 3) << 4) - 32;
            }
        return;
    }
    if (t == WT_Q8_16) { /* ours: docs/format.md, "Plain codes" */
        memcpy(&o->d, b + 272, 4), o->sub_k = 16;
        for (int i = 0; i < 16; i++)
            o->sub[i] = (int8_t)b[256 + i];
        for (int i = 0; i < 256; i++)
            o->code[i] = (int8_t)b[i];
        return;
    }
    o->d = def_half(b), o->dmin = def_half(b + 2);
    for (int j = 0; j < 8; j++)
        def_scale_min(j, b + 4, &o->sub[j], &o->min[j]);
    const uint8_t *qs = b + (t == WT_Q4_K ? 16 : 48), *qh = b + 16;
    for (int i = 0; i < 256; i++) {
        int s = i / 32, l = i % 32;
        o->code[i] = qs[s / 2 * 32 + l] >> s % 2 * 4 & 15;
        if (t == WT_Q5_K)
            o->code[i] += (qh[l] >> s & 1) * 16;
    }
}

/* Element i as a float, as gguf's quants.py computes it. */
static inline float def_block_value(WeightType t, const DefBlock *b, int i)
{
    int s = i / b->sub_k;
    if (t == WT_Q4_1 || t == WT_Q5_1)
        return b->d * (float)b->code[i] + b->m;
    if (def_has_runs(t))
        return b->d * (float)b->code[i];
    float v = b->d * (float)b->sub[s];
    v       = v * (float)b->code[i];
    return t == WT_Q6_K || t == WT_Q3_K || t == WT_IQ4_XS || t == WT_Q8_16
        ? v : v - b->dmin * (float)b->min[s];
}

/* One step of a row's sum: a block times its integers q, whose scale is dx. */
static inline float def_block_step(WeightType t, const DefBlock *b, const int16_t *q, float dx,
                                   float acc)
{
    int64_t isum = 0, msum = 0, qsum = 0;
    for (int i = 0; i < b->n; i++) {
        isum += (int64_t)b->sub[i / b->sub_k] * b->code[i] * q[i];
        msum += (int64_t)b->min[i / b->sub_k] * q[i];
        qsum += q[i];
    }
    acc = fmaf(b->d * dx, (float)isum, acc);
    if (t == WT_Q4_1 || t == WT_Q5_1)
        return fmaf(b->m * dx, (float)qsum, acc);
    return t == WT_Q2_K || t == WT_Q4_K || t == WT_Q5_K ? fmaf(-(b->dmin * dx), (float)msum, acc)
                                                        : acc;
}

/* The n columns of a row from column k0 on, at most 256, times integers q of 8 bits and of one
 * token, d their scales for each `each` columns. */
static inline float def_columns(WeightType t, const uint8_t *row, int k0, int n, const int16_t *q,
                                const float *d, int each, float acc)
{
    DefBlock b;
    int      block = def_block_k(t);
    for (int i = 0; i < n; i += block) {
        def_block(t, row + (size_t)((k0 + i) / block) * (size_t)def_block_bytes(t), &b);
        acc = def_block_step(t, &b, q + i, d[i / each], acc);
    }
    return acc;
}

/* 16 bits, q = 255 * hi + lo: the same with hi and 255 times the scale, then with lo. */
static inline float def_halves(WeightType t, const uint8_t *row, int k0, int n, const int16_t *q,
                               float d, float acc)
{
    int16_t hi[256], lo[256];
    float   d_hi = 255 * d;
    for (int i = 0; i < n; i++) {
        hi[i] = (int16_t)floor((257.0 * q[i] + 32768.0) / 65536.0);
        lo[i] = (int16_t)(q[i] - 255 * hi[i]);
    }
    acc = def_columns(t, row, k0, n, hi, &d_hi, 256, acc);
    return def_columns(t, row, k0, n, lo, &d, 256, acc);
}

/* Rows of blocks [rows], row_bytes apart, times n_tok rows of integers. */
static inline void def_matmul_blocks(float *y, size_t y_stride, WeightType t, const uint8_t *blocks,
                                     size_t row_bytes, int rows, const int16_t *q, size_t q_stride,
                                     const float *d, size_t d_stride, Integers ints, int k,
                                     int n_tok, const float *bias)
{
    const int each = ints == INT8_BY_32 ? 32 : 256;
    for (int r = 0; r < rows; r++)
        for (int tok = 0; tok < n_tok; tok++) {
            const uint8_t *row = blocks + (size_t)r * row_bytes;
            float          acc = bias ? bias[r] : 0.0f;
            for (int k0 = 0; k0 < k; k0 += 256) {
                const int16_t *at = q + (size_t)tok * q_stride + (size_t)k0;
                const float   *dx = d + (size_t)tok * d_stride + (size_t)(k0 / each);
                const int      n  = k - k0 < 256 ? k - k0 : 256;
                acc = ints == INT16 ? def_halves(t, row, k0, n, at, *dx, acc)
                                    : def_columns(t, row, k0, n, at, dx, each, acc);
            }
            y[(size_t)tok * y_stride + (size_t)r] = acc;
        }
}

/* The same weights as floats: docs/numerics.md, "Float weights, --math f32". */
static inline void def_matmul_block_values(float *y, size_t y_stride, WeightType t,
                                           const uint8_t *blocks, size_t row_bytes, int rows,
                                           const float *x, size_t x_stride, int k, int n_tok,
                                           const float *bias)
{
    DefBlock b = { 0 };
    int      n = def_block_k(t);
    for (int tok = 0; tok < n_tok; tok++)
        for (int r = 0; r < rows; r++) {
            float acc = bias ? bias[r] : 0.0f, c = 0.0f;
            for (int i = 0; i < k; i++) {
                if (i % n == 0)
                    def_block(t,
                              blocks + (size_t)r * row_bytes
                                  + (size_t)(i / n) * (size_t)def_block_bytes(t),
                              &b);
                c = fmaf(def_block_value(t, &b, i % n), x[(size_t)tok * x_stride + (size_t)i],
                         i % 256 ? c : 0.0f);
                if (i % 256 == 255 || i == k - 1)
                    acc = acc + c;
            }
            y[(size_t)tok * y_stride + (size_t)r] = acc;
        }
}

#endif
