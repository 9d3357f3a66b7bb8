/* kernels/bodies/int_digits.h: integer activations in the form that the multipliers take, and the
 * layout of quantized weights. One superblock of one token becomes one or two digit rows:
 *
 *   BYTES   q itself, 4 k to 32 bits (8-bit activations)
 *   PLANES  two rows of bytes, hi and lo, q = 255 * hi + lo
 *   WORDS   q itself, the k of 64 bits in the order 0 2 1 3: that of i_even and i_odd */
#ifndef KERNELS_BODIES_INT_DIGITS_H
#define KERNELS_BODIES_INT_DIGITS_H

#include "kernels/bodies/blocking.h"

/* ---- The structure of the GGUF types --------------------------------------------------------- */

enum {
    RUN = 32,
    MAX_RUNS = SUPERBLOCK / RUN,
    GGUF_EXTRA = 64 /* bytes besides the digits of a token's superblock */
};

/* The structure of a row's superblock: a float scale for each run; or integer sub-scales, with or
 * without minima. q8 counts here if the activations have a scale for each run. */
V_INLINE bool gguf_has_runs(WeightType t) { return weight_type_by_32(t); }
/* codes as multiplied are signed bytes */
V_INLINE bool gguf_is_bytes(WeightType t) { return weight_type_most(t) == 255; }

V_INLINE int    gguf_scales_part(WeightType t)
{
    return gguf_has_runs(t) ? weight_type_runs_part(t) : 2;
}
V_INLINE size_t gguf_run_bytes(WeightType t) { return 64 * (size_t)weight_type_bits(t); }
/* sub-scales of a run, and that of pair i of its code vectors, of all of a superblock */
V_INLINE int    gguf_run_subs(WeightType t) { return weight_type_sub(t) == 16 ? 2 : 1; }
V_INLINE int    gguf_sub(WeightType t, int run, int i)
{
    return gguf_run_subs(t) == 2 ? 2 * run + i / 2 : run;
}

/* ---- Digits ---------------------------------------------------------------------------------- */

typedef enum Form { FORM_BYTES, FORM_PLANES, FORM_WORDS } Form;

/* The start of a row's sum, which corrects for the offset added to the weights: none; one number
 * for each superblock (i_offset); one for each sub-block (the codebook of q4); or as gguf_extra
 * says. */
typedef enum Starts { START_ZERO, START_SUPERBLOCK, START_SUB_BLOCK, START_GGUF } Starts;

V_INLINE Starts starts_of(WeightType type, Integers ints, Form f, bool stream)
{
    if (weight_type_gguf(type) || ints == INT8_BY_32)
        return START_GGUF;
    if (stream && type == WT_Q4)
        return START_SUB_BLOCK;
    return f != FORM_WORDS && I_OFFSET != 0 ? START_SUPERBLOCK : START_ZERO;
}

V_INLINE int    form_rows(Form f) { return f == FORM_PLANES ? 2 : 1; }
V_INLINE size_t form_bytes(Form f) { return f == FORM_WORDS ? 512 : 256; }
V_INLINE size_t start_bytes(Starts s) /* of a row */
{
    return s == START_ZERO ? 0 : s == START_SUPERBLOCK ? 4 : s == START_GGUF ? GGUF_EXTRA : 256;
}

V_INLINE int32_t i_fold_add(i512 a)
{
    int32_t lane[16], sum = 0;
    i_store(lane, a);
    for (int i = 0; i < 16; i++)
        sum += lane[i];
    return sum;
}

/* The planes of q = 255 * hi + lo (docs/numerics.md). */
V_INLINE i512 plane_hi(i512 q) { return i_round_mul16(q, i_set32(257 << 16 | 257)); }
V_INLINE i512 plane_lo(i512 q, i512 hi)
{
    return i_sub16(q, i_mul16(hi, i_set32(255 << 16 | 255)));
}

/* 64 q to 64 k of a token's rows. */
V_INLINE void digits_of(Form f, char *x, const int16_t *q)
{
    i512 a = i_load(q), b = i_load(q + 32);
    if (f == FORM_WORDS) {
        i_store(x, i_pair(a)), i_store(x + 64, i_pair(b));
        return;
    }
    if (f == FORM_PLANES) {
        i512 a_hi = plane_hi(a), b_hi = plane_hi(b);
        i_store(x, i_pack(a_hi, b_hi));
        x += form_bytes(f);
        a = plane_lo(a, a_hi), b = plane_lo(b, b_hi);
    }
    i_store(x, i_pack(a, b));
}

/* One token's rows of a superblock of 64 * groups k, and the starts of their sums. */
V_INLINE void digits_token(Form f, Starts starts, char *x, char *start, const int16_t *q,
                           int groups)
{
    size_t step = form_bytes(f) / 4;
    for (int g = 0; g < groups; g++)
        digits_of(f, x + (size_t)g * step, q + 64 * g);
    for (int row = 0;
         (starts == START_SUPERBLOCK || starts == START_SUB_BLOCK) && row < form_rows(f); row++) {
        const char *from = x + (size_t)row * form_bytes(f);
        char       *to   = start + (size_t)row * start_bytes(starts);
        i512        sum  = i_set32(0);
        for (int g = 0; g < groups; g++)
            if (starts == START_SUB_BLOCK)
                i_store(to + 64 * g, i_sub_start(i_load(from + 64 * g)));
            else
                sum = i_dot4(sum, i_offset(i_set32(0)), i_load(from + 64 * g));
        int32_t minus = -i_fold_add(sum);
        if (starts == START_SUPERBLOCK)
            memcpy(to, &minus, sizeof minus);
    }
}

/* The order of i_even and i_odd: 0 2 1 3. */
V_INLINE int gguf_word(int i) { return (i & ~3) | (i & 1) << 1 | (i >> 1 & 1); }

/* The factors of the codes' offsets and of the minima, for n integers: types with runs int32
 * [8], the start of each run's sum, with zero points minus the sums of 32, or of q4_1 float [8],
 * the sums of 32; iq4_xs int32 [8], q3_k, q6_k, q8_16 int32 [16], the start of each
 * sub-block's sum; q4_k, q5_k int16 [8], the sums of 32; q2_k int16 [16], those of 16. If parts
 * are words, q3_k and q6_k have int16 [16], the sums of 16 times half the offset, for their
 * sub-scales. */
V_INLINE void gguf_extra(WeightType t, char *to, const int16_t *q, int n)
{
    int32_t start[16] = { 0 };
    int16_t sums[32] = { 0 };
    int     offset = gguf_is_bytes(t) ? I_OFFSET : weight_type_offset(t);
    bool    starts = gguf_has_runs(t) || (offset != 0 && !I_PART_WORDS);
    int     each   = RUN / gguf_run_subs(t);
    for (int i = 0; i < n / each; i++) {
        int32_t sum = 0;
        for (int j = 0; j < each; j++)
            sum += q[i * each + j];
        if (starts)
            start[i] = weight_type_adds(t) ? (int32_t)f32_bits((float)sum)
                : weight_type_has_zeros(t) ? -sum
                                           : -offset * sum;
        else
            sums[gguf_word(i)] = (int16_t)(offset ? -(offset / 2) * sum : sum);
    }
    if (starts)
        memcpy(to, start, GGUF_EXTRA);
    else
        memcpy(to, sums, GGUF_EXTRA);
}

/* ---- A slice: some superblocks of some tokens, in scratch ------------------------------------ */

/* GGUF types take 16 bits as two vectors of 8, q = 255 * hi + lo, one after the other: the sums of
 * a K-quant's superblock times 16 bits would overflow int32. */
V_INLINE int turns_of(WeightType type, Integers ints)
{
    return weight_type_gguf(type) && ints == INT16 ? 2 : 1;
}

typedef struct Slice {
    int          s0, end, t0, n_tok; /* superblocks s0 .. end, tokens t0 .. t0 + n_tok */
    int          turns;
    const char  *x, *start; /* [superblock][turn][token][row][form_bytes]; ... [start_bytes] */
    size_t       token, token_start; /* bytes of one token in a superblock of each */
    const float *d;                  /* of two turns: scales [superblock][turn][token] */
} Slice;

/* Of a token in a superblock; a turn has scales of its own. */
V_INLINE size_t slice_bytes(Form f, Starts starts, int turns)
{
    return (size_t)(turns * form_rows(f)) * (form_bytes(f) + start_bytes(starts))
         + (turns > 1 ? (size_t)turns * sizeof(float) : 0);
}

/* The high or the low plane of 64 n integers. */
V_INLINE void half_of(int16_t *to, const int16_t *q, int n, int turn)
{
    for (; n > 0; n--, q += 64, to += 64)
        UNROLL for (int i = 0; i < 64; i += 32) {
            i512 v = i_load(q + i), hi = plane_hi(v);
            i_store(to + i, turn == 0 ? hi : plane_lo(v, hi));
        }
}

V_INLINE int runs_of(int k, int s)
{
    return (min_int(k - s * SUPERBLOCK, SUPERBLOCK) + RUN - 1) / RUN;
}

V_INLINE int groups_of(int k, int s)
{
    int n = k - s * SUPERBLOCK;
    return n >= SUPERBLOCK ? SUPERBLOCK / 64 : (n + 63) / 64;
}

/* memory: (end - s0) * n_tok * slice_bytes, aligned. */
V_INLINE Slice slice_make(const IntMatmulArgs *a, WeightType type, Form f, Starts starts,
                          char *memory, int s0, int end, int t0, int n_tok)
{
    Slice  r = { .s0 = s0, .end = end, .t0 = t0, .n_tok = n_tok, .turns = turns_of(type, a->ints) };
    size_t n = (size_t)(end - s0) * (size_t)(n_tok * r.turns);
    r.token = (size_t)form_rows(f) * form_bytes(f),
    r.token_start = (size_t)form_rows(f) * start_bytes(starts);
    char    *x = memory, *start = memory + n * r.token;
    float   *d = (float *)(void *)(start + n * r.token_start);
    int16_t  half[SUPERBLOCK] __attribute__((aligned(64)));
    r.x = x, r.start = start, r.d = d;
    for (int s = s0; s < end; s++)
        for (int i = 0; i < r.turns * n_tok; i++, x += r.token, start += r.token_start) {
            const int      t = t0 + i % n_tok, turn = i / n_tok;
            const int16_t *q = a->q + (size_t)t * a->q_stride + (size_t)s * SUPERBLOCK;
            if (r.turns > 1) {
                half_of(half, q, groups_of(a->k, s), turn);
                q    = half;
                *d++ = (turn == 0 ? 255 : 1) * a->d[(size_t)t * a->d_stride + (size_t)s];
            }
            digits_token(f, starts, x, start, q, groups_of(a->k, s));
            if (starts == START_GGUF)
                gguf_extra(type, start, q, runs_of(a->k, s) * RUN);
        }
    return r;
}

/* ---- The layout of weights ------------------------------------------------------------------- */

typedef struct Walk {
    const unsigned char *part[MAX_PARTS];
    size_t               panel[MAX_PARTS], superblock[MAX_PARTS];
} Walk;

V_INLINE Walk walk_of(WeightType type, Panels w, int k)
{
    Walk r = { { NULL }, { 0 }, { 0 } };
    for (int i = 0; i < part_count(type); i++) {
        r.part[i]       = w.part[i];
        r.panel[i]      = part_bytes(type, i, k);
        r.superblock[i] = part_bytes(type, i, SUPERBLOCK);
    }
    return r;
}

V_INLINE const unsigned char *walk_to(const Walk *w, int part, int panel, int s)
{
    return w->part[part] + (size_t)panel * w->panel[part] + (size_t)s * w->superblock[part];
}

/* Do so many tokens use a line of codes that memory would wait for them? The hardware prefetchers
 * stay just ahead of a stream, however slow it is. */
V_INLINE bool codes_wait(WeightType t, int n_t) { return n_t > (weight_type_bits(t) == 8 ? 2 : 1); }

/* Prefetches a line of codes that a stream needs soon; w: its position, n_t: the tokens that use
 * it. For several tokens, and always for q8_0: into L2 early and into L1 just before use, which
 * hides the page walks of small pages; the others lose by two stages. The distances were measured
 * with one and two threads, and pages of 4 KB and 2 MB. */
V_INLINE void codes_ahead(WeightType type, const unsigned char *w, int n_t)
{
    bool early = codes_wait(type, n_t);
    if (early || type == WT_Q8_0) {
        __builtin_prefetch(w + INT_SOON);
        __builtin_prefetch(w + (early ? INT_EARLY : INT_AHEAD), 0, 2);
    } else {
        __builtin_prefetch(w + INT_AHEAD);
    }
}

/* Prefetches share i of `of` of the codes of the superblock that is unpacked next, so that they
 * will be in L2. */
V_INLINE void prefetch_codes(const Walk *w, int p, int s, int n_p, int i, int of)
{
    size_t bytes = w->superblock[0];
    size_t from = bytes * (size_t)i / (size_t)of / 64 * 64,
           to = bytes * (size_t)(i + 1) / (size_t)of;
    for (int j = 0; j < n_p; j++)
        for (size_t b = from; b < to; b += 64)
            __builtin_prefetch(walk_to(w, 0, p + j, s) + b, 0, 2);
}

V_INLINE const uint16_t *walk_scales(WeightType type, const Walk *w, int panel, int s)
{
    return (const uint16_t *)(const void *)walk_to(w, type == WT_Q8 ? 1 : 2, panel, s);
}

/* ---- The end of a superblock ----------------------------------------------------------------- */

/* acc = fmaf(dw * dx, (float)sum, acc); before the first one acc is the bias or +0. n_p panels of
 * n_t tokens. A loop that is not unrolled: gcc 12 keeps all its addresses at once and spills
 * them. */
typedef struct Finish {
    float       *y;
    size_t       y_stride;
    const float *dw;                 /* [n_p][16]                  */
    const float *dx;
    size_t       d_stride;
    bool         first;
    const float *bias;               /* of the first panel or NULL */
} Finish;

V_INLINE void finish_int(const Finish *a, Form f, int n_p, int n_t,
                         const void *sums /* [n_t][rows][n_p] vectors */)
{
    static const float zeros[LANES * LANES_PANELS];
    const float *from = !a->first ? a->y : a->bias ? a->bias : zeros, *dx = a->dx;
    const char  *sum  = sums;
    float       *y    = a->y;
    size_t from_stride = a->first ? 0 : a->y_stride, y_stride = a->y_stride, d_stride = a->d_stride;
    f32x16       dw[LANES_PANELS];
    UNROLL for (int p = 0; p < n_p; p++)
        dw[p] = v_load(a->dw + p * LANES);
    for (int t = 0; t < n_t;
         t++, y += y_stride, from += from_stride, dx += d_stride, sum += 64 * n_p * form_rows(f))
        UNROLL for (int p = 0; p < n_p; p++) {
            i512 s = i_load(sum + 64 * p);
            if (f == FORM_PLANES)
                s = i_add32(i_sub32(i_times256(s), s), i_load(sum + 64 * (n_p + p)));
            v_store(y + p * LANES,
                    v_fma(v_mul(dw[p], v_set(*dx)), i_to_f32(s), v_load(from + p * LANES)));
        }
}

#endif
