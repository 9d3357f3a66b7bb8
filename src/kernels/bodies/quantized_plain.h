/* kernels/bodies/quantized_plain.h: quantized weights in plain C, as docs/numerics.md defines them.
 * This is the scalar table, which every other table must equal bit by bit.
 *
 * Why a product is the same everywhere: weights and activations are integers of a few bits, so the
 * sum over a superblock of 256 k is exact in int32, in any order and with any number at a time.
 * Floats start where the sum ends: one fmaf for each superblock (or run of 32), superblocks
 * ascending. */
#ifndef KERNELS_BODIES_QUANTIZED_PLAIN_H
#define KERNELS_BODIES_QUANTIZED_PLAIN_H

#include <assert.h>

#include "kernels/bodies/blocking.h"

/* ---- Activations ----------------------------------------------------------------------------- */

/* The largest magnitude. Without the sign, bit patterns of floats have the order of their values;
 * NaN and infinity are larger than every number, so no value is lost to a comparison with NaN. */
static float largest_magnitude(const float *x, int n)
{
    uint32_t most = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits = f32_bits(x[i]) & 0x7fffffffu;
        most          = bits > most ? bits : most;
    }
    return f32_from(most);
}

/* n floats with one scale, which it returns. */
static float quantize_group(int16_t *q, const float *x, int n, float most_q)
{
    float amax = largest_magnitude(x, n);
    for (int i = 0; i < n; i++)
        q[i] = 0;
    if (!(amax <= 0x1.fffffep127f))
        return NAN;
    if (amax < 0x1p-100f) /* 1 / d would overflow */
        return 0;
    float d = amax / most_q, r = 1.0f / d;
    for (int i = 0; i < n; i++)
        q[i] = (int16_t)((x[i] * r + 0x1.8p23f) - 0x1.8p23f); /* nearest even */
    return d;
}

static void quantize(int16_t *q, float *d, const float *x, int n, Integers ints)
{
    int   each   = int_each(ints);
    float most_q = ints == INT16 ? 32512.0f : 127.0f;
    for (int c = 0; c < n; c += each)
        *d++ = quantize_group(q + c, x + c, min_int(n - c, each), most_q);
    for (int c = n; c % 64 != 0; c++)
        q[c] = 0;
}

/* ---- Integer products ------------------------------------------------------------------------ */

/* One superblock of one row after the other; between superblocks the sum is in y. */

/* One superblock of one row, taken out of its panel. */
typedef struct RowBlock {
    WeightType type;
    int        n;
    BlockRow   w;
    float      d; /* the scale; types that have one for each 32 have them in w */
} RowBlock;

static RowBlock row_block(WeightType type, Panels superblock, int r, int n)
{
    RowBlock b = { .type = type, .n = n, .w = { .dmin = 0 } };
    if (weight_type_gguf(type)) {
        panel_block_row(type, &b.w, superblock, r, n);
        b.d = b.w.d[0];
    } else {
        superblock_row_to_i8(type, b.w.code, superblock, r, n);
        b.d = superblock_scale(type, superblock, r);
    }
    return b;
}

static int32_t integer_dot(const int8_t *w, const int16_t *q, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += w[i] * q[i];
    return sum;
}

/* Types with runs: a step for each 32, and one for what q4_1 adds. */
static float add_runs(const RowBlock *b, const int16_t *q, const float *dx, Integers ints,
                      float acc)
{
    static const int8_t ones[32] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                     1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    for (int i = 0; i < b->n; i += 32) {
        float x = dx[i / int_each(ints)];
        acc = fmaf(b->w.d[i / 32] * x, (float)integer_dot(b->w.code + i, q + i, 32), acc);
        if (weight_type_adds(b->type))
            acc = fmaf(b->w.m[i / 32] * x, (float)integer_dot(ones, q + i, 32), acc);
    }
    return acc;
}

/* K-quants: sub-scales and minima are integers too. All sub-blocks go into one sum, all minima into
 * another. */
static float add_sub_blocks(const RowBlock *b, const int16_t *q, float dx, float acc)
{
    int     sub_k = weight_type_sub(b->type);
    int32_t sum = 0, minima = 0;
    for (int i = 0; i < SUPERBLOCK; i++) {
        sum += b->w.sub[i / sub_k] * b->w.code[i] * q[i];
        minima += b->w.min[i / sub_k] * q[i];
    }
    acc = fmaf(b->d * dx, (float)sum, acc);
    return weight_type_has_minima(b->type) ? fmaf(-(b->w.dmin * dx), (float)minima, acc) : acc;
}

/* q8 with a scale for each 32 activations: these are summed, then times the weights' scale. */
static float add_groups(const RowBlock *b, const int16_t *q, const float *dx, float acc)
{
    float c = 0;
    for (int i = 0; i < b->n; i += 32)
        c = fmaf(dx[i / 32], (float)integer_dot(b->w.code + i, q + i, min_int(b->n - i, 32)), c);
    return fmaf(b->d, c, acc);
}

/* GGUF types take 16 bits as two vectors of 8: q = 255 * hi + lo. */
static float add_halves(const RowBlock *b, const int16_t *q, float dx, float acc)
{
    int16_t half[2][SUPERBLOCK] = { 0 };
    float   d[2]                = { 255 * dx, dx };
    for (int i = 0; i < b->n; i++) {
        half[0][i] = (int16_t)((257 * q[i] + 32768) >> 16);
        half[1][i] = (int16_t)(q[i] - 255 * half[0][i]);
    }
    for (int i = 0; i < 2; i++)
        acc = weight_type_has_runs(b->type) ? add_runs(b, half[i], &d[i], INT8, acc)
                                            : add_sub_blocks(b, half[i], d[i], acc);
    return acc;
}

/* dx: the scales of q. */
static float add_superblock(const RowBlock *b, const int16_t *q, const float *dx, Integers ints,
                            float acc)
{
    if (weight_type_gguf(b->type) && ints == INT16)
        return add_halves(b, q, *dx, acc);
    if (weight_type_has_runs(b->type))
        return add_runs(b, q, dx, ints, acc);
    if (ints == INT8_BY_32)
        return add_groups(b, q, dx, acc);
    if (!weight_type_gguf(b->type))
        return fmaf(b->d * *dx, (float)integer_dot(b->w.code, q, b->n), acc);
    return add_sub_blocks(b, q, *dx, acc);
}

static void matmul_int(const IntMatmulArgs *a, WeightType type)
{
    const int each = int_each(a->ints);
    assert(a->ints != INT8_BY_32 || weight_type_by_32(type));
    for (int row = 0; row < a->n_panels * PANEL_ROWS; row++) {
        Panels panel = panels_from(type, a->w, row / PANEL_ROWS, a->k);
        for (int k0 = 0, s = 0; k0 < a->k; k0 += SUPERBLOCK, s++) {
            RowBlock b = row_block(type, panel_superblock(type, panel, s), row % PANEL_ROWS,
                                   min_int(a->k - k0, SUPERBLOCK));
            for (int t = 0; t < a->n_tok; t++) {
                float *y = a->y + (size_t)t * a->y_stride + row,
                      acc = s ? *y
                    : a->bias ? a->bias[row]
                              : 0;
                *y = add_superblock(&b, a->q + (size_t)t * a->q_stride + k0,
                                    a->d + (size_t)t * a->d_stride + k0 / each, a->ints, acc);
            }
        }
    }
}

/* ---- --math f32 ------------------------------------------------------------------------------ */

/* The same sum as for float weights (bodies/matmul.h), with dequantized weights. */
static void matmul_wide(const MatmulArgs *a, WeightType type)
{
    _Static_assert((int)K_CHUNK == (int)SUPERBLOCK, "a chunk has one scale");
    float w[SUPERBLOCK];
    for (int row = 0; row < a->n_panels * PANEL_ROWS; row++) {
        Panels panel = panels_from(type, a->w, row / PANEL_ROWS, a->k);
        for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
            int n = min_int(a->k - k0, K_CHUNK);
            panel_row_to_f32(type, w, panel_superblock(type, panel, k0 / SUPERBLOCK),
                             row % PANEL_ROWS, n);
            for (int t = 0; t < a->n_tok; t++) {
                const float *x = a->x + (size_t)t * a->x_stride + k0;
                float       *y = a->y + (size_t)t * a->y_stride + row,
                            acc = k0 ? *y
                          : a->bias  ? a->bias[row]
                                     : 0,
                            c = 0;
                for (int i = 0; i < n; i++)
                    c = fmaf(w[i], x[i], c);
                *y = acc + c;
            }
        }
    }
}

/* ---- The entries of the table ---------------------------------------------------------------- */

#define QUANTIZED(ID, name, ...)                                                     \
    static void matmul_int_##name(const IntMatmulArgs *a) { matmul_int(a, WT_##ID); } \
    static void matmul_##name(const MatmulArgs *a) { matmul_wide(a, WT_##ID); }
QUANTIZED_TYPES(QUANTIZED)

#endif
