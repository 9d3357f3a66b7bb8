/* kernels/bodies/int_stream.h: one superblock of a panel of q8 or q4 for few tokens, as it comes
 * from memory (matmul_int.h). Integers may be added in any order: for few tokens, several sums of
 * one row hide the latency. Tokens beyond the registers read the superblock from L1 again. */
#ifndef KERNELS_BODIES_INT_STREAM_H
#define KERNELS_BODIES_INT_STREAM_H

#include "quant/codes.h"
#include "kernels/bodies/int_digits.h"

/* One superblock of one panel for some tokens. */
typedef struct IntStep {
    const unsigned char *codes;
    const i512          *sub;   /* q4: [16] sub-scales for i_sub_end       */
    const char          *x, *start; /* of the first token                  */
    int                  groups;
    Finish               end;
} IntStep;

/* The sums go from registers to memory: finish_int is a loop, and registers have no index. */
V_INLINE void step_end(const IntStep *a, Form f, int n_t, const i512 *acc)
{
    char sums[INT_STREAM_ROWS * 64];
    UNROLL for (int v = 0; v < n_t * form_rows(f); v++)
        i_store(sums + 64 * v, acc[v]);
    finish_int(&a->end, f, 1, n_t, sums);
}

/* Codes times digits. With one token a single sum would wait for its own latency, so up to four
 * sums (chains) alternate along k and are added at the end: integers, so the order does not
 * matter. */
V_INLINE void step_q8(const IntStep *a, Form f, int n_t)
{
    const int   n_v = n_t * form_rows(f), chains = n_v >= 4 ? 1 : n_v >= 2 ? 2 : 4;
    i512        acc[4][INT_STREAM_ROWS];
    const char *x = a->x;
    UNROLL for (int c = 0; c < chains; c++) UNROLL for (int v = 0; v < n_v; v++) acc[c][v] =
        c == 0 && f != FORM_WORDS && I_OFFSET != 0 ? i_bcast(a->start + 4 * v) : i_set32(0);
    const unsigned char *w = a->codes, *end = w + 1024 * (size_t)a->groups;
    for (; w < end; w += 64 * chains, x += chains * (f == FORM_WORDS ? 8 : 4))
        UNROLL for (int c = 0; c < chains; c++) {
            i512 codes = i_load(w + 64 * c);
            if (codes_wait(WT_Q8, n_t))
                codes_ahead(WT_Q8, w + 64 * c, n_t);
            if (f == FORM_WORDS) {
                i512 even = i_even(codes), odd = i_odd(codes);
                UNROLL for (int v = 0; v < n_v; v++) {
                    acc[c][v] = i_dot2_at(acc[c][v], even, x + v * 512 + 8 * c);
                    acc[c][v] = i_dot2_at(acc[c][v], odd, x + v * 512 + 8 * c + 4);
                }
            } else {
                codes = i_offset(codes);
                UNROLL for (int v = 0; v < n_v; v++)
                    acc[c][v] = i_dot4_at(acc[c][v], codes, x + v * 256 + 4 * c);
            }
        }
    UNROLL for (int c = 1; c < chains; c++)
        UNROLL for (int v = 0; v < n_v; v++)
            acc[0][v] = i_add32(acc[0][v], acc[c][v]);
    step_end(a, f, n_t, acc[0]);
}

/* Bytes times the codebook over a sub-block, then times its sub-scale. */
V_INLINE void step_q4(const IntStep *a, Form f, int n_t)
{
    const int n_v = n_t * form_rows(f);
    int8_t    book[16];
    i512      acc[INT_PART_ROWS], part[INT_PART_ROWS];
    for (int i = 0; i < 16; i++)
        book[i] = (int8_t)(q4_codebook[i] + I_BOOK_OFFSET);
    i512 table = i_table(book);
    UNROLL for (int v = 0; v < n_v; v++)
        acc[v] = i_set32(0);
    const unsigned char *w = a->codes;
    const char          *x = a->x, *start = a->start;
    for (int b = 0; b < 4 * a->groups; b++, x += 16, start += 16) {
        UNROLL for (int v = 0; v < n_v; v++)
            part[v] = I_BOOK_OFFSET ? i_bcast(start + v * 256) : i_set32(0);
        UNROLL for (int i = 0; i < 2; i++, w += 64) {
            i512 codes = i_load_once(w);
            if (codes_wait(WT_Q4, n_t))
                codes_ahead(WT_Q4, w, n_t);
            i512 low = i_lookup(table, i_low_nibbles(codes)),
                 high = i_lookup(table, i_high_nibbles(codes));
            UNROLL for (int v = 0; v < n_v; v++)
                part[v] = i_sub_dot_at(part[v], low, x + v * 256 + 8 * i);
            UNROLL for (int v = 0; v < n_v; v++)
                part[v] = i_sub_dot_at(part[v], high, x + v * 256 + 8 * i + 4);
        }
        UNROLL for (int v = 0; v < n_v; v++)
            acc[v] = i_sub_end(acc[v], part[v], a->sub[b]);
    }
    step_end(a, f, n_t, acc);
}

V_INLINE void step_type(const IntStep *a, WeightType type, Form f, int n_t)
{
    if (type == WT_Q8)
        step_q8(a, f, n_t);
    else
        step_q4(a, f, n_t);
}

/* The most digit rows in flight: with q4 a row needs registers for part and sum. */
V_INLINE int stream_rows(WeightType type)
{
    return type == WT_Q8 ? INT_STREAM_ROWS : INT_PART_ROWS;
}

V_INLINE void step_any(const IntStep *a, WeightType type, Form f, int n_t)
{
    WITH_CONSTANT(n_t, INT_STREAM_ROWS, if (N * form_rows(f) <= stream_rows(type)) step_type(a,
        type, f, N))
}

/* The hardware prefetchers follow a stream, but not past the end of a page. Two prefetches a
 * superblock take them there in time. If few tokens use a line, a prefetch for each line disturbs
 * them. */
V_INLINE void int_stream_ahead(const unsigned char *codes)
{
    __builtin_prefetch(codes + INT_EARLY, 0, 2);
    __builtin_prefetch(codes + INT_EARLY + 64, 0, 2);
}

/* Prefetches into L1 the digits of the next superblock, in this panel or the next one. They are
 * read again for each panel, and at k = 4,096 a panel of weights has evicted them from L1. */
V_INLINE void digits_ahead(const Slice *x, int s)
{
    size_t      n = (size_t)x->n_tok, at = (size_t)(s + 1 < x->end ? s + 1 - x->s0 : 0) * n;
    const char *digits = x->x + at * x->token, *start = x->start + at * x->token_start;
    for (size_t i = 0; i < n * x->token; i += 64)
        __builtin_prefetch(digits + i);
    for (size_t i = 0; i < n * x->token_start; i += 64)
        __builtin_prefetch(start + i);
}

/* One superblock of one panel for all tokens of the slice, some at a time. */
V_INLINE void stream_superblock(const IntMatmulArgs *a, WeightType type, Form f, const Walk *w,
                                const Slice *x, int p, int s)
{
    i512    sub[16];
    float   dw[LANES];
    IntStep step = { .codes = walk_to(w, 0, p, s), .sub = sub, .groups = groups_of(a->k, s) };
    step.end      =
        (Finish){ .dw = dw, .d_stride = a->d_stride, .y_stride = a->y_stride, .first = s == 0 };
    step.end.bias = a->bias ? a->bias + (size_t)p * PANEL_ROWS : NULL;
    v_store(dw, v_load_f16(walk_scales(type, w, p, s)));
    int_stream_ahead(step.codes);
    if (!codes_wait(type, x->n_tok)) /* more tokens' digits do not fit */
        digits_ahead(x, s);
    if (type == WT_Q4) {
        const unsigned char *from = walk_to(w, 1, p, s);
        for (int g = 0; g < step.groups; g++)
            i_sub_factors(sub + 4 * g, from + 40 * g, q4_magnitude);
        UNROLL for (int i = 0; i < 160; i += 64)
            __builtin_prefetch(from + 640 + i);
    }
    __builtin_prefetch((const char *)walk_scales(type, w, p, s) + 256);
    int    each = stream_rows(type) / form_rows(f), parts = (x->n_tok + each - 1) / each;
    size_t at = (size_t)(s - x->s0) * (size_t)x->n_tok;
    for (int i = 0; i < parts; i++) {
        int t = x->n_tok * i / parts, end = x->n_tok * (i + 1) / parts;
        step.x  = x->x + (at + (size_t)t) * x->token,
        step.start = x->start + (at + (size_t)t) * x->token_start;
        step.end.y  = a->y + (size_t)(x->t0 + t) * a->y_stride + (size_t)p * PANEL_ROWS;
        step.end.dx = a->d + (size_t)(x->t0 + t) * a->d_stride + s;
        step_any(&step, type, f, end - t);
    }
}

#endif
