/* kernels/bodies/matmul_gguf.h: one superblock of the GGUF types for all tokens of a slice, as a
 * stream and as a block (matmul_int.h). A step, some panels times some tokens, is in
 * gguf_step.h. */
#ifndef KERNELS_BODIES_MATMUL_GGUF_H
#define KERNELS_BODIES_MATMUL_GGUF_H

#include "kernels/bodies/gguf_step.h"

/* The most tokens of a step: a part and a sum for each, or only a sum if sub-scales are already in
 * the weights. */
V_INLINE int gguf_stream_step(void) { return INT_PART_ROWS; }
V_INLINE int gguf_block_step(WeightType type, Form f)
{
    return f == FORM_WORDS && !gguf_has_runs(type) ? INT_BLOCK_ROWS : INT_BLOCK_ROWS / 2;
}

V_INLINE void gguf_step_any(const GgufStep *a, WeightType type, Form f, GgufSource from, int most,
                            int n_p, int n_t)
{
    if (LANES_PANELS > 1 && n_p == LANES_PANELS)
        WITH_CONSTANT(n_t, INT_BLOCK_ROWS, if (N <= most) gguf_step(a, type, f, from, LANES_PANELS,
            N))
    else
        WITH_CONSTANT(n_t, INT_BLOCK_ROWS, if (N <= most) gguf_step(a, type, f, from, 1, N))
}

/* ---- What of a step does not change with its tokens ------------------------------------------ */

V_INLINE void gguf_load_scales(GgufScales *to, WeightType type, const Walk *w, int p, int n_p,
                               int s, int runs)
{
    for (int j = 0; j < n_p; j++)
        gguf_scales(to, type, walk_to(w, 1, p + j, s),
                    walk_to(w, gguf_scales_part(type), p + j, s), runs, j, n_p);
}

V_INLINE GgufStep gguf_step_of(const IntMatmulArgs *a, int p, int s)
{
    GgufStep step = { .runs = runs_of(a->k, s), .dx_step = a->ints == INT8_BY_32 };
    step.end = (Finish){ .y_stride = a->y_stride };
    step.end.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
    return step;
}

/* Tokens from number t of the slice on. */
V_INLINE void gguf_step_at(GgufStep *step, const IntMatmulArgs *a, const Slice *x, int p, int s,
                           int turn, int t)
{
    size_t at = (size_t)((s - x->s0) * x->turns + turn) * (size_t)x->n_tok + (size_t)t,
           token = (size_t)(x->t0 + t);
    step->x = x->x + at * x->token, step->extra = x->start + at * x->token_start;
    step->end.y     = a->y + token * a->y_stride + (size_t)p * LANES;
    step->end.first = s == 0 && turn == 0;
    step->end.d_stride = x->turns > 1 ? 1 : a->d_stride;
    step->end.dx    = x->turns > 1
        ? x->d + at : a->d + token * a->d_stride + s * (SUPERBLOCK / int_each(a->ints));
}

/* ---- Stream ---------------------------------------------------------------------------------- */

V_INLINE void gguf_stream_superblock(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w,
                                     const Slice *x, int p, int s)
{
    GgufScales scales;
    GgufStep   step = gguf_step_of(a, p, s);
    gguf_load_scales(&scales, type, w, p, 1, s, step.runs);
    step.scales = &scales;
    /* those of eight superblocks on */
    for (int part = 1; part <= gguf_scales_part(type); part++)
        for (size_t i = 0; i < w->superblock[part]; i += 64)
            __builtin_prefetch(walk_to(w, part, p, s + 8) + i);
    step.codes = walk_to(w, 0, p, s);
    int most = gguf_stream_step(), parts = (x->n_tok + most - 1) / most;
    for (int i = 0; i < parts * x->turns; i++) {
        int part = i % parts, t = x->n_tok * part / parts, end = x->n_tok * (part + 1) / parts;
        gguf_step_at(&step, a, x, p, s, i / parts, t);
        gguf_step_any(&step, type, f, FROM_PANEL, most, 1, end - t);
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* n_p panels from p on over one superblock, all tokens of the slice. ws: buffer for the unpacked
 * weights. */
V_INLINE void gguf_block_superblock(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w,
                                    const Slice *x, char *ws, int p, int n_p, int s)
{
    GgufScales scales;
    GgufStep   step = gguf_step_of(a, p, s);
    int        each = gguf_block_step(type, f), tiles = (x->n_tok + each - 1) / each;
    gguf_load_scales(&scales, type, w, p, n_p, s, step.runs);
    step.scales = &scales;
    for (int j = 0; j < n_p; j++)
        gguf_unpack(ws + 64 * j, type, f, walk_to(w, 0, p + j, s), scales.sub + j, n_p, step.runs,
                    64 * (size_t)n_p);
    step.codes = (const unsigned char *)ws;
    for (int i = 0; i < tiles * x->turns; i++) {
        /* even shares: no short last tile */
        int tile = i % tiles, t = x->n_tok * tile / tiles, end = x->n_tok * (tile + 1) / tiles;
        if (s + 1 < x->end)
            prefetch_codes(w, p, s + 1, n_p, i, tiles * x->turns);
        else if (p + 2 * n_p <= a->n_panels)
            prefetch_codes(w, p + n_p, x->s0, n_p, i, tiles * x->turns);
        gguf_step_at(&step, a, x, p, s, i / tiles, t);
        gguf_step_any(&step, type, f, FROM_BLOCK, each, n_p, end - t);
    }
}

#endif
