/* kernels/bodies/matmul_bf16.h: y = W x + bias for bf16 weights and x rounded to bf16 (--math
 * bf16). Lanes are rows; a row's sum is
 *   acc = bias or +0; for each 32 k: e = +0, o = +0;
 *     even k: e = fmaf(w, x, e); odd k: o = fmaf(w, x, o); acc = acc + (e + o)
 * for every blocking. Few tokens: all of x is rounded into scratch and the weights stream. Many:
 * the blocks of matmul.h, with x rounded while it is copied into scratch. Tiles hold e and o in
 * registers and let acc spill: the even k, then the odd ones, through a tile of the size of --math
 * f32's was 12% slower with AVX-512, because e is stored and read again. */
#ifndef KERNELS_BODIES_MATMUL_BF16_H
#define KERNELS_BODIES_MATMUL_BF16_H

#include "kernels/bodies/matmul.h"

enum { BF16_GROUP = 32 };
#define BF16_PANELS(n_t) (LANES_ACC / (2 * (n_t)) >= 4 ? 4 : LANES_ACC / (2 * (n_t)) >= 2 ? 2 : 1)

/* 16 floats rounded to bf16, to nearest even; magnitudes under 2^-50 become 0. Plain integers,
 * which the compiler vectorizes. */
V_INLINE void round_16(float *out, const float *x)
{
    uint32_t u[LANES];
    memcpy(u, x, sizeof u);
    for (int i = 0; i < LANES; i++) {
        uint32_t nan = (u[i] & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu : 0;
        uint32_t r   = (u[i] + 0x7fffu + (u[i] >> 16 & 1u)) & 0xffff0000u;
        uint32_t low = (r & 0x7fffffffu) < (127u - 50u) << 23 ? 0xffffffffu : 0;
        u[i]         = (nan & 0x7fc00000u) | (~nan & ~low & r);
    }
    memcpy(out, u, sizeof u);
}

/* acc before the first group. */
V_INLINE f32x16 bf16_start(const float *bias)
{
    if (!bias)
        return v_zero();
    f32x16 b = v_load(bias);
    return v_select(v_lt(v_abs(b), v_set(0x1p-50f)), v_zero(), b);
}

/* ---- stream ---------------------------------------------------------------------------------- */

/* All k of some panels and tokens: a register block. */
typedef struct Bf16Tile {
    const unsigned char *w;       /* the first panel                     */
    size_t               panel;   /* bytes to the next                   */
    const float         *x;       /* rounded, of the first token         */
    size_t               x_stride;
    int                  n;
    const float         *bias;    /* of the first panel, or NULL         */
    float               *y;
    size_t               y_stride;
} Bf16Tile;

/* n_p and n_t are constants where this is inlined. */
V_INLINE void bf16_stream(const Bf16Tile *a, int n_p, int n_t)
{
    f32x16 acc[4][BF16_T], e[4][BF16_T], o[4][BF16_T];
    UNROLL for (int p = 0; p < n_p; p++)
        UNROLL for (int t = 0; t < n_t; t++)
            acc[p][t] = bf16_start(a->bias ? a->bias + p * LANES : NULL);
    for (int g = 0; g < a->n; g += BF16_GROUP) {
        int k = g, end = a->n - g < BF16_GROUP ? a->n : g + BF16_GROUP;
        UNROLL for (int p = 0; p < n_p; p++)
            UNROLL for (int t = 0; t < n_t; t++)
                e[p][t] = o[p][t] = v_zero();
        for (; k + 2 <= end; k += 2) {
            size_t at = (size_t)k * 32, to = stream_to(at, a->panel, n_p);
            UNROLL for (int p = 0; p < n_p; p++) {
                const unsigned char *here = a->w + (size_t)p * a->panel;
                f32x16               w0, w1;
                stream_ahead(here, at, to, 64, n_t > STREAM_FEW);
                weights_pair(WT_BF16, here, (size_t)(k / 2), &w0, &w1);
                UNROLL for (int t = 0; t < n_t; t++)
                    e[p][t] = v_fma(w0, v_set(a->x[(size_t)t * a->x_stride + (size_t)k]), e[p][t]);
                UNROLL for (int t = 0; t < n_t; t++) o[p][t] =
                    v_fma(w1, v_set(a->x[(size_t)t * a->x_stride + (size_t)k + 1]), o[p][t]);
            }
        }
        if (k < end)
            UNROLL for (int p = 0; p < n_p; p++) {
                f32x16 w0 = weights_last(WT_BF16, a->w + (size_t)p * a->panel, (size_t)(k / 2));
                UNROLL for (int t = 0; t < n_t; t++)
                    e[p][t] = v_fma(w0, v_set(a->x[(size_t)t * a->x_stride + (size_t)k]), e[p][t]);
            }
        UNROLL for (int p = 0; p < n_p; p++)
            UNROLL for (int t = 0; t < n_t; t++)
                acc[p][t] = v_add(acc[p][t], v_add(e[p][t], o[p][t]));
    }
    UNROLL for (int p = 0; p < n_p; p++)
        UNROLL for (int t = 0; t < n_t; t++)
            v_store(a->y + (size_t)t * a->y_stride + p * LANES, acc[p][t]);
}

static __attribute__((noinline)) void bf16_stream_any(const Bf16Tile *a, int n_p, int n_t)
{
    if (n_p == 1)
        WITH_CONSTANT(n_t, BF16_T, bf16_stream(a, 1, N))
    else
        WITH_CONSTANT(n_t, BF16_T, bf16_stream(a, BF16_PANELS(N), N))
}

/* Few tokens, whose rounded x is in xs. */
V_INLINE void bf16_stream_panels(const MatmulArgs *a, const float *xs, size_t stride)
{
    size_t panel = panel_bytes(WT_BF16, a->k);
    int    tiles = (a->n_tok + BF16_T - 1) / BF16_T,
        wide = BF16_PANELS((a->n_tok + tiles - 1) / tiles);
    for (int p = 0, n_p; p < a->n_panels; p += n_p) {
        n_p = a->n_panels - p < wide ? 1 : wide;
        for (int i = 0; i < tiles; i++) {
            /* even shares */
            int      t = a->n_tok * i / tiles, n_t = a->n_tok * (i + 1) / tiles - t;
            Bf16Tile b = { .panel = panel,
                           .x = xs + (size_t)t * stride,
                           .x_stride = stride,
                           .n = a->k,
                           .y_stride = a->y_stride };
            b.w    = (const unsigned char *)a->w.part[0] + (size_t)p * panel;
            b.y    = a->y + (size_t)t * a->y_stride + (size_t)p * LANES;
            b.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
            if (n_p == BF16_PANELS(n_t)) {
                bf16_stream_any(&b, n_p, n_t);
                continue;
            }
            for (int j = 0; j < n_p; j++) { /* a share of one token less has another width */
                bf16_stream_any(&b, 1, n_t);
                b.w += panel, b.y += LANES, b.bias += b.bias ? LANES : 0;
            }
        }
    }
}

/* ---- block ----------------------------------------------------------------------------------- */

/* e and o over n pairs of steps. */
V_INLINE void bf16_pairs(f32x16 e[LANES_PANELS][BF16_T], f32x16 o[LANES_PANELS][BF16_T],
                         const float *w, const float *x, int n, int n_p, int n_t)
{
    for (int i = 0; i < n; i++, x += 2)
        UNROLL for (int odd = 0; odd < 2; odd++, w += n_p * LANES) {
            f32x16 wk[LANES_PANELS];
            UNROLL for (int p = 0; p < n_p; p++)
                wk[p] = v_load(w + p * LANES);
            UNROLL for (int t = 0; t < n_t; t++) {
                f32x16 xt = v_set(x[t * K_CHUNK + odd]);
                UNROLL for (int p = 0; p < n_p; p++) {
                    f32x16 *sum = odd ? &o[p][t] : &e[p][t];
                    *sum        = v_fma(wk[p], xt, *sum);
                }
            }
        }
}

/* e over the last step of an odd k. */
V_INLINE void bf16_last(f32x16 e[LANES_PANELS][BF16_T], const float *w, const float *x, int n_p,
                        int n_t)
{
    UNROLL for (int p = 0; p < n_p; p++) {
        f32x16 wk = v_load(w + p * LANES);
        UNROLL for (int t = 0; t < n_t; t++)
            e[p][t] = v_fma(wk, v_set(x[t * K_CHUNK]), e[p][t]);
    }
}

/* n_p and n_t are constants where this is inlined. */
V_INLINE void bf16_tile(const Tile *a, int n_p, int n_t)
{
    f32x16 acc[LANES_PANELS][BF16_T], e[LANES_PANELS][BF16_T], o[LANES_PANELS][BF16_T];
    UNROLL for (int p = 0; p < n_p; p++)
        UNROLL for (int t = 0; t < n_t; t++)
            acc[p][t] = !a->first ? v_load(a->y + (size_t)t * a->y_stride + p * LANES)
                                  : bf16_start(a->bias ? a->bias + p * LANES : NULL);
    for (int g = 0; g < a->n; g += BF16_GROUP) {
        int          n = a->n - g < BF16_GROUP ? a->n - g : BF16_GROUP;
        const float *w = a->w + (size_t)(g * n_p * LANES), *x = a->x + g;
        UNROLL for (int p = 0; p < n_p; p++)
            UNROLL for (int t = 0; t < n_t; t++)
                e[p][t] = o[p][t] = v_zero();
        bf16_pairs(e, o, w, x, n / 2, n_p, n_t);
        if (n % 2 == 1)
            bf16_last(e, w + (n - 1) * n_p * LANES, x + n - 1, n_p, n_t);
        UNROLL for (int p = 0; p < n_p; p++)
            UNROLL for (int t = 0; t < n_t; t++)
                acc[p][t] = v_add(acc[p][t], v_add(e[p][t], o[p][t]));
    }
    UNROLL for (int p = 0; p < n_p; p++)
        UNROLL for (int t = 0; t < n_t; t++)
            v_store(a->y + (size_t)t * a->y_stride + p * LANES, acc[p][t]);
}

static __attribute__((noinline)) void bf16_tile_any(const Tile *a, int n_p, int n_t)
{
    if (LANES_PANELS > 1 && n_p == LANES_PANELS)
        WITH_CONSTANT(n_t, BF16_T, bf16_tile(a, LANES_PANELS, N))
    else
        WITH_CONSTANT(n_t, BF16_T, bf16_tile(a, 1, N))
}

/* gather_x, rounded. */
V_INLINE void bf16_gather(float *out, const float *x, size_t x_stride, int n_tok, int k0, int n)
{
    for (int t = 0; t < n_tok; t++, x += x_stride, out += K_CHUNK)
        for (int k = 0; k < n; k += LANES) {
            __builtin_prefetch(x + 2 * x_stride + k0 + k);
            round_16(out + k, x + k0 + k);
        }
}

static void matmul_bf16_rounded(const MatmulArgs *a)
{
    float *xs     = a->scratch;
    size_t stride = ((size_t)a->k + LANES - 1) / LANES * LANES;
    if (a->n_tok > BF16_STREAM || (size_t)a->n_tok * stride * sizeof *xs > KERNEL_SCRATCH) {
        block(a, WT_BF16, bf16_gather, bf16_tile_any, BF16_T);
        return;
    }
    for (int t = 0; t < a->n_tok; t++) /* up to the next multiple of 16, which each row has */
        for (int k = 0; k < a->k; k += LANES)
            round_16(xs + (size_t)t * stride + k, a->x + (size_t)t * a->x_stride + k);
    bf16_stream_panels(a, xs, stride);
}

#endif
