/* kernels/bodies/matmul.h: y = W x + bias for float weights in panels. A row's sum is
 *   acc = bias or +0; for each chunk of 256 k: c = +0; for k: c = fmaf(w, x, c); acc = acc + c
 * for every blocking: lanes are rows. acc is kept in y. Two ways through the weights:
 *
 *   stream   few tokens: weights go from memory to the fma, several panels in flight, because one
 *            chain of fma is slower than memory;
 *   block    many tokens: a chunk of LANES_PANELS panels is widened to f32 once (it stays in L1), a
 *            chunk of x is copied to contiguous memory (its rows are a power of two apart and would
 *            share a few cache sets), and register blocks of LANES_PANELS panels x BLOCK_T tokens
 *            run over them. */
#ifndef KERNELS_BODIES_MATMUL_H
#define KERNELS_BODIES_MATMUL_H

#include "kernels/bodies/blocking.h"

_Static_assert((BLOCK_TOKENS + 16 * LANES_PANELS) * K_CHUNK * (int)sizeof(float) <= KERNEL_SCRATCH,
               "scratch holds a block");

/* Weights of steps 2 * pair and 2 * pair + 1 of a panel. */
V_INLINE void weights_pair(WeightType type, const void *panel, size_t pair, f32x16 *w0, f32x16 *w1)
{
    const float    *f = panel;
    const uint16_t *h = panel;
    switch (type) {
    case WT_F32:
        *w0 = v_load(f + pair * 32), *w1 = v_load(f + pair * 32 + 16);
        return;
    case WT_F16:
        *w0 = v_load_f16(h + pair * 32), *w1 = v_load_f16(h + pair * 32 + 16);
        return;
    default:
        *w0 = v_load_bf16_even(h + pair * 32), *w1 = v_load_bf16_odd(h + pair * 32);
    }
}

/* Weights of the last step of an odd k: reads nothing past the panel, and padding enters no
 * sum. */
V_INLINE f32x16 weights_last(WeightType type, const void *panel, size_t pair)
{
    const float    *f = panel;
    const uint16_t *h = panel;
    switch (type) {
    case WT_F32:
        return v_load(f + pair * 32);
    case WT_F16:
        return v_load_f16(h + pair * 32);
    default:
        return v_load_bf16_even(h + pair * 32);
    }
}

V_INLINE size_t pair_bytes(WeightType type) { return type == WT_F32 ? 128 : 64; }

/* acc = acc + c for one panel and token; before the first chunk acc is the bias or +0. */
V_INLINE void finish(float *y, f32x16 c, bool first, const float *bias)
{
    f32x16 acc = !first ? v_load(y) : bias ? v_load(bias) : v_zero();
    v_store(y, v_add(acc, c));
}

/* ---- stream ---------------------------------------------------------------------------------- */

/* Prefetches in a panel at w whose stream is at byte `at` and takes `bytes` a step; to: the byte
 * that is early enough for L2. As in a stream of integers (int_stream.h): two lines of 2 KB if few
 * tokens use them, each line in two stages if several do. */
V_INLINE void stream_ahead(const unsigned char *w, size_t at, size_t to, size_t bytes, bool several)
{
    for (size_t i = 0; i < bytes && (several || at % 2048 < 128); i += 64) {
        if (several)
            __builtin_prefetch(w + at + STREAM_SOON + i);
        __builtin_prefetch(w + to + i, 0, 2);
    }
}

/* STREAM_AHEAD at byte `at` of n_p panels that are read at once. */
V_INLINE size_t stream_to(size_t at, size_t panel, int n_p)
{
    /* after this panel: the one that this slot takes next */
    size_t to = at + STREAM_AHEAD;
    return to < panel ? to : to + (size_t)(n_p - 1) * panel;
}

/* n_p panels from number p0 on for tokens t0 .. t0 + n_t; n_p and n_t are constants once this is
 * inlined. */
V_INLINE void stream_panels(const MatmulArgs *a, WeightType type, int p0, int t0, int n_p, int n_t)
{
    size_t               panel = panel_bytes(type, a->k);
    const unsigned char *w     = (const unsigned char *)a->w.part[0] + (size_t)p0 * panel;
    const float         *x     = a->x + (size_t)t0 * a->x_stride;
    size_t               xs    = a->x_stride;
    for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
        int    end = a->k - k0 < K_CHUNK ? a->k : k0 + K_CHUNK;
        f32x16 c[STREAM_PANELS][STREAM_T];
        UNROLL for (int p = 0; p < n_p; p++)
            UNROLL for (int t = 0; t < n_t; t++)
                c[p][t] = v_zero();
        int k = k0;
        for (; k + 2 <= end; k += 2) {
            size_t at = (size_t)(k / 2) * pair_bytes(type), to = stream_to(at, panel, n_p);
            UNROLL for (int p = 0; p < n_p; p++) {
                const unsigned char *here = w + (size_t)p * panel;
                f32x16               w0, w1;
                stream_ahead(here, at, to, pair_bytes(type), n_t > STREAM_FEW);
                weights_pair(type, here, (size_t)(k / 2), &w0, &w1);
                UNROLL for (int t = 0; t < n_t; t++)
                    c[p][t] = v_fma(w0, v_set(x[(size_t)t * xs + (size_t)k]), c[p][t]);
                UNROLL for (int t = 0; t < n_t; t++)
                    c[p][t] = v_fma(w1, v_set(x[(size_t)t * xs + (size_t)k + 1]), c[p][t]);
            }
        }
        if (k < end)
            UNROLL for (int p = 0; p < n_p; p++) {
                f32x16 w0 = weights_last(type, w + (size_t)p * panel, (size_t)(k / 2));
                UNROLL for (int t = 0; t < n_t; t++)
                    c[p][t] = v_fma(w0, v_set(x[(size_t)t * xs + (size_t)k]), c[p][t]);
            }
        UNROLL for (int p = 0; p < n_p; p++) UNROLL for (int t = 0; t < n_t; t++)
            finish(a->y + (size_t)(t0 + t) * a->y_stride + (size_t)(p0 + p) * LANES, c[p][t],
                   k0 == 0, a->bias ? a->bias + (size_t)(p0 + p) * LANES : NULL);
    }
}

/* Panels p .. end for n_t tokens: as many together as the registers hold, the rest one by one. */
V_INLINE void stream_tokens(const MatmulArgs *a, WeightType type, int p, int end, int t0, int n_t)
{
    for (; p + WIDTH(n_t) <= end; p += WIDTH(n_t))
        stream_panels(a, type, p, t0, WIDTH(n_t), n_t);
    for (; p < end; p++)
        stream_panels(a, type, p, t0, 1, n_t);
}

/* Not WITH_CONSTANT: with it gcc 12 makes the loop of 8 tokens 8% slower (bench_matmul, bf16, 8 and
 * 16 tokens, AVX-512). */
#define STREAM_CASE(n_t)                            \
    case n_t:                                       \
        if ((n_t) <= STREAM_T)                      \
            stream_tokens(a, type, p, end, t, n_t); \
        break;

/* STREAM_PANELS panels at a time; if there are more tokens than registers, the panels are read
 * from the cache again. */
V_INLINE void stream(const MatmulArgs *a, WeightType type)
{
    int parts = (a->n_tok + STREAM_T - 1) / STREAM_T;
    for (int p = 0; p < a->n_panels; p += STREAM_PANELS) {
        int end = a->n_panels - p < STREAM_PANELS ? a->n_panels : p + STREAM_PANELS;
        for (int i = 0; i < parts; i++) {
            int t = a->n_tok * i / parts;
            switch (a->n_tok * (i + 1) / parts - t) {
                STREAM_CASE(1) STREAM_CASE(2) STREAM_CASE(3) STREAM_CASE(4)
                STREAM_CASE(5) STREAM_CASE(6) STREAM_CASE(7) STREAM_CASE(8)
            default:
                break;
            }
        }
    }
}

/* ---- block ----------------------------------------------------------------------------------- */

/* A register block: n_p panels x n_t tokens over one chunk of n k. */
typedef struct Tile {
    const float *w;   /* [n][n_p][16]       */
    const float *x;   /* [n_t][K_CHUNK]     */
    int          n;
    float       *y;   /* its first token's first panel */
    size_t       y_stride;
    bool         first;
    const float *bias; /* of the first panel, or NULL */
} Tile;

/* c[p][t] stays in registers for a whole chunk: LANES_PANELS + BLOCK_T loads feed LANES_PANELS *
 * BLOCK_T multiplications. */
V_INLINE void tile(const Tile *a, int n_p, int n_t)
{
    const float *w = a->w, *x = a->x;
    f32x16       c[LANES_PANELS][BLOCK_T];
    /* Prefetches y: its rows are far apart, and the end of every tile would wait for them. */
    for (int t = 0; t < n_t; t++)
        for (int p = 0; p < n_p; p++)
            __builtin_prefetch(a->y + (size_t)t * a->y_stride + p * LANES, 1);
    UNROLL for (int p = 0; p < n_p; p++)
        UNROLL for (int t = 0; t < n_t; t++)
            c[p][t] = v_zero();
    for (int k = 0; k < a->n; k++, x++, w += n_p * LANES) {
        f32x16 wk[LANES_PANELS];
        UNROLL for (int p = 0; p < n_p; p++)
            wk[p] = v_load(w + p * LANES);
        UNROLL for (int t = 0; t < n_t; t++) {
            f32x16 xt = v_set(x[t * K_CHUNK]);
            UNROLL for (int p = 0; p < n_p; p++)
                c[p][t] = v_fma(wk[p], xt, c[p][t]);
        }
    }
    UNROLL for (int t = 0; t < n_t; t++) UNROLL for (int p = 0; p < n_p; p++)
        finish(a->y + (size_t)t * a->y_stride + p * LANES, c[p][t], a->first,
               a->bias ? a->bias + p * LANES : NULL);
}

static __attribute__((noinline)) void tile_any(const Tile *a, int n_p, int n_t)
{
    if (LANES_PANELS > 1 && n_p == LANES_PANELS)
        WITH_CONSTANT(n_t, BLOCK_T, tile(a, LANES_PANELS, N))
    else
        WITH_CONSTANT(n_t, BLOCK_T, tile(a, 1, N))
}

/* --math bf16 replaces tile_any and gather_x. */
typedef void TileFn(const Tile *a, int n_p, int n_t);
typedef void GatherFn(float *out, const float *x, size_t x_stride, int n_tok, int k0, int n);

/* n steps from step k0 on of n_p panels, to [n][n_p][16]. */
V_INLINE void unpack(float *out, WeightType type, const unsigned char *w, size_t panel, int n_p,
                     int k0, int n)
{
    for (int p = 0; p < n_p; p++, w += panel) {
        float *to = out + p * LANES;
        int    k  = 0;
        for (; k + 2 <= n; k += 2, to += 2 * n_p * LANES) {
            f32x16 w0, w1;
            weights_pair(type, w, (size_t)(k0 + k) / 2, &w0, &w1);
            v_store(to, w0);
            v_store(to + n_p * LANES, w1);
        }
        if (k < n)
            v_store(to, weights_last(type, w, (size_t)(k0 + k) / 2));
    }
}

/* Steps k0 .. k0 + n of n_tok rows of x, to [n_tok][K_CHUNK]. Copies up to the next multiple of 16,
 * which each row has. */
V_INLINE void gather_x(float *out, const float *x, size_t x_stride, int n_tok, int k0, int n)
{
    for (int t = 0; t < n_tok; t++, x += x_stride, out += K_CHUNK)
        for (int k = 0; k < n; k += LANES) {
            /* too far apart for the hardware prefetchers */
            __builtin_prefetch(x + 2 * x_stride + k0 + k);
            v_store(out + k, v_load(x + k0 + k));
        }
}

/* Prefetches share i of `of` of the bytes of the next panels, so that they will be in L2. */
V_INLINE void prefetch_share(const unsigned char *w, size_t panel, int n_p, size_t bytes, int i,
                             int of)
{
    size_t from = bytes * (size_t)i / (size_t)of / 64 * 64,
           to = bytes * (size_t)(i + 1) / (size_t)of;
    for (int p = 0; p < n_p; p++, w += panel)
        for (size_t b = from; b < to; b += 64)
            __builtin_prefetch(w + b, 0, 2);
}

/* All panels over one chunk for tokens t0 .. t0 + n_tok, whose x is in xs; tiles of tile_t
 * tokens. */
V_INLINE void block_chunk(const MatmulArgs *a, WeightType type, TileFn *any, int tile_t,
                          const float *xs, float *ws, int t0, int n_tok, int k0, int n)
{
    size_t panel = panel_bytes(type, a->k), skip = (size_t)(k0 / 2) * pair_bytes(type);
    size_t               bytes = ((size_t)n + 1) / 2 * pair_bytes(type);
    const unsigned char *w     = a->w.part[0];
    int                  tiles = (n_tok + tile_t - 1) / tile_t;
    for (int p = 0, n_p; p < a->n_panels; p += n_p) {
        n_p = a->n_panels - p < LANES_PANELS ? 1 : LANES_PANELS;
        unpack(ws, type, w + (size_t)p * panel, panel, n_p, k0, n);
        for (int i = 0; i < tiles; i++) {
            /* even shares: no short last tile */
            int  t = n_tok * i / tiles, end = n_tok * (i + 1) / tiles;
            Tile b = { .w = ws,
                       .x = xs + (size_t)t * K_CHUNK,
                       .n = n,
                       .y_stride = a->y_stride,
                       .first = k0 == 0 };
            b.y    = a->y + (size_t)(t0 + t) * a->y_stride + (size_t)p * LANES;
            b.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
            if (p + n_p < a->n_panels)
                prefetch_share(w + (size_t)(p + n_p) * panel + skip, panel, LANES_PANELS, bytes, i,
                               tiles);
            any(&b, n_p, end - t);
        }
    }
}

/* gather and any: gather_x and tile_any, or those of a mode. */
V_INLINE void block(const MatmulArgs *a, WeightType type, GatherFn *gather, TileFn *any, int tile_t)
{
    float *xs = a->scratch, *ws = xs + BLOCK_TOKENS * K_CHUNK;
    int    blocks = (a->n_tok + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    for (int i = 0; i < blocks; i++) {
        int t0 = (int)((int64_t)a->n_tok * i / blocks),
            n_tok = (int)((int64_t)a->n_tok * (i + 1) / blocks) - t0;
        for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
            int n = a->k - k0 < K_CHUNK ? a->k - k0 : K_CHUNK;
            gather(xs, a->x + (size_t)t0 * a->x_stride, a->x_stride, n_tok, k0, n);
            block_chunk(a, type, any, tile_t, xs, ws, t0, n_tok, k0, n);
        }
    }
}

/* Both ways give the same bits: they load in another order, but add in the same. */
#define MATMUL(name, type)                                 \
    static void name(const MatmulArgs *a)                  \
    {                                                      \
        if (a->n_tok <= STREAM_TOKENS)                     \
            stream(a, type);                               \
        else                                               \
            block(a, type, gather_x, tile_any, BLOCK_T);   \
    }


#endif
