/* kernels/bodies/attention.h: queries against one tile of 64 positions, and the merge of tiles.
 * Scores: lanes are positions. Values: lanes are dimensions. Queries of a call share the loads of K
 * and V, up to ATTN_Q at a time; masked positions take part in nothing (0 * inf is NaN), so ragged
 * ends run query by query. */
#ifndef KERNELS_BODIES_ATTENTION_H
#define KERNELS_BODIES_ATTENTION_H

#include "kernels/bodies/blocking.h"
#include "kernels/bodies/math.h"

enum { ATTN_GROUPS = KV_TILE / LANES };

/* scale: of the lanes, for KV_Q8. */
V_INLINE f32x16 kv_load(KvType type, const void *p, size_t i, f32x16 scale)
{
    switch (type) {
    case KV_F32:
        return v_load((const float *)p + i);
    case KV_F16:
        return v_load_f16((const uint16_t *)p + i);
    default:
        return v_mul(v_load_i8((const int8_t *)p + i), scale);
    }
}

/* Vectors of 16 elements in a line of the processor's cache: one in so many needs a fetch. */
#define LINE_VECTORS(type) ((type) == KV_F32 ? 1 : (type) == KV_F16 ? 2 : 4)

/* What is still to be fetched ahead: V beside the scores, K of the next tile beside exponentials
 * and values. So memory is asked in the order of addresses and never idle (decode waits for nothing
 * else), and what was fetched is still in the first cache when its turn comes: a whole f32 tile
 * ahead it would not be. */
typedef struct Fetch { const char *at, *end; } Fetch;

V_INLINE void fetch(Fetch *f, int lines)
{
    if (f->at >= f->end)
        return;
    UNROLL for (int i = 0; i < lines; i++)
        __builtin_prefetch(f->at + i * 64);
    f->at += lines * 64;
}

/* As many lines as n vectors take, the step-th n vectors of a loop. */
V_INLINE void fetch_step(Fetch *f, KvType type, int n, size_t step)
{
    if (n >= LINE_VECTORS(type))
        fetch(f, n / LINE_VECTORS(type));
    else if (step % (size_t)(LINE_VECTORS(type) / n) == 0)
        fetch(f, 1);
}

/* s[q][t] = scale * (q . k[t]), soft-capped, for the positions of n_g groups from g0 on. */
V_INLINE void scores(const AttnTile *a, KvType type, const AttnQuery *q, Fetch *next,
                     float (*s)[KV_TILE], int g0, int n_g, int n_q)
{
    size_t head_dim = (size_t)a->head_dim;
    f32x16 c[ATTN_GROUPS][ATTN_Q], scale[ATTN_GROUPS];
    UNROLL for (int g = 0; g < n_g; g++)
        scale[g] = type == KV_Q8 ? v_load(a->k_scale + (g0 + g) * LANES) : v_zero();
    UNROLL for (int g = 0; g < n_g; g++)
        UNROLL for (int i = 0; i < n_q; i++)
            c[g][i] = v_zero();
    for (size_t d = 0; d < head_dim; d++) {
        f32x16 k[ATTN_GROUPS];
        UNROLL for (int g = 0; g < n_g; g++)
            k[g] = kv_load(type, a->k, ((size_t)(g0 + g) * head_dim + d) * LANES, scale[g]);
        fetch_step(next, type, n_g, d);
        UNROLL for (int i = 0; i < n_q; i++) {
            f32x16 qd = v_set(q[i].q[d]);
            UNROLL for (int g = 0; g < n_g; g++)
                c[g][i] = v_fma(qd, k[g], c[g][i]);
        }
    }
    UNROLL for (int i = 0; i < n_q; i++)
        UNROLL for (int g = 0; g < n_g; g++)
            v_store(&s[i][(g0 + g) * LANES], v_mul(c[g][i], v_set(a->scale)));
}

/* Scores to p = exp(s - m), in place; m and l to the partial state. */
V_INLINE void probabilities(const AttnTile *a, const AttnQuery *q, float *s, Fetch *next)
{
    int    g0 = q->first / LANES, g1 = (q->end + LANES - 1) / LANES;
    f32x16 top = v_set(-INFINITY), sum = v_zero(), cap = v_set(a->soft_cap);
    for (int g = g0; g < g1; g++) {
        f32x16 v = v_load(s + g * LANES);
        if (a->soft_cap > 0.0f) {
            v = v_mul(cap, v_tanh(v_div(v, cap)));
            v_store(s + g * LANES, v);
        }
        top = v_max(
            v_select(v_range(q->first - g * LANES, q->end - g * LANES), v, v_set(-INFINITY)), top);
    }
    float m = v_fold_max(top);
    for (int g = g0; g < g1; g++) {
        fetch(next, FETCH_LINES / 24);
        f32x16 p = v_exp(v_sub(v_load(s + g * LANES), v_set(m)));
        v_store(s + g * LANES, p);
        sum = v_add(sum, v_select(v_range(q->first - g * LANES, q->end - g * LANES), p, v_zero()));
    }
    q->part[0] = m;
    q->part[1] = v_fold_sum(sum);
}

/* o[d] = fmaf(p[t], v[t][d], o[d]) for t ascending in first .. end; n_d vectors of dimensions from
 * d0 on, n_q queries. */
V_INLINE void values(const AttnTile *a, KvType type, const AttnQuery *q, Fetch *next,
                     float (*p)[KV_TILE], int first, int end, int d0, int n_d, int n_q)
{
    size_t stride = ((size_t)a->head_dim + LANES - 1) / LANES * LANES;
    f32x16 o[ATTN_GROUPS][ATTN_Q];
    UNROLL for (int i = 0; i < n_q; i++)
        UNROLL for (int d = 0; d < n_d; d++)
            o[d][i] = v_load(q[i].part + 16 + (d0 + d) * LANES);
    for (int t = first; t < end; t++) {
        f32x16 v[ATTN_GROUPS], scale = type == KV_Q8 ? v_set(a->v_scale[t]) : v_zero();
        UNROLL for (int d = 0; d < n_d; d++)
            v[d] = kv_load(type, a->v, (size_t)t * stride + (size_t)(d0 + d) * LANES, scale);
        fetch_step(next, type, n_d, (size_t)t);
        UNROLL for (int i = 0; i < n_q; i++) {
            f32x16 pt = v_set(p[i][t]);
            UNROLL for (int d = 0; d < n_d; d++)
                o[d][i] = v_fma(pt, v[d], o[d][i]);
        }
    }
    UNROLL for (int i = 0; i < n_q; i++)
        UNROLL for (int d = 0; d < n_d; d++)
            v_store(q[i].part + 16 + (d0 + d) * LANES, o[d][i]);
}

/* All dimensions: as many vectors at a time as the registers hold beside n_q queries. */
V_INLINE void values_all(const AttnTile *a, KvType type, const AttnQuery *q, Fetch *next,
                         float (*p)[KV_TILE], int first, int end, int n_q)
{
    int d = 0, n = (a->head_dim + LANES - 1) / LANES;
    for (; d + WIDTH(n_q) <= n; d += WIDTH(n_q))
        values(a, type, q, next, p, first, end, d, WIDTH(n_q), n_q);
    for (; d < n; d++)
        values(a, type, q, next, p, first, end, d, 1, n_q);
}

/* The ragged ends, one query at a time. Functions of their own: they are rare, and inlined they
 * would fill the cache of instructions. They fetch nothing ahead. */
static __attribute__((noinline)) void values_f32_one(const AttnTile *a, const AttnQuery *q,
                                                     float (*p)[KV_TILE], int first, int end)
{
    values_all(a, KV_F32, q, &(Fetch){ NULL, NULL }, p, first, end, 1);
}
static __attribute__((noinline)) void values_f16_one(const AttnTile *a, const AttnQuery *q,
                                                     float (*p)[KV_TILE], int first, int end)
{
    values_all(a, KV_F16, q, &(Fetch){ NULL, NULL }, p, first, end, 1);
}
static __attribute__((noinline)) void values_q8_one(const AttnTile *a, const AttnQuery *q,
                                                    float (*p)[KV_TILE], int first, int end)
{
    values_all(a, KV_Q8, q, &(Fetch){ NULL, NULL }, p, first, end, 1);
}

V_INLINE void values_one(const AttnTile *a, KvType type, const AttnQuery *q, float (*p)[KV_TILE],
                         int first, int end)
{
    if (first < end) {
        if (type == KV_F32)
            values_f32_one(a, q, p, first, end);
        else if (type == KV_F16)
            values_f16_one(a, q, p, first, end);
        else
            values_q8_one(a, q, p, first, end);
    }
}

/* K, of head_dim rounded up to a line, or V. */
V_INLINE Fetch fetch_of(const AttnTile *a, KvType type, const void *data)
{
    size_t bytes = (size_t)KV_TILE * (((size_t)a->head_dim + LANES - 1) / LANES * LANES)
        * (size_t)(4 / LINE_VECTORS(type));
    return (Fetch){ data, data ? (const char *)data + bytes : NULL };
}

V_INLINE void fetch_scales(const AttnTile *a, KvType type)
{
    for (int i = 0; type == KV_Q8 && i < KV_TILE; i += LANES) {
        __builtin_prefetch(a->v_scale + i);
        if (a->next_scale)
            __builtin_prefetch(a->next_scale + i);
    }
}

/* n_q queries together; n_q is a constant where this is inlined. The first of a tile's blocks
 * fetches ahead. */
V_INLINE void attn_queries(const AttnTile *a, KvType type, const AttnQuery *q, int n_q)
{
    _Alignas(64) float s[ATTN_Q][KV_TILE];
    Fetch own_v = fetch_of(a, type, q == a->q ? a->v : NULL),
          next_k = fetch_of(a, type, q == a->q ? a->next_k : NULL);
    if (q == a->q)
        fetch_scales(a, type);
    /* union and intersection of the visible positions */
    int lo = KV_TILE, hi = 0, common = 0, common_end = KV_TILE;
    for (int i = 0; i < n_q; i++) {
        lo         = min_int(lo, q[i].first);
        hi         = max_int(hi, q[i].end);
        common     = max_int(common, q[i].first);
        common_end = min_int(common_end, q[i].end);
        memset(q[i].part + 16, 0, (attn_state_floats(a->head_dim) - 16) * sizeof(float));
    }
    int g = lo / LANES, g1 = (hi + LANES - 1) / LANES;
    for (; g + WIDTH(n_q) <= g1; g += WIDTH(n_q))
        scores(a, type, q, &own_v, s, g, WIDTH(n_q), n_q);
    for (; g < g1; g++)
        scores(a, type, q, &own_v, s, g, 1, n_q);
    for (int i = 0; i < n_q; i++) {
        fetch(&next_k, FETCH_LINES / 12); /* between the steps of one query too: the queue of
                                           * requests is short */
        probabilities(a, q + i, s[i], &next_k);
    }
    common_end = max_int(common, common_end);
    for (int i = 0; i < n_q; i++)
        values_one(a, type, q + i, s + i, q[i].first, min_int(common, q[i].end));
    if (common < common_end)
        values_all(a, type, q, &next_k, s, common, common_end, n_q);
    for (int i = 0; i < n_q; i++)
        values_one(a, type, q + i, s + i, max_int(common_end, q[i].first), q[i].end);
}

/* Queries in even shares: seven are four and three, not six and one. */
V_INLINE void attn_tile(const AttnTile *a, KvType type)
{
    int most = type == KV_F32 ? ATTN_Q : ATTN_Q_NARROW, blocks = (a->n_q + most - 1) / most;
    for (int b = 0; b < blocks; b++) {
        int              i = (int)((int64_t)a->n_q * b / blocks),
                         n = (int)((int64_t)a->n_q * (b + 1) / blocks) - i;
        const AttnQuery *q = a->q + i;
        WITH_CONSTANT(n, ATTN_Q, if (N <= most) attn_queries(a, type, q, N))
    }
}

static __attribute__((noinline)) void attn_tile_f32(const AttnTile *a) { attn_tile(a, KV_F32); }

/* The same numbers as f32, for queries that would each convert them. */
V_INLINE void attn_tile_widened(const AttnTile *a, KvType type)
{
    AttnTile wide   = *a;
    size_t   d_head = (size_t)a->head_dim, stride = (d_head + LANES - 1) / LANES * LANES;
    float   *k = a->wide, *v = k + KV_TILE * stride;
    for (size_t g = 0; g < ATTN_GROUPS; g++) {
        f32x16 scale = type == KV_Q8 ? v_load(a->k_scale + g * LANES) : v_zero();
        for (size_t i = g * d_head * LANES; i < (g + 1) * d_head * LANES; i += LANES)
            v_store(k + i, kv_load(type, a->k, i, scale));
    }
    for (size_t t = 0; t < KV_TILE; t++) {
        f32x16 scale = type == KV_Q8 ? v_set(a->v_scale[t]) : v_zero();
        for (size_t i = t * stride; i < (t + 1) * stride; i += LANES)
            v_store(v + i, kv_load(type, a->v, i, scale));
    }
    wide.k = k;
    wide.v = v;
    attn_tile_f32(&wide);
}

/* f16 and q8: few queries convert K and V on the way into the registers, many share one
 * conversion. */
V_INLINE void attn_tile_narrow(const AttnTile *a, KvType type)
{
    if (a->n_q >= ATTN_WIDEN && a->wide)
        attn_tile_widened(a, type);
    else
        attn_tile(a, type);
}

static void attn_tile_f16(const AttnTile *a) { attn_tile_narrow(a, KV_F16); }
static void attn_tile_q8(const AttnTile *a) { attn_tile_narrow(a, KV_Q8); }

/* Two parts of one softmax become one: what was summed under the smaller maximum is scaled down to
 * the larger. Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax". */
static void attn_merge(float *state, const float *part, int head_dim)
{
    float  m = state[0], mt = part[0], top = mt > m ? mt : m;
    f32x16 a = v_exp(v_set(m - top)), b = v_exp(v_set(mt - top));
    state[0] = top;
    state[1] = v_first(v_fma(v_set(state[1]), a, v_mul(v_set(part[1]), b)));
    for (size_t d = 16; d < attn_state_floats(head_dim); d += LANES)
        v_store(state + d, v_fma(v_load(state + d), a, v_mul(v_load(part + d), b)));
}

/* The division by the sum of probabilities comes last, once for each dimension. */
static void attn_end(float *y, const float *state, int head_dim)
{
    f32x16 r = v_set(1.0f / state[1]);
    for (int d = 0; d < head_dim; d += LANES)
        store_upto(y + d, v_mul(v_load(state + 16 + d), r), min_int(LANES, head_dim - d));
}

#endif
