/* kernels/bodies/delta.h: the gated delta rule, some tokens of one value head. Source: Yang et al.
 * 2024, "Gated Delta Networks"; docs/numerics.md has the order of every operation. */
#ifndef KERNELS_BODIES_DELTA_H
#define KERNELS_BODIES_DELTA_H

#include "kernels/bodies/math.h"

/* Vectors of columns in flight: one alone would wait for each fma. For several tokens, few enough
 * that their part of S stays in L1. */
enum { DELTA_ONE = 4, DELTA_MANY = DELTA_COLUMNS / LANES };

/* Columns `at` on of S: in place, or copied together to a->room. */
typedef struct DeltaPart { float *s; int step, at, len; } DeltaPart;

/* S decays for the first token, and is read with its key. */
V_INLINE void delta_ask(const DeltaSpan *a, const DeltaPart *p, int blocks, f32x16 *m)
{
    const f32x16 decay = v_set(a->decay[0]);
    float       *row   = p->s;
    UNROLL for (int b = 0; b < blocks; b++)
        m[b] = v_zero();
    for (int i = 0; i < a->n_k; i++, row += p->step)
        UNROLL for (int b = 0; b < blocks; b++) {
            f32x16 s = v_mul(load_upto(row + b * LANES, p->len), decay);
            m[b]     = v_fma(s, v_set(a->k[i]), m[b]);
            store_upto(row + b * LANES, s, p->len);
        }
}

/* S, which has decayed, is corrected by d and read with the query. next: then it decays for the
 * next token and is read with its key, so that it is loaded and stored once for a token. */
V_INLINE void delta_correct(const DeltaSpan *a, const DeltaPart *p, int t, int blocks, bool next,
                            const f32x16 *d, f32x16 *o, f32x16 *m)
{
    const float *q = a->q + t * a->n_k, *k = a->k + t * a->n_k, *k_next = next ? k + a->n_k : k;
    const f32x16 decay = v_set(a->decay[t + next]);
    float       *row   = p->s;
    UNROLL for (int b = 0; b < blocks; b++)
        o[b] = m[b] = v_zero();
    for (int i = 0; i < a->n_k; i++, row += p->step)
        UNROLL for (int b = 0; b < blocks; b++) {
            f32x16 s = v_fma(v_set(k[i]), d[b], load_upto(row + b * LANES, p->len));
            o[b]     = v_fma(s, v_set(q[i]), o[b]);
            if (next) {
                s    = v_mul(s, decay);
                m[b] = v_fma(s, v_set(k_next[i]), m[b]);
            }
            store_upto(row + b * LANES, s, p->len);
        }
}

V_INLINE void delta_tokens(const DeltaSpan *a, const DeltaPart *p, int blocks)
{
    f32x16 m[DELTA_ONE], d[DELTA_ONE], o[DELTA_ONE];
    delta_ask(a, p, blocks, m);
    for (int t = 0; t < a->n_tok; t++) {
        const float *v = a->v + (size_t)t * a->v_stride + p->at;
        UNROLL for (int b = 0; b < blocks; b++)
            d[b] = v_mul(v_sub(load_upto(v + b * LANES, p->len), m[b]), v_set(a->beta[t]));
        if (t + 1 < a->n_tok)
            delta_correct(a, p, t, blocks, true, d, o, m);
        else
            delta_correct(a, p, t, blocks, false, d, o, m);
        UNROLL for (int b = 0; b < blocks; b++)
            store_upto(a->o + t * a->n_v + p->at + b * LANES, o[b], p->len);
    }
}

/* Rows of S are far apart, so for several tokens their part is copied together. */
V_INLINE void delta_columns(const DeltaSpan *a, int at, int blocks, int len)
{
    float    *from = a->state + at;
    DeltaPart p    = { from, a->n_v, at, len };
    if (a->n_tok > 1) {
        p.s    = a->room;
        p.step = DELTA_COLUMNS;
    }
    for (int i = 0; i < a->n_k && a->n_tok > 1; i++)
        UNROLL for (int b = 0; b < blocks; b++)
            store_upto(p.s + i * p.step + b * LANES,
                       load_upto(from + (size_t)i * (size_t)a->n_v + b * LANES, len), len);
    delta_tokens(a, &p, blocks);
    for (int i = 0; i < a->n_k && a->n_tok > 1; i++)
        UNROLL for (int b = 0; b < blocks; b++)
            store_upto(from + (size_t)i * (size_t)a->n_v + b * LANES,
                       load_upto(p.s + i * p.step + b * LANES, len), len);
}

static void delta_rule(const DeltaSpan *a)
{
    int at = 0;
    for (; a->n_tok == 1 && at + DELTA_ONE * LANES <= a->n_v; at += DELTA_ONE * LANES)
        delta_columns(a, at, DELTA_ONE, LANES);
    for (; at + DELTA_MANY * LANES <= a->n_v; at += DELTA_MANY * LANES)
        delta_columns(a, at, DELTA_MANY, LANES);
    for (; at + LANES <= a->n_v; at += LANES)
        delta_columns(a, at, 1, LANES);
    if (at < a->n_v)
        delta_columns(a, at, 1, a->n_v - at);
}

static void delta_decay(float *y, const float *a, const float *dt, const float *rate, int n)
{
    for (int i = 0; i < n; i += LANES) {
        int    len = n - i < LANES ? n - i : LANES;
        f32x16 x   = v_add(load_upto(a + i, len), load_upto(dt + i, len));
        store_upto(y + i, v_exp(v_mul(load_upto(rate + i, len), v_softplus(x))), len);
    }
}

#endif
