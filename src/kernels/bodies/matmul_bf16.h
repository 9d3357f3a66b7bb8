/* kernels/bodies/matmul_bf16.h: y = W x + bias for bf16 weights and x rounded to bf16 (--math bf16). Lanes are rows; a row's sum is
 *   acc = bias or +0; for each 32 k: e = +0, o = +0; even k: e = fmaf(w, x, e); odd k: o = fmaf(w, x, o); acc = acc + (e + o)
 * whatever the blocking. Few tokens: all of x is rounded into scratch and the weights stream by; many: a chunk of x is, and the
 * panels' part of it is read again for each register block, from L1. */
#ifndef KERNELS_BODIES_MATMUL_BF16_H
#define KERNELS_BODIES_MATMUL_BF16_H

#include "base/half.h"
#include "kernels/bodies/matmul.h"

enum {
    BF16_GROUP  = 32,
    BF16_T      = LANES_ACC >= 24 ? 6 : LANES_ACC >= 6 ? 3 : 1, /* tokens of a register block; each has two sums a panel */
    BF16_STREAM = 2 * BF16_T,                                   /* most tokens that stream takes                         */
};
#define BF16_PANELS(n_t) (LANES_ACC / (2 * (n_t)) >= 4 ? 4 : LANES_ACC / (2 * (n_t)) >= 2 ? 2 : 1)

/* 16 floats rounded to bf16, to nearest even; magnitudes under 2^-50 become 0. Plain integers, which the compiler makes vectors. */
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

/* Steps k0 .. k0 + n of n_tok rows of x, rounded, to [n_tok][stride]; up to the next multiple of 16, which each row has. */
V_INLINE void round_x(float *out, size_t stride, const float *x, size_t x_stride, int n_tok, int k0, int n)
{
    for (int t = 0; t < n_tok; t++, x += x_stride, out += stride)
        for (int k = 0; k < n; k += LANES)
            round_16(out + k, x + k0 + k);
}

/* Steps k0 .. k0 + n, k0 a multiple of 32, of some panels and tokens: a register block. */
typedef struct Bf16Tile {
    const unsigned char *w;       /* step k0 of the first panel            */
    size_t               panel;   /* bytes to the next                     */
    const float         *x;       /* rounded, step k0 of the first token   */
    size_t               x_stride;
    int                  n;
    bool                 first;   /* k0 is 0: y starts from the bias or +0 */
    const float         *bias;    /* of the first panel, or NULL           */
    float               *y;
    size_t               y_stride;
} Bf16Tile;

V_INLINE f32x16 bf16_start(const Bf16Tile *a, int p, int t)
{
    if (!a->first)
        return v_load(a->y + (size_t)t * a->y_stride + p * LANES);
    if (!a->bias)
        return v_zero();
    f32x16 b = v_load(a->bias + p * LANES);
    return v_select(v_lt(v_abs(b), v_set(0x1p-50f)), v_zero(), b);
}

/* n_p and n_t are constants where this is inlined. */
V_INLINE void bf16_tile(const Bf16Tile *a, int n_p, int n_t)
{
    f32x16 acc[4][BF16_T], e[4][BF16_T], o[4][BF16_T];
    UNROLL for (int p = 0; p < n_p; p++)
        UNROLL for (int t = 0; t < n_t; t++)
            acc[p][t] = bf16_start(a, p, t);
    for (int g = 0; g < a->n; g += BF16_GROUP) {
        int k = g, end = a->n - g < BF16_GROUP ? a->n : g + BF16_GROUP;
        UNROLL for (int p = 0; p < n_p; p++)
            UNROLL for (int t = 0; t < n_t; t++)
                e[p][t] = o[p][t] = v_zero();
        for (; k + 2 <= end; k += 2)
            UNROLL for (int p = 0; p < n_p; p++) {
                const unsigned char *here = a->w + (size_t)p * a->panel;
                f32x16               w0, w1;
                __builtin_prefetch(here + (size_t)k * 32 + (size_t)(STREAM_AHEAD / n_p)); /* behind the panel lies the next */
                weights_pair(WT_BF16, here, (size_t)(k / 2), &w0, &w1);
                UNROLL for (int t = 0; t < n_t; t++)
                    e[p][t] = v_fma(w0, v_set(a->x[(size_t)t * a->x_stride + (size_t)k]), e[p][t]);
                UNROLL for (int t = 0; t < n_t; t++)
                    o[p][t] = v_fma(w1, v_set(a->x[(size_t)t * a->x_stride + (size_t)k + 1]), o[p][t]);
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

#define BF16_CASE(n_t)                             \
    case n_t:                                      \
        if (n_p == BF16_PANELS(n_t))               \
            bf16_tile(a, BF16_PANELS(n_t), n_t);   \
        else                                       \
            bf16_tile(a, 1, n_t);                  \
        return;

static __attribute__((noinline)) void bf16_tile_any(const Bf16Tile *a, int n_p, int n_t)
{
    switch (n_t) {
        BF16_CASE(1)
#if LANES_ACC >= 6
        BF16_CASE(2) BF16_CASE(3)
#endif
#if LANES_ACC >= 24
        BF16_CASE(4) BF16_CASE(5) BF16_CASE(6)
#endif
    default:
        return;
    }
}

/* Steps k0 .. k0 + n of tokens t0 .. t0 + n_tok, whose rounded x lies in xs, for panels first .. end - 1. */
V_INLINE void bf16_panels(const MatmulArgs *a, const float *xs, size_t stride, int t0, int n_tok, int k0, int n, int first, int end)
{
    size_t panel = panel_bytes(WT_BF16, a->k);
    int    tiles = (n_tok + BF16_T - 1) / BF16_T, wide = BF16_PANELS((n_tok + tiles - 1) / tiles);
    for (int p = first, n_p; p < end; p += n_p) {
        n_p = end - p < wide ? 1 : wide;
        for (int i = 0; i < tiles; i++) {
            int      t = n_tok * i / tiles, n_t = n_tok * (i + 1) / tiles - t; /* even shares */
            Bf16Tile b = { .panel = panel, .x = xs + (size_t)t * stride, .x_stride = stride, .n = n, .first = k0 == 0,
                           .y_stride = a->y_stride };
            b.w    = (const unsigned char *)a->w.part[0] + (size_t)p * panel + (size_t)(k0 / 2) * 64;
            b.y    = a->y + (size_t)(t0 + t) * a->y_stride + (size_t)p * LANES;
            b.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
            if (n_p == BF16_PANELS(n_t)) {
                bf16_tile_any(&b, n_p, n_t);
                continue;
            }
            for (int j = 0; j < n_p; j++) { /* a share of one token less has another width */
                bf16_tile_any(&b, 1, n_t);
                b.w += panel, b.y += LANES, b.bias += b.bias ? LANES : 0;
            }
        }
    }
}

static void matmul_bf16_rounded(const MatmulArgs *a)
{
    float *xs     = a->scratch;
    size_t stride = ((size_t)a->k + LANES - 1) / LANES * LANES;
    if (a->n_tok <= BF16_STREAM && (size_t)a->n_tok * stride * sizeof *xs <= KERNEL_SCRATCH) {
        round_x(xs, stride, a->x, a->x_stride, a->n_tok, 0, a->k);
        bf16_panels(a, xs, stride, 0, a->n_tok, 0, a->k, 0, a->n_panels);
        return;
    }
    int blocks = (a->n_tok + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    for (int i = 0; i < blocks; i++) {
        int t0 = (int)((int64_t)a->n_tok * i / blocks), n_tok = (int)((int64_t)a->n_tok * (i + 1) / blocks) - t0;
        for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
            int n = a->k - k0 < K_CHUNK ? a->k - k0 : K_CHUNK;
            round_x(xs, K_CHUNK, a->x + (size_t)t0 * a->x_stride, a->x_stride, n_tok, k0, n);
            bf16_panels(a, xs, K_CHUNK, t0, n_tok, k0, n, 0, a->n_panels);
        }
    }
}

#endif
