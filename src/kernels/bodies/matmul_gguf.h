/* kernels/bodies/matmul_gguf.h: y = W x + bias for the GGUF types with integer activations of 8 bits, over the lanes of an
 * int_*.h header (docs/numerics.md, "GGUF types"). As for q8 and q4, few tokens are a stream (int_stream.h) and many are
 * blocks (int_block.h); a step of either is in gguf_step.h. */
#ifndef KERNELS_BODIES_MATMUL_GGUF_H
#define KERNELS_BODIES_MATMUL_GGUF_H

#include "kernels/bodies/blocking.h"
#include "kernels/bodies/int_digits.h"

#include "kernels/bodies/gguf_codes.h"
#include "kernels/bodies/gguf_step.h"

#if !defined(GGUF_BLOCK_TOKENS)
#define GGUF_BLOCK_TOKENS 256
#endif

/* The most tokens of a step: a part and a sum for each, or a sum alone where sub-scales are in the weights already. */
V_INLINE int gguf_stream_step(void) { return I_SUB_V; }
V_INLINE int gguf_block_step(WeightType type, Form f) { return f == FORM_WORDS && !gguf_has_runs(type) ? I_BLOCK_V : I_BLOCK_V / 2; }

#define GGUF_STEP_CASE(n)                                                                       \
    case n:                                                                                     \
        if ((n) <= most) {                                                                      \
            if (I_PANELS > 1 && n_p == I_PANELS)                                                \
                gguf_step(a, type, f, from, I_PANELS, (n));                                     \
            else                                                                                \
                gguf_step(a, type, f, from, 1, (n));                                            \
        }                                                                                       \
        return;

V_INLINE void gguf_step_any(const GgufStep *a, WeightType type, Form f, GgufSource from, int most, int n_p, int n_t)
{
    switch (n_t) {
        GGUF_STEP_CASE(1) GGUF_STEP_CASE(2) GGUF_STEP_CASE(3)
#if I_BLOCK_V >= 6
        GGUF_STEP_CASE(4) GGUF_STEP_CASE(5) GGUF_STEP_CASE(6)
#endif
#if I_BLOCK_V >= 12
        GGUF_STEP_CASE(7) GGUF_STEP_CASE(8) GGUF_STEP_CASE(9) GGUF_STEP_CASE(10) GGUF_STEP_CASE(11) GGUF_STEP_CASE(12)
#endif
    default:
        return;
    }
}

/* ---- What of a step does not change with its tokens -------------------------------------------------------------- */

V_INLINE const uint16_t *gguf_halves(WeightType type, const Walk *w, int p, int s)
{
    return (const uint16_t *)(const void *)walk_to(w, gguf_has_runs(type) ? 1 : 2, p, s);
}

V_INLINE void gguf_load_scales(GgufScales *to, WeightType type, const Walk *w, int p, int n_p, int s, int runs)
{
    for (int j = 0; j < n_p; j++)
        gguf_scales(to, type, walk_to(w, 1, p + j, s), gguf_halves(type, w, p + j, s), runs, j, n_p);
}

V_INLINE GgufStep gguf_step_of(const IntMatmulArgs *a, int p, int s)
{
    GgufStep step = { .runs = gguf_runs_of(a->k, s) };
    step.end = (Finish){ .d_stride = a->d_stride, .y_stride = a->y_stride, .first = s == 0 };
    step.end.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
    return step;
}

/* Tokens from number t of the slice on. */
V_INLINE void gguf_step_at(GgufStep *step, const IntMatmulArgs *a, const Slice *x, int p, int s, int t)
{
    size_t at = (size_t)(s - x->s0) * (size_t)x->n_tok + (size_t)t, token = (size_t)(x->t0 + t);
    step->x = x->x + at * x->token, step->extra = x->start + at * x->token_start;
    step->end.y  = a->y + token * a->y_stride + (size_t)p * LANES;
    step->end.dx = a->d + token * a->d_stride + s;
}

/* ---- Stream ------------------------------------------------------------------------------------------------------ */

V_INLINE void gguf_stream_superblock(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w, const Slice *x, int p, int s)
{
    GgufScales scales;
    GgufStep   step = gguf_step_of(a, p, s);
    gguf_load_scales(&scales, type, w, p, 1, s, step.runs);
    step.scales = &scales;
    for (int part = 1; part < (gguf_has_runs(type) ? 2 : 3); part++) /* those of eight superblocks on */
        for (size_t i = 0; i < w->superblock[part]; i += 64)
            __builtin_prefetch(walk_to(w, part, p, s + 8) + i);
    step.codes = walk_to(w, 0, p, s);
    int most = gguf_stream_step(), parts = (x->n_tok + most - 1) / most;
    for (int i = 0; i < parts; i++) {
        int t = x->n_tok * i / parts, end = x->n_tok * (i + 1) / parts;
        gguf_step_at(&step, a, x, p, s, t);
        gguf_step_any(&step, type, f, FROM_PANEL, most, 1, end - t);
    }
}

V_INLINE void gguf_stream(const IntMatmulArgs *a, WeightType type, Form f)
{
    Walk w    = walk_of(type, a->w, a->k);
    int  n_s  = (a->k + SUPERBLOCK - 1) / SUPERBLOCK;
    int  most = (int)(KERNEL_SCRATCH / ((form_bytes(f) + GGUF_EXTRA) * (size_t)a->n_tok)); /* superblocks of a slice */
    for (int s0 = 0; s0 < n_s; s0 += most) {
        Slice x = gguf_slice(a, type, f, a->scratch, s0, n_s - s0 < most ? n_s : s0 + most, 0, a->n_tok);
        for (int p = 0; p < a->n_panels; p++)
            for (int s = x.s0; s < x.end; s++)
                gguf_stream_superblock(a, type, f, &w, &x, p, s);
    }
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* Share i of `of` of the codes that are unpacked next. */
V_INLINE void gguf_prefetch(const Walk *w, int p, int s, int n_p, int i, int of)
{
    size_t bytes = w->superblock[0], from = bytes * (size_t)i / (size_t)of / 64 * 64, to = bytes * (size_t)(i + 1) / (size_t)of;
    for (int j = 0; j < n_p; j++)
        for (size_t b = from; b < to; b += 64)
            __builtin_prefetch(walk_to(w, 0, p + j, s) + b, 0, 2);
}

/* n_p panels from p on over one superblock, all tokens of the slice. ws: room for the unpacked weights. */
V_INLINE void gguf_block_superblock(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w, const Slice *x, char *ws,
                                    int p, int n_p, int s)
{
    GgufScales scales;
    GgufStep   step = gguf_step_of(a, p, s);
    int        each = gguf_block_step(type, f), tiles = (x->n_tok + each - 1) / each;
    gguf_load_scales(&scales, type, w, p, n_p, s, step.runs);
    step.scales = &scales;
    for (int j = 0; j < n_p; j++)
        gguf_unpack(ws + 64 * j, type, f, walk_to(w, 0, p + j, s), scales.sub + j, n_p, step.runs, 64 * (size_t)n_p);
    step.codes = (const unsigned char *)ws;
    for (int i = 0; i < tiles; i++) {
        int t = x->n_tok * i / tiles, end = x->n_tok * (i + 1) / tiles; /* even shares: no short last tile */
        if (s + 1 < x->end)
            gguf_prefetch(w, p, s + 1, n_p, i, tiles);
        else if (p + 2 * n_p <= a->n_panels)
            gguf_prefetch(w, p + n_p, x->s0, n_p, i, tiles);
        gguf_step_at(&step, a, x, p, s, t);
        gguf_step_any(&step, type, f, FROM_BLOCK, each, n_p, end - t);
    }
}

V_INLINE void gguf_block(const IntMatmulArgs *a, WeightType type, Form f)
{
    Walk   w    = walk_of(type, a->w, a->k);
    char  *ws   = a->scratch, *memory = ws + I_PANELS * 64 * 128;
    size_t room = KERNEL_SCRATCH - I_PANELS * 64 * 128;
    int    n_s  = (a->k + SUPERBLOCK - 1) / SUPERBLOCK, blocks = (a->n_tok + GGUF_BLOCK_TOKENS - 1) / GGUF_BLOCK_TOKENS;
    for (int i = 0; i < blocks; i++) {
        int t0 = (int)((int64_t)a->n_tok * i / blocks), n_tok = (int)((int64_t)a->n_tok * (i + 1) / blocks) - t0;
        int most = (int)(room / ((form_bytes(f) + GGUF_EXTRA) * (size_t)n_tok)), slices = (n_s + most - 1) / most;
        for (int j = 0; j < slices; j++) {
            Slice x = gguf_slice(a, type, f, memory, n_s * j / slices, n_s * (j + 1) / slices, t0, n_tok);
            for (int p = 0, n_p; p < a->n_panels; p += n_p) {
                n_p = a->n_panels - p < I_PANELS ? 1 : I_PANELS;
                for (int s = x.s0; s < x.end; s++)
                    gguf_block_superblock(a, type, f, &w, &x, ws, p, n_p, s);
            }
        }
    }
}

/* ---- The entries of a table -------------------------------------------------------------------------------------- */

#define MATMUL_GGUF(name, type)                                                                                       \
    static __attribute__((noinline)) void stream_##name(const IntMatmulArgs *a)                                       \
    {                                                                                                                 \
        gguf_stream(a, type, type == WT_Q8_0 ? I_STREAM_8 : FORM_BYTES);                                              \
    }                                                                                                                 \
    static __attribute__((noinline)) void block_##name(const IntMatmulArgs *a) { gguf_block(a, type, I_FORM_8); }     \
    static void matmul_int_##name(const IntMatmulArgs *a)                                                             \
    {                                                                                                                 \
        (a->n_tok <= I_STREAM_TOKENS ? stream_##name : block_##name)(a);                                              \
    }

MATMUL_GGUF(q8_0, WT_Q8_0)
MATMUL_GGUF(q4_0, WT_Q4_0)
MATMUL_GGUF(q4_k, WT_Q4_K)
MATMUL_GGUF(q5_k, WT_Q5_K)
MATMUL_GGUF(q6_k, WT_Q6_K)

#endif
