/* kernels/bodies/gguf_step.h: one superblock of some panels times some tokens, sums in registers. A
 * part is a sum of products that one (sub-)scale covers; it ends sooner if it has to fit words
 * (I_PART_WORDS). */
#ifndef KERNELS_BODIES_GGUF_STEP_H
#define KERNELS_BODIES_GGUF_STEP_H

#include "kernels/bodies/gguf_codes.h"

/* Where codes come from: a panel, n_p = 1; or unpacked before (gguf_unpack). */
typedef enum GgufSource { FROM_PANEL, FROM_BLOCK } GgufSource;

typedef struct GgufStep {
    const unsigned char *codes;
    const GgufScales    *scales;
    const char          *x, *extra; /* of the first token: [n_t][form_bytes], [n_t][GGUF_EXTRA] */
    int                  runs, dx_step; /* from a run's scale of activations to the next one's */
    Finish               end;       /* dw is not used                                           */
} GgufStep;

/* The pairs of code vectors after which a part ends: a sub-block's, or if these are fewer 8 * 4
 * products of codes to 15 (4 * 4 of codes to 31, 2 * 4 of codes to 63), which fit words. */
V_INLINE int gguf_part_pairs(WeightType t)
{
    const int all = 4 / gguf_run_subs(t);
    return I_PART_WORDS && !gguf_is_bytes(t) ? min_int(64 / (weight_type_most(t) + 1), all) : all;
}

/* ---- Starts and ends ------------------------------------------------------------------------- */

enum { GGUF_T = INT_BLOCK_ROWS }; /* the most tokens of a step */

/* Where the sums of a row start: in y, before the first superblock from the bias or +0. */
typedef struct GgufRows { const float *from; size_t stride; } GgufRows;
V_INLINE GgufRows gguf_rows(const Finish *a)
{
    static const float zeros[LANES * LANES_PANELS];
    return (GgufRows){ !a->first ? a->y : a->bias ? a->bias : zeros, a->first ? 0 : a->y_stride };
}

/* The sums of q8 start from +0 and are added to y at the end. */
V_INLINE void gguf_begin(const Finish *a, WeightType type, f32x16 acc[LANES_PANELS][GGUF_T],
                         int n_p, int n_t)
{
    GgufRows     rows = gguf_rows(a);
    const float *from = rows.from;
    UNROLL for (int t = 0; t < n_t; t++, from += rows.stride)
        UNROLL for (int p = 0; p < n_p; p++)
            acc[p][t] = type == WT_Q8 ? v_zero() : v_load(from + p * LANES);
}

V_INLINE void gguf_end(const GgufStep *a, WeightType type, f32x16 acc[LANES_PANELS][GGUF_T],
                       int n_p, int n_t)
{
    GgufRows     rows = gguf_rows(&a->end);
    const float *from = rows.from;
    float       *y = a->end.y;
    UNROLL for (int t = 0; t < n_t; t++, y += a->end.y_stride, from += rows.stride)
        UNROLL for (int p = 0; p < n_p; p++)
            v_store(y + p * LANES,
                    type == WT_Q8 ? v_fma(v_load(a->scales->d + p * LANES), acc[p][t],
                                          v_load(from + p * LANES))
                                  : acc[p][t]);
}

/* The float steps of a superblock of a K-quant, in a loop that is not unrolled (Finish in
 * int_digits.h says why). sums: [n_t][n_p] vectors; those of q3_k and q6_k are of codes plus their
 * offset if words are the parts of bytes. */
V_INLINE void gguf_finish(const GgufStep *a, WeightType type, Form f, const char *sums, int n_p,
                          int n_t)
{
    const bool  minima = weight_type_has_minima(type);
    const int   pairs = minima ? 4 * gguf_run_subs(type) : f == FORM_BYTES && I_PART_WORDS ? 8 : 0;
    GgufRows    rows = gguf_rows(&a->end);
    const char *extra = a->extra;
    i512        pair[8 * LANES_PANELS];
    f32x16      d[LANES_PANELS], dmin[LANES_PANELS];
    UNROLL for (int i = 0; i < pairs * n_p; i++)
        pair[i] = i_load(a->scales->pair + i);
    UNROLL for (int p = 0; p < n_p; p++) {
        d[p] = v_load(a->scales->d + p * LANES);
        if (minima)
            dmin[p] = v_load(a->scales->dmin + p * LANES);
    }
    for (int t = 0; t < n_t; t++, extra += GGUF_EXTRA) {
        float        dx = a->end.dx[(size_t)t * a->end.d_stride];
        const float *from = rows.from + (size_t)t * rows.stride;
        float       *y = a->end.y + (size_t)t * a->end.y_stride;
        UNROLL for (int p = 0; p < n_p; p++) {
            i512 sum = i_load(sums + 64 * (t * n_p + p)), other = i_set32(0);
            UNROLL for (int i = 0; i < pairs; i++)
                other = i_dot2(other, pair[i * n_p + p], i_bcast(extra + 4 * i));
            if (!minima)
                sum = i_add32(sum, i_add32(other, other)); /* 2 * -offset / 2 * sub-scales * sums */
            f32x16 acc = v_fma(v_mul(d[p], v_set(dx)), i_to_f32(sum), v_load(from + p * LANES));
            if (minima)
                acc = v_fma(v_mul(dmin[p], v_set(-dx)), i_to_f32(other), acc);
            v_store(y + p * LANES, acc);
        }
    }
}

/* ---- Inner loops: a run of n_p panels and n_t tokens, part[p][t] ----------------------------- */

/* 4 k of all panels: w[p] times x of each token, at x + t * row. */
V_INLINE void gguf_dots(i512 part[LANES_PANELS][GGUF_T], WeightType type, const i512 *w,
                        const char *x, size_t row, int n_p, int n_t)
{
    UNROLL for (int t = 0; t < n_t; t++) {
        const char *at = x + (size_t)t * row;
        if (n_p == 1) {
            part[0][t] = gguf_is_bytes(type) ? i_dot4_at(part[0][t], w[0], at)
                                             : i_sub_dot_at(part[0][t], w[0], at);
            continue;
        }
        i512 xv = i_bcast(at);
        UNROLL for (int p = 0; p < n_p; p++) part[p][t] =
            gguf_is_bytes(type) ? i_dot4(part[p][t], w[p], xv) : i_sub_dot(part[p][t], w[p], xv);
    }
}

/* 8 k as bytes. */
V_INLINE void gguf_pair_dots(i512 part[LANES_PANELS][GGUF_T], WeightType type, GgufSource from,
                             const unsigned char *codes, int i, const char *x, size_t row, int n_p,
                             int n_t)
{
    i512 low[LANES_PANELS], high[LANES_PANELS];
    if (from == FROM_PANEL) {
        gguf_pair(type, codes, i, &low[0], &high[0]);
        if (gguf_is_bytes(type))
            low[0] = i_offset(low[0]), high[0] = i_offset(high[0]);
    }
    if (from == FROM_BLOCK)
        UNROLL for (int p = 0; p < n_p; p++)
            low[p] = i_load(codes + 64 * (2 * i * n_p + p));
    gguf_dots(part, type, low, x + 8 * i, row, n_p, n_t);
    if (from == FROM_BLOCK)
        UNROLL for (int p = 0; p < n_p; p++)
            high[p] = i_load(codes + 64 * ((2 * i + 1) * n_p + p));
    gguf_dots(part, type, high, x + 8 * i + 4, row, n_p, n_t);
}

/* 32 k as words: signed bytes from their panel, times sub-scales if sub is not NULL; else
 * unpacked. */
V_INLINE void gguf_word_dots(i512 part[LANES_PANELS][GGUF_T], WeightType type, GgufSource from,
                             const unsigned char *codes, const i512 *sub, const char *x,
                             size_t row, int n_p, int n_t)
{
    /* Unrolled by two it is slower; by sixteen gcc takes twice the time and a gigabyte. */
    for (int at = 0; at < 16; at += 4) {
        i512 pair[2];
        if (from == FROM_PANEL)
            gguf_pair(type, codes, at / 4, &pair[0], &pair[1]);
        UNROLL for (int j = 0; j < 4; j++) {
            const int i = at + j;
            i512 w[LANES_PANELS];
            UNROLL for (int p = 0; p < n_p; p++)
                w[p] = from == FROM_BLOCK ? i_load(codes + 64 * (i * n_p + p))
                       : j % 2            ? i_odd(pair[j / 2])
                                          : i_even(pair[j / 2]);
            if (from == FROM_PANEL && sub)
                w[0] = i_mul16(w[0], i_load(sub + gguf_sub(type, 0, i / 4)));
            UNROLL for (int t = 0; t < n_t; t++) {
                i512 xv = i_bcast(x + (size_t)t * row + 4 * i);
                UNROLL for (int p = 0; p < n_p; p++)
                    part[p][t] = i_dot2(part[p][t], w[p], xv);
            }
        }
    }
}

V_INLINE size_t gguf_source_bytes(WeightType type, GgufSource from, Form f, int n_p)
{
    return from == FROM_PANEL ? gguf_run_bytes(type) : (size_t)n_p * (f == FORM_WORDS ? 1024 : 512);
}

V_INLINE void gguf_ahead(WeightType type, GgufSource from, const unsigned char *codes, int n_t)
{
    for (size_t i = 0; from == FROM_PANEL && i < gguf_run_bytes(type); i += 64)
        codes_ahead(type, codes + i, n_t);
}

/* start: of each token, or NULL: 0. zeros: if not NULL, what it is multiplied with for each
 * panel. */
V_INLINE void gguf_start(i512 part[LANES_PANELS][GGUF_T], const char *start, const i512 *zeros,
                         int n_p, int n_t)
{
    UNROLL for (int t = 0; t < n_t; t++)
        UNROLL for (int p = 0; p < n_p; p++) {
            i512 at    = start ? i_bcast(start + t * GGUF_EXTRA) : i_set32(0);
            part[p][t] = start && zeros ? i_dot2(i_set32(0), i_load(zeros + p), at) : at;
        }
}

/* s: a sub-scale for each panel; NULL: 1. */
V_INLINE void gguf_add_part(i512 acc[LANES_PANELS][GGUF_T], i512 part[LANES_PANELS][GGUF_T],
                            const i512 *s, int n_p, int n_t)
{
    UNROLL for (int p = 0; p < n_p; p++) {
        i512 scale = s ? i_load(s + p) : i_set32(0x00010001);
        UNROLL for (int t = 0; t < n_t; t++)
            acc[p][t] = i_scale(acc[p][t], part[p][t], scale);
    }
}

/* ---- Types with a float scale for each run --------------------------------------------------- */

/* GGUF types: acc = fmaf(d * dx, (float)sum, acc) for each run, whose sum starts from minus
 * the zero point times that of the integers; of q4_1 then acc = fmaf(m * dx, sum
 * of integers, acc), with these sums in `extra` where others have starts. q8: c = fmaf(dx,
 * (float)sum, c) for each run, then acc = fmaf(d, c, acc). */
V_INLINE void gguf_step_runs(const GgufStep *a, WeightType type, Form f, GgufSource from, int n_p,
                             int n_t)
{
    const bool           unsigned_codes = !gguf_is_bytes(type), adds = weight_type_adds(type),
                         has_zeros = weight_type_has_zeros(type),
                         starts = has_zeros
        || (f == FORM_BYTES && !adds && (unsigned_codes || I_OFFSET != 0)),
                         words = f == FORM_BYTES && unsigned_codes && I_PART_WORDS;
    const int            pairs = gguf_part_pairs(type);
    const size_t         row = form_bytes(f);
    const char          *x = a->x, *start = a->extra;
    const unsigned char *codes = a->codes;
    const float         *d = a->scales->d, *m = a->scales->dmin, *dx = a->end.dx;
    const int            dx_step = type == WT_Q8 ? 1 : a->dx_step;
    f32x16               acc[LANES_PANELS][GGUF_T];
    gguf_begin(&a->end, type, acc, n_p, n_t);
    for (int run = 0; run < a->runs; run++, dx += dx_step) {
        i512        part[LANES_PANELS][GGUF_T], sum[LANES_PANELS][GGUF_T];
        const i512 *zeros = has_zeros ? a->scales->pair + run * n_p : NULL;
        gguf_start(part, starts && !words ? start : NULL, zeros, n_p, n_t);
        gguf_ahead(type, from, codes, n_t);
        if (f == FORM_WORDS)
            gguf_word_dots(part, type, from, codes, NULL, x, row, n_p, n_t);
        else
            UNROLL for (int i = 0; i < 4; i++) {
                if (words && i == pairs)
                    gguf_start(part, NULL, NULL, n_p, n_t);
                gguf_pair_dots(part, type, from, codes, i, x, row, n_p, n_t);
                if (words && i == pairs - 1)
                    gguf_start(sum, starts ? start : NULL, zeros, n_p, n_t);
                if (words && i % pairs == pairs - 1)
                    gguf_add_part(sum, part, NULL, n_p, n_t);
            }
        UNROLL for (int t = 0; t < n_t; t++)
            UNROLL for (int p = 0; p < n_p; p++) {
            const f32x16 x_scale = v_set(dx[(size_t)t * a->end.d_stride]);
            f32x16       scale   = x_scale;
            if (type != WT_Q8)
                scale = v_mul(v_load(d + p * LANES), scale);
            acc[p][t] = v_fma(scale, i_to_f32(words ? sum[p][t] : part[p][t]), acc[p][t]);
            if (adds)
                acc[p][t] = v_fma(v_mul(v_load(m + p * LANES), x_scale),
                                  v_set(*(const float *)(const void *)(start + t * GGUF_EXTRA)),
                                  acc[p][t]);
            }
        codes += gguf_source_bytes(type, from, f, n_p), d += n_p * LANES, m += n_p * LANES,
                start += 4, x += f == FORM_WORDS ? 64 : 32;
    }
    gguf_end(a, type, acc, n_p, n_t);
}

/* ---- K-quants: one integer for all sub-blocks ------------------------------------------------ */

V_INLINE void gguf_step_subs(const GgufStep *a, WeightType type, Form f, GgufSource from, int n_p,
                             int n_t)
{
    const size_t         row = form_bytes(f);
    const int            pairs = gguf_part_pairs(type);
    const int            offset = gguf_is_bytes(type) ? I_OFFSET : weight_type_offset(type);
    const bool           starts = offset != 0 && !I_PART_WORDS;
    const i512          *sub = a->scales->sub;
    const char          *x = a->x, *start = a->extra;
    const unsigned char *codes = a->codes;
    i512                 acc[LANES_PANELS][GGUF_T], part[LANES_PANELS][GGUF_T];
    char                 sums[GGUF_T * LANES_PANELS * 64];
    gguf_start(acc, NULL, NULL, n_p, n_t);
    for (int run = 0; run < a->runs; run++) {
        gguf_ahead(type, from, codes, n_t);
        if (f == FORM_WORDS)
            gguf_word_dots(acc, type, from, codes, sub, x, row, n_p, n_t);
        else
            UNROLL for (int i = 0; i < 4; i++) {
                if (i % pairs == 0)
                    gguf_start(part, starts ? start + 4 * (i / pairs) : NULL, NULL, n_p, n_t);
                gguf_pair_dots(part, type, from, codes, i, x, row, n_p, n_t);
                if (i % pairs == pairs - 1)
                    gguf_add_part(acc, part, sub + gguf_sub(type, 0, i) * n_p, n_p, n_t);
            }
        codes += gguf_source_bytes(type, from, f, n_p), sub += gguf_run_subs(type) * n_p,
            start += 4 * gguf_run_subs(type), x += f == FORM_WORDS ? 64 : 32;
    }
    UNROLL for (int t = 0; t < n_t; t++)
        UNROLL for (int p = 0; p < n_p; p++)
            i_store(sums + 64 * (t * n_p + p), acc[p][t]);
    gguf_finish(a, type, f, sums, n_p, n_t);
}

V_INLINE void gguf_step(const GgufStep *a, WeightType type, Form f, GgufSource from, int n_p,
                        int n_t)
{
    /* Prefetches y: its rows are far apart, and the end of every step would wait for them. */
    for (int t = 0; t < n_t; t++)
        for (int p = 0; from == FROM_BLOCK && p < n_p; p++)
            __builtin_prefetch(a->end.y + (size_t)t * a->end.y_stride + p * LANES, 1);
    if (gguf_has_runs(type))
        gguf_step_runs(a, type, f, from, n_p, n_t);
    else
        gguf_step_subs(a, type, f, from, n_p, n_t);
}

#endif
