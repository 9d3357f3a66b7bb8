/* runtime/attention_probs.c: attention probabilities for callers that ask for them.
 * attention.c never holds them, because its sums run tile by tile. This file computes them a
 * second time, one row for each requested query and head. It writes nothing that the forward
 * pass reads, so the pass keeps its bits.
 *
 * Scores are those of docs/numerics.md, row "attention", from the same rotated q and the same
 * rounded K. The softmax is the row "other softmax" over the visible keys. It may differ from
 * attention's own weights by rounding, because attention divides by its sum only after the
 * product with V. */
#include "runtime/ops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Position `at` of a cache of V alone, as f32. row: room for [head_dim]. */
static const float *row_of(const Run *r, int seq, int l, int kv_head, int at, float *row)
{
    const KvCache *c      = r->kv_cache;
    const size_t   first  = (size_t)(at % KV_TILE) * (size_t)c->v_stride;
    const void    *tile   = kv_cache_v(c, seq, l, kv_head, at / KV_TILE);
    const int      d_head = c->shape.head_dim;
    if (c->shape.type == KV_F32)
        return (const float *)tile + first;
    if (c->shape.type == KV_F16)
        r->kernels->f16_to_f32(row, (const uint16_t *)tile + first, d_head);
    for (int d = 0; c->shape.type == KV_Q8 && d < d_head; d++)
        row[d] = (float)((const int8_t *)tile + first)[d]
            * kv_cache_v_scales(c, seq, l, kv_head, at / KV_TILE)[at % KV_TILE];
    return row;
}

/* Scores of one query against the 16 positions from `at`, a multiple of 16. Lanes without a
 * position give whatever the tile holds. panel: room for [head_dim, 16 + 1] f32, used if the
 * cache is not f32 or has V alone. */
static void scores(const Run *r, const float *q, int seq, int l, int kv_head, int at, float *panel,
                   float *s)
{
    const KvCache *c      = r->kv_cache;
    size_t         d_head = (size_t)r->model->cfg.head_dim, elements = d_head * LANES;
    size_t         group  = (size_t)(at % KV_TILE / LANES);
    const void    *tile   = kv_cache_k(c, seq, l, kv_head, at / KV_TILE);
    const float   *k      = (const float *)tile + group * elements;

    if (c->shape.v_is_k) {
        float *row = panel + elements;
        for (size_t i = 0; i < LANES; i++) {
            const float *v = row_of(r, seq, l, kv_head, at + (int)i, row);
            for (size_t d = 0; d < d_head; d++)
                panel[d * LANES + i] = v[d];
        }
        k = panel;
    } else if (c->shape.type == KV_F16) {
        r->kernels->f16_to_f32(panel, (const uint16_t *)tile + group * elements, (int)elements);
        k = panel;
    } else if (c->shape.type == KV_Q8) {
        const int8_t *code  = (const int8_t *)tile + group * elements;
        const float  *scale = kv_cache_k_scales(c, seq, l, kv_head, at / KV_TILE) + at % KV_TILE;
        for (size_t i = 0; i < elements; i++)
            panel[i] = (float)code[i] * scale[i % LANES];
        k = panel;
    }
    for (int i = 0; i < LANES; i++)
        s[i] = 0;
    for (size_t d = 0; d < d_head; d++)
        for (int i = 0; i < LANES; i++)
            s[i] = fmaf(q[d], k[d * LANES + (size_t)i], s[i]);
    for (int i = 0; i < LANES; i++)
        s[i] *= r->attn_scale;
    if (r->attn_softcap > 0.0f)
        r->kernels->soft_cap(s, r->attn_softcap, LANES);
}

/* Softmax of n scores and a sink, which is dropped. */
static void softmax_with(const Run *r, float *p, int n, float sink)
{
    float m, sum;
    r->kernels->softmax_scaled(p, 1.0f, n, &m, &sum);
    float most = m > sink ? m : sink, own = sum * kernels_expf(m - most),
          all = own + kernels_expf(sink - most);
    r->kernels->scale(p, own / all, n);
}

/* p[0 .. pos] for token t of the call: 0 if the window masks it, else probabilities that sum to
 * 1, with that of a sink. */
static void probabilities(const Run *r, int l, int h, int t, float *p)
{
    const Config     *c = &r->model->cfg;
    const BatchToken *b = &r->token[t];
    const float      *sinks = r->layer[l].attn_sinks;
    int oldest = window_oldest(config_window(c, l), c->window_chunked, b->pos);

    for (int at = oldest / LANES * LANES; at <= b->pos; at += LANES) {
        float s[LANES];
        scores(r, act_row(&r->q, t) + h * c->head_dim, b->seq, l, h / (c->heads / c->kv_heads), at,
               r->attn_scratch, s);
        int first = oldest > at ? oldest - at : 0,
            end = b->pos + 1 - at < LANES ? b->pos + 1 - at : LANES;
        memcpy(p + at + first, s + first, (size_t)(end - first) * sizeof *p);
    }
    memset(p, 0, (size_t)oldest * sizeof *p);
    if (sinks)
        softmax_with(r, p + oldest, b->pos - oldest + 1, sinks[h]);
    else
        r->kernels->softmax(p + oldest, b->pos - oldest + 1);
}

/* Rows are assigned round-robin, because later ones cost more under a causal mask. */
void attention_probs(Run *r, int l)
{
    int heads = r->model->cfg.heads;
    if (!r->attention_row)
        return;
    /* The panel of scores() is in the scratch of attention. */
    assert(attention_scratch_floats(&r->model->cfg)
           >= (size_t)r->model->cfg.head_dim * (LANES + 1));
    for (int i = r->team.thread; i < r->n_tok * heads; i += r->team.n_threads) {
        float *p =
            r->attention_row(r->attention_user, l, i % heads, r->first + (size_t)(i / heads));
        if (p)
            probabilities(r, l, i % heads, i / heads, p);
    }
}
