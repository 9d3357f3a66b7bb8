/* kernels/bodies/delta.h: the gated delta rule, one token of one value head. Source: Yang et al.
 * 2024, "Gated Delta Networks"; docs/numerics.md has the order of every operation. */
#ifndef KERNELS_BODIES_DELTA_H
#define KERNELS_BODIES_DELTA_H

#include "kernels/bodies/math.h"

/* Vectors of columns in flight: one alone would wait for each fma, more would spill. */
enum { DELTA_AT_ONCE = 4 };

/* `blocks` vectors of columns from `at` on, of which the last has len columns. S is read twice and
 * written once: what it decays to is cheaper to compute again than to keep. */
V_INLINE void delta_columns(const DeltaStep *a, int at, int blocks, int len)
{
    f32x16       m[DELTA_AT_ONCE], d[DELTA_AT_ONCE];
    const f32x16 decay = v_set(a->decay), beta = v_set(a->beta);
    for (int b = 0; b < blocks; b++)
        m[b] = v_zero();
    const float *row = a->state + at;
    for (int i = 0; i < a->n_k; i++, row += a->n_v)
        for (int b = 0; b < blocks; b++)
            m[b] = v_fma(v_mul(load_upto(row + b * LANES, len), decay), v_set(a->k[i]), m[b]);
    for (int b = 0; b < blocks; b++) {
        d[b] = v_mul(v_sub(load_upto(a->v + at + b * LANES, len), m[b]), beta);
        m[b] = v_zero();
    }
    float *to = a->state + at;
    for (int i = 0; i < a->n_k; i++, to += a->n_v)
        for (int b = 0; b < blocks; b++) {
            f32x16 s = v_mul(load_upto(to + b * LANES, len), decay);
            s        = v_fma(v_set(a->k[i]), d[b], s);
            store_upto(to + b * LANES, s, len);
            m[b] = v_fma(s, v_set(a->q[i]), m[b]);
        }
    for (int b = 0; b < blocks; b++)
        store_upto(a->o + at + b * LANES, m[b], len);
}

static void delta_rule(const DeltaStep *a)
{
    int at = 0;
    for (; at + DELTA_AT_ONCE * LANES <= a->n_v; at += DELTA_AT_ONCE * LANES)
        delta_columns(a, at, DELTA_AT_ONCE, LANES);
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
