/* kernels/bodies/matmul_bf16_pairs.h: the sums of matmul_bf16.h two steps at a time, for a
 * product of bf16 pairs that is fmaf(low, low, fmaf(high, high, acc)) with one rounding for each:
 * VDPBF16PS. The even chain e takes the pairs (k + 2, k), the odd chain o (k + 3, k + 1), so both
 * go through their k in the order of the definition. Subnormals, which the instruction takes as 0,
 * do not arise: a product is 0 or at least 2^-100 and a multiple of 2^-114, and so is every sum.
 *
 * A quad is four k of 16 rows: a vector of pairs for e, one for o. Past the last k both w and x are
 * +0, which leaves a sum as it is: one that starts from +0 is never -0. */
#ifndef KERNELS_BODIES_MATMUL_BF16_PAIRS_H
#define KERNELS_BODIES_MATMUL_BF16_PAIRS_H

#include "kernels/bodies/matmul_bf16.h"

enum { QUAD = 4, QUAD_BYTES = QUAD * LANES * 2 };

_Static_assert((PAIRS_TOKENS + LANES) * PAIRS_CHUNK * 2 <= KERNEL_SCRATCH, "scratch holds a block");

/* The quad at w in a panel; left (1 .. 4): how many k it has. Reads nothing past them. */
V_INLINE void quad_at(i512 *e, i512 *o, const unsigned char *w, int left)
{
    i512 a = i_load(w), b = left > 2 ? i_load(w + QUAD_BYTES / 2) : i_set32(0);
    if (left == 1)
        a = i_and(a, i_set32(0xffff));
    if (left == 3)
        b = i_and(b, i_set32(0xffff));
    *e = b_join_low(a, b);
    *o = b_join_high(a, b);
}

/* A register block: one panel or two x n_t tokens over a chunk of n k. */
typedef struct PairsTile {
    const unsigned char *w;       /* a panel as in the file, or quads of n_p panels in turn */
    const uint16_t      *x;       /* [n_t][PAIRS_CHUNK], rounded quads    */
    int                  n;
    float               *y;
    size_t               y_stride;
    bool                 first;
    const float         *bias;    /* of the first panel, or NULL          */
} PairsTile;

typedef f32x16 PairSums[PAIRS_PANELS][PAIRS_T];

V_INLINE void pairs_step(PairSums sum, const i512 *w, const uint16_t *x, int n_p, int n_t)
{
    UNROLL for (int t = 0; t < n_t; t++) {
        i512 xt = i_bcast(x + t * PAIRS_CHUNK);
        UNROLL for (int p = 0; p < n_p; p++)
            sum[p][t] = v_dot_bf16(sum[p][t], w[p], xt);
    }
}

V_INLINE void quad_step(PairSums e, PairSums o, const unsigned char *w, const uint16_t *x, int n_p,
                        int n_t)
{
    i512 wk[PAIRS_PANELS];
    UNROLL for (int p = 0; p < n_p; p++)
        wk[p] = i_load(w + p * QUAD_BYTES);
    pairs_step(e, wk, x, n_p, n_t);
    UNROLL for (int p = 0; p < n_p; p++)
        wk[p] = i_load(w + p * QUAD_BYTES + QUAD_BYTES / 2);
    pairs_step(o, wk, x + 2, n_p, n_t);
}

/* The same from the file: one panel; left: how many k the quad has. */
V_INLINE void quad_step_raw(PairSums e, PairSums o, const unsigned char *w, int left,
                            const uint16_t *x, int n_t)
{
    i512 we, wo;
    quad_at(&we, &wo, w, left);
    pairs_step(e, &we, x, 1, n_t);
    pairs_step(o, &wo, x + 2, 1, n_t);
}

/* n_p, n_t and raw (w as in the file) are constants where this is inlined. */
V_INLINE void pairs_tile(const PairsTile *a, int n_p, int n_t, bool raw)
{
    const unsigned char *w = a->w;
    const uint16_t      *x = a->x;
    PairSums             acc, e, o;
    UNROLL for (int t = 0; t < n_t; t++)
        UNROLL for (int p = 0; p < n_p; p++)
            acc[p][t] = !a->first ? v_load(a->y + (size_t)t * a->y_stride + p * LANES)
                                  : bf16_start(a->bias ? a->bias + p * LANES : NULL);
    for (int left = a->n; left > 0; left -= BF16_GROUP) {
        int n = min_int(left, BF16_GROUP), quads = raw ? n / QUAD : (n + QUAD - 1) / QUAD;
        UNROLL for (int t = 0; t < n_t; t++)
            UNROLL for (int p = 0; p < n_p; p++)
                e[p][t] = o[p][t] = v_zero();
        for (int i = 0; i < quads; i++, w += n_p * QUAD_BYTES, x += QUAD)
            if (raw) {
                size_t at = (size_t)(w - a->w);
                stream_ahead(a->w, at, at + PAIRS_AHEAD, QUAD_BYTES, n_t > PAIRS_FEW);
                quad_step_raw(e, o, w, QUAD, x, n_t);
            } else {
                quad_step(e, o, w, x, n_p, n_t);
            }
        if (raw && n % QUAD)
            quad_step_raw(e, o, w, n % QUAD, x, n_t);
        UNROLL for (int t = 0; t < n_t; t++)
            UNROLL for (int p = 0; p < n_p; p++)
                acc[p][t] = v_add(acc[p][t], v_add(e[p][t], o[p][t]));
    }
    UNROLL for (int t = 0; t < n_t; t++)
        UNROLL for (int p = 0; p < n_p; p++)
            v_store(a->y + (size_t)t * a->y_stride + p * LANES, acc[p][t]);
}

static __attribute__((noinline)) void pairs_tile_raw(const PairsTile *a, int n_t)
{
    WITH_CONSTANT(n_t, PAIRS_T, pairs_tile(a, 1, N, true))
}

static __attribute__((noinline)) void pairs_tile_quads(const PairsTile *a, int n_p, int n_t)
{
    if (n_p == 1)
        WITH_CONSTANT(n_t, PAIRS_T, pairs_tile(a, 1, N, false))
    else
        WITH_CONSTANT(n_t, PAIRS_T / PAIRS_PANELS, pairs_tile(a, PAIRS_PANELS, N, false))
}

/* Steps k0 .. k0 + n of n_tok rows of x, to [n_tok][PAIRS_CHUNK]; +0 up to the next multiple of
 * 32. */
V_INLINE void pairs_gather(uint16_t *out, const float *x, size_t x_stride, int n_tok, int n)
{
    for (int t = 0; t < n_tok; t++, x += x_stride, out += PAIRS_CHUNK)
        for (int k = 0; k < n; k += BF16_GROUP) {
            int left = min_int(n - k, BF16_GROUP);
            __builtin_prefetch(x + 2 * x_stride + k);
            __builtin_prefetch(x + 2 * x_stride + k + LANES);
            i_store(out + k, b_round_quads(load_upto(x + k, min_int(left, LANES)),
                                           left > LANES ? load_upto(x + k + LANES, left - LANES)
                                                        : v_zero()));
        }
}

/* All tokens of xs, [n_tok][PAIRS_CHUNK], times one panel as in the file, in even shares. */
V_INLINE void pairs_stream_chunk(PairsTile b, const uint16_t *xs, float *y, int n_tok)
{
    int tiles = (n_tok + PAIRS_T - 1) / PAIRS_T;
    for (int i = 0; i < tiles; i++) {
        int t = n_tok * i / tiles;
        b.x = xs + (size_t)t * PAIRS_CHUNK;
        b.y = y + (size_t)t * b.y_stride;
        pairs_tile_raw(&b, n_tok * (i + 1) / tiles - t);
    }
}

/* Few tokens: x is rounded into scratch, [chunk][n_tok][PAIRS_CHUNK], and the weights stream. */
V_INLINE void pairs_stream(const MatmulArgs *a)
{
    uint16_t            *xs    = a->scratch;
    const unsigned char *w     = a->w.part[0];
    size_t               panel = panel_bytes(WT_BF16, a->k), chunk = (size_t)a->n_tok * PAIRS_CHUNK;
    for (int k0 = 0; k0 < a->k; k0 += PAIRS_CHUNK)
        pairs_gather(xs + (size_t)(k0 / PAIRS_CHUNK) * chunk, a->x + k0, a->x_stride, a->n_tok,
                     min_int(a->k - k0, PAIRS_CHUNK));
    for (int p = 0; p < a->n_panels; p++, w += panel)
        for (int k0 = 0; k0 < a->k; k0 += PAIRS_CHUNK)
            pairs_stream_chunk((PairsTile){ .w        = w + (size_t)k0 * LANES * 2,
                                            .n        = min_int(a->k - k0, PAIRS_CHUNK),
                                            .y_stride = a->y_stride,
                                            .first    = k0 == 0,
                                            .bias     = a->bias ? a->bias + p * LANES : NULL },
                               xs + (size_t)(k0 / PAIRS_CHUNK) * chunk, a->y + p * LANES,
                               a->n_tok);
}

/* n k of n_p panels from w on, as quads in turn. */
V_INLINE void pairs_unpack(unsigned char *quads, const unsigned char *w, size_t panel, int n_p,
                           int n)
{
    for (int k = 0; k < n; k += QUAD, w += QUAD_BYTES)
        for (int p = 0; p < n_p; p++, quads += QUAD_BYTES) {
            i512 e, o;
            quad_at(&e, &o, w + (size_t)p * panel, min_int(n - k, QUAD));
            i_store(quads, e);
            i_store(quads + QUAD_BYTES / 2, o);
        }
}

/* Many: each chunk of a panel becomes quads once for n_tok tokens from t0 on. */
V_INLINE void pairs_block_chunk(const MatmulArgs *a, const uint16_t *xs, int k0, int t0, int n_tok)
{
    unsigned char quads[PAIRS_PANELS * PAIRS_CHUNK / QUAD * QUAD_BYTES]
        __attribute__((aligned(64)));
    size_t        panel = panel_bytes(WT_BF16, a->k);
    int           n = min_int(a->k - k0, PAIRS_CHUNK);
    size_t        bytes = ((size_t)n + 1) / 2 * pair_bytes(WT_BF16);
    const unsigned char *w = (const unsigned char *)a->w.part[0] + (size_t)k0 * LANES * 2;
    PairsTile b = { .w = quads, .n = n, .y_stride = a->y_stride, .first = k0 == 0 };
    for (int p = 0, n_p; p < a->n_panels; p += n_p, w += (size_t)n_p * panel) {
        n_p = min_int(a->n_panels - p, PAIRS_PANELS);
        pairs_unpack(quads, w, panel, n_p, n);
        int wide = PAIRS_T / n_p, tiles = (n_tok + wide - 1) / wide,
            next = min_int(a->n_panels - p - n_p, PAIRS_PANELS);
        b.bias   = a->bias ? a->bias + (size_t)p * LANES : NULL;
        for (int i = 0; i < tiles; i++) { /* in even shares */
            int t = n_tok * i / tiles, n_t = n_tok * (i + 1) / tiles - t;
            b.x   = xs + (size_t)t * PAIRS_CHUNK;
            b.y   = a->y + (size_t)(t0 + t) * a->y_stride + (size_t)p * LANES;
            prefetch_share(w + (size_t)n_p * panel, panel, next, bytes, i, tiles);
            pairs_tile_quads(&b, n_p, n_t);
        }
    }
}

static void matmul_bf16_pairs(const MatmulArgs *a)
{
    size_t chunks = ((size_t)a->k + PAIRS_CHUNK - 1) / PAIRS_CHUNK;
    if (a->n_tok <= PAIRS_STREAM && chunks * (size_t)a->n_tok * PAIRS_CHUNK * 2 <= KERNEL_SCRATCH) {
        pairs_stream(a);
        return;
    }
    int blocks = (a->n_tok + PAIRS_TOKENS - 1) / PAIRS_TOKENS;
    for (int i = 0; i < blocks; i++) {
        int t0 = (int)((int64_t)a->n_tok * i / blocks),
            n_tok = (int)((int64_t)a->n_tok * (i + 1) / blocks) - t0;
        for (int k0 = 0; k0 < a->k; k0 += PAIRS_CHUNK) {
            pairs_gather(a->scratch, a->x + (size_t)t0 * a->x_stride + k0, a->x_stride, n_tok,
                         min_int(a->k - k0, PAIRS_CHUNK));
            pairs_block_chunk(a, a->scratch, k0, t0, n_tok);
        }
    }
}

/* A normal float of random sign and digits, of magnitude 2^-least .. 2^least. */
V_INLINE uint32_t random_normal(uint64_t *seed, uint32_t least)
{
    *seed      = *seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t u = (uint32_t)(*seed >> 32);
    return (u & 0x807fffffu) | (127u - least + (uint32_t)(*seed >> 8) % (2 * least)) << 23;
}

/* Does this processor compute what the definition says? Manuals do not fix what the instruction
 * rounds and when, so it is tested once: 8,192 results, with sums near their products and far. */
static bool pairs_exact(void)
{
    uint64_t seed = 1;
    for (uint32_t i = 0; i < 512; i++) {
        uint32_t w[LANES], x[LANES], c[LANES], least = 4 + i % 44;
        for (int r = 0; r < LANES; r++) {
            w[r] = random_normal(&seed, least) >> 16 | (random_normal(&seed, least) & 0xffff0000u);
            c[r] = random_normal(&seed, least);
            x[r] =
                r ? x[0] : random_normal(&seed, 4) >> 16 | (random_normal(&seed, 4) & 0xffff0000u);
        }
        const uint16_t *w2 = (const void *)w, *x2 = (const void *)x;
        f32x16 sum = v_load((const float *)(const void *)c),
               got = v_dot_bf16(sum, i_load(w), i_bcast(x));
        f32x16 want = v_fma(v_load_bf16_even(w2), v_load_bf16_even(x2),
                            v_fma(v_load_bf16_odd(w2), v_load_bf16_odd(x2), sum));
        if (memcmp(&got, &want, sizeof got) != 0)
            return false;
    }
    return true;
}

#endif
