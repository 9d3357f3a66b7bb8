/* kernels/bodies/int_block.h: one superblock of LANES_PANELS panels of q8 or q4 for many tokens,
 * unpacked once: register blocks of LANES_PANELS panels x INT_BLOCK_ROWS digit rows
 * (matmul_int.h). */
#ifndef KERNELS_BODIES_INT_BLOCK_H
#define KERNELS_BODIES_INT_BLOCK_H

#include "kernels/bodies/int_unpack.h"

/* A register block over one superblock. */
typedef struct IntTile {
    const char    *w;           /* [n][n_p] vectors                   */
    const char    *x;           /* [n_t][rows][form_bytes]            */
    const int32_t *start;       /* [n_t][rows]                        */
    int            n;           /* vectors: one for each 32 bits of x */
    Finish         end;
} IntTile;

/* Each vector of weights is multiplied with all digit rows while it is in a register, each digit
 * with all panels. */
V_INLINE void int_tile(const IntTile *a, Form f, int n_p, int n_t)
{
    const int    n_v = n_t * form_rows(f);
    const size_t row = form_bytes(f);
    const char  *w = a->w, *x = a->x;
    i512         c[LANES_PANELS][INT_BLOCK_ROWS];
    /* Prefetches y: its rows are far apart, and the end of every tile would wait for them. */
    for (int t = 0; t < n_t; t++)
        for (int p = 0; p < n_p; p++)
            __builtin_prefetch(a->end.y + (size_t)t * a->end.y_stride + p * LANES, 1);
    UNROLL for (int v = 0; v < n_v; v++)
        UNROLL for (int p = 0; p < n_p; p++)
            c[p][v] = f != FORM_WORDS && I_OFFSET != 0 ? i_set32(a->start[v]) : i_set32(0);
    for (int i = 0; i < a->n; i++, x += 4, w += 64 * n_p) {
        i512 wk[LANES_PANELS];
        UNROLL for (int p = 0; p < n_p; p++)
            wk[p] = i_load(w + 64 * p);
        UNROLL for (int v = 0; v < n_v; v++) {
            i512 xv = i_bcast(x + (size_t)v * row);
            UNROLL for (int p = 0; p < n_p; p++)
                c[p][v] = f == FORM_WORDS ? i_dot2(c[p][v], wk[p], xv) : i_dot4(c[p][v], wk[p], xv);
        }
    }
    char sums[INT_BLOCK_ROWS * LANES_PANELS * 64];
    UNROLL for (int v = 0; v < n_v; v++)
        UNROLL for (int p = 0; p < n_p; p++)
            i_store(sums + 64 * (v * n_p + p), c[p][v]);
    finish_int(&a->end, f, n_p, n_t, sums);
}

V_INLINE void int_tile_any(const IntTile *a, Form f, int n_p, int n_t)
{
    if (LANES_PANELS > 1 && n_p == LANES_PANELS)
        WITH_CONSTANT(n_t, INT_BLOCK_ROWS, if (N * form_rows(f) <= INT_BLOCK_ROWS) int_tile(a, f,
            LANES_PANELS, N))
    else
        WITH_CONSTANT(n_t, INT_BLOCK_ROWS, if (N * form_rows(f) <= INT_BLOCK_ROWS) int_tile(a, f, 1,
            N))
}

#define INT_TILE(name, form)                                                               \
    static __attribute__((noinline, unused)) void name(const IntTile *a, int n_p, int n_t) \
    {                                                                                      \
        int_tile_any(a, form, n_p, n_t);                                                   \
    }

INT_TILE(int_tile_8, I_FORM_8)
INT_TILE(int_tile_16, I_FORM_16)

/* n_p panels from p on over one superblock, all tokens of the slice. ws: buffer for the unpacked
 * weights. */
V_INLINE void block_superblock(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w,
                               const Slice *x, char *ws, int p, int n_p, int s)
{
    float   dw[LANES_PANELS * LANES];
    int     groups = groups_of(a->k, s), each = INT_BLOCK_ROWS / form_rows(f),
        tiles = (x->n_tok + each - 1) / each;
    size_t  at = (size_t)(s - x->s0) * (size_t)x->n_tok;
    IntTile b = { .w = ws, .n = (f == FORM_WORDS ? 32 : 16) * groups };
    b.end = (Finish){ .dw = dw, .d_stride = a->d_stride, .y_stride = a->y_stride, .first = s == 0 };
    b.end.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
    for (int j = 0; j < n_p; j++) {
        unpack_int(ws + 64 * j, type, f, true, w, p + j, s, groups, 64 * (size_t)n_p);
        v_store(dw + j * LANES, v_load_f16(walk_scales(type, w, p + j, s)));
    }
    for (int i = 0; i < tiles; i++) {
        /* even shares: no short last tile */
        int    t = x->n_tok * i / tiles, end = x->n_tok * (i + 1) / tiles;
        size_t token = (size_t)(x->t0 + t);
        b.x     = x->x + (at + (size_t)t) * x->token;
        b.start = (const int32_t *)(const void *)(x->start + (at + (size_t)t) * x->token_start);
        b.end.y  = a->y + token * a->y_stride + (size_t)p * LANES;
        b.end.dx = a->d + token * a->d_stride + s;
        if (s + 1 < x->end)
            prefetch_codes(w, p, s + 1, n_p, i, tiles);
        else if (p + 2 * n_p <= a->n_panels)
            prefetch_codes(w, p + n_p, x->s0, n_p, i, tiles);
        if (f == I_FORM_8)
            int_tile_8(&b, n_p, end - t);
        else
            int_tile_16(&b, n_p, end - t);
    }
}

#endif
