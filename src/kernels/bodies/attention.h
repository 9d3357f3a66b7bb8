/* kernels/bodies/attention.h: queries against one tile of 64 positions, and the merge of tiles.
 * Scores: lanes are positions. Values: lanes are dimensions. Queries of a call share the loads of K
 * and V, up to ATTN_Q at a time; masked positions enter no sum (0 * inf is NaN), so ragged ends run
 * query by query. */
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

/* Vectors of 16 elements in a cache line: one in so many needs a fetch. */
#define LINE_VECTORS(type) ((type) == KV_F32 ? 1 : (type) == KV_F16 ? 2 : 4)

/* What is left to prefetch: V during the scores, K of the next tile during exponentials and values.
 * So memory is read in the order of addresses and never idle (decode waits for nothing else), and
 * the data are still in L1 when they are used: a whole f32 tile ahead they would not be. */
typedef struct Fetch { const char *at, *end; } Fetch;
typedef struct Ahead { Fetch v, k; } Ahead;

V_INLINE void fetch(Fetch *f, int lines)
{
    if (f->at >= f->end)
        return;
    UNROLL for (int i = 0; i < lines; i++)
        __builtin_prefetch(f->at + i * 64);
    f->at += lines * 64;
}

/* Fetches the cache lines of n vectors, the step-th n vectors of a loop. */
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

/* exp(s - m), with s <= m: it can underflow to +0, but not overflow. */
V_INLINE f32x16 probability(f32x16 s, f32x16 m) { return v_exp_low(v_sub(s, m)); }

/* Turns the scores of a query that sees positions first .. end - 1 into p = exp(s - m), in place;
 * writes m and l to the partial state. */
static __attribute__((noinline)) void probabilities_one(const AttnTile *a, const AttnQuery *q,
                                                        float *s)
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
        f32x16 p = probability(v_load(s + g * LANES), v_set(m));
        v_store(s + g * LANES, p);
        sum = v_add(sum, v_select(v_range(q->first - g * LANES, q->end - g * LANES), p, v_zero()));
    }
    q->part[0] = m;
    q->part[1] = v_fold_sum(sum);
}

/* The same for n_q queries that see the whole tile, without a soft cap. All maxima come first: the
 * steps of one query depend on each other, those of several do not. */
V_INLINE void probabilities_whole(const AttnQuery *q, float (*s)[KV_TILE], Fetch *next, int n_q)
{
    Fetch ahead = *next;
    for (int i = 0; i < n_q; i++) {
        f32x16 top = v_load(s[i]);
        UNROLL for (int g = 1; g < ATTN_GROUPS; g++)
            top = v_max(v_load(s[i] + g * LANES), top);
        q[i].part[0] = v_fold_max(top);
        fetch(&ahead, FETCH_LINES / 12); /* between the steps too: the queue of requests is short */
    }
    for (int i = 0; i < n_q; i++) {
        f32x16 m = v_set(q[i].part[0]), sum = v_zero();
        UNROLL for (int g = 0; g < ATTN_GROUPS; g++) {
            fetch(&ahead, FETCH_LINES / 24);
            f32x16 p = probability(v_load(s[i] + g * LANES), m);
            v_store(s[i] + g * LANES, p);
            sum = v_add(sum, p);
        }
        q[i].part[1] = v_fold_sum(sum);
    }
    *next = ahead;
}

/* o[d] = fmaf(p[t], v[t][d], o[d]) for t ascending in first .. end; n_d vectors of dimensions from
 * d0 on, n_q queries. fresh: o starts from +0, else from the partial state. */
V_INLINE void values(const AttnTile *a, KvType type, const AttnQuery *q, Fetch *next,
                     float (*p)[KV_TILE], int first, int end, bool fresh, int d0, int n_d, int n_q)
{
    size_t stride = ((size_t)a->head_dim + LANES - 1) / LANES * LANES;
    f32x16 o[ATTN_GROUPS][ATTN_Q];
    UNROLL for (int i = 0; i < n_q; i++)
        UNROLL for (int d = 0; d < n_d; d++)
            o[d][i] = fresh ? v_zero() : v_load(q[i].part + 16 + (d0 + d) * LANES);
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

/* All dimensions: as many vectors at a time as the registers hold besides n_q queries. */
V_INLINE void values_all(const AttnTile *a, KvType type, const AttnQuery *q, Fetch *next,
                         float (*p)[KV_TILE], int first, int end, bool fresh, int n_q)
{
    int d = 0, n = (a->head_dim + LANES - 1) / LANES;
    for (; d + WIDTH(n_q) <= n; d += WIDTH(n_q))
        values(a, type, q, next, p, first, end, fresh, d, WIDTH(n_q), n_q);
    for (; d < n; d++)
        values(a, type, q, next, p, first, end, fresh, d, 1, n_q);
}

/* The ragged ends, one query at a time. Separate functions: they are rare, and inlined they would
 * fill the instruction cache. They prefetch nothing. */
static __attribute__((noinline)) void values_f32_one(const AttnTile *a, const AttnQuery *q,
                                                     float (*p)[KV_TILE], int first, int end)
{
    values_all(a, KV_F32, q, &(Fetch){ NULL, NULL }, p, first, end, false, 1);
}
static __attribute__((noinline)) void values_f16_one(const AttnTile *a, const AttnQuery *q,
                                                     float (*p)[KV_TILE], int first, int end)
{
    values_all(a, KV_F16, q, &(Fetch){ NULL, NULL }, p, first, end, false, 1);
}
static __attribute__((noinline)) void values_q8_one(const AttnTile *a, const AttnQuery *q,
                                                    float (*p)[KV_TILE], int first, int end)
{
    values_all(a, KV_Q8, q, &(Fetch){ NULL, NULL }, p, first, end, false, 1);
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

/* Positions lo .. hi - 1 are seen by some of the queries, common .. common_end - 1 by all. */
typedef struct Seen { int lo, hi, common, common_end; } Seen;

static __attribute__((noinline)) Seen seen_by(const AttnQuery *q, int n_q)
{
    Seen s = { KV_TILE, 0, 0, KV_TILE };
    for (int i = 0; i < n_q; i++) {
        s.lo         = min_int(s.lo, q[i].first);
        s.hi         = max_int(s.hi, q[i].end);
        s.common     = max_int(s.common, q[i].first);
        s.common_end = min_int(s.common_end, q[i].end);
    }
    s.common_end = max_int(s.common, s.common_end);
    return s;
}

/* The probabilities of n_q queries, which is a constant where this is inlined. */
V_INLINE void weigh(const AttnTile *a, KvType type, const AttnQuery *q, Ahead *ahead,
                    float (*s)[KV_TILE], int n_q)
{
    Seen seen = seen_by(q, n_q);
    int  g = seen.lo / LANES, g1 = (seen.hi + LANES - 1) / LANES;
    for (; g + WIDTH(n_q) <= g1; g += WIDTH(n_q))
        scores(a, type, q, &ahead->v, s, g, WIDTH(n_q), n_q);
    for (; g < g1; g++)
        scores(a, type, q, &ahead->v, s, g, 1, n_q);
    if (seen.common_end - seen.common == KV_TILE && !(a->soft_cap > 0.0f))
        probabilities_whole(q, s, &ahead->k, n_q);
    else
        for (int i = 0; i < n_q; i++)
            probabilities_one(a, q + i, s[i]);
}

/* Their sums of values. Positions that all of them see are added together. */
V_INLINE void add_values(const AttnTile *a, KvType type, const AttnQuery *q, Ahead *ahead,
                         float (*p)[KV_TILE], int n_q)
{
    Seen seen  = seen_by(q, n_q);
    bool fresh = seen.lo == seen.common && seen.common < seen.common_end;
    for (int i = 0; i < n_q && !fresh; i++) {
        memset(q[i].part + 16, 0, (attn_state_floats(a->head_dim) - 16) * sizeof(float));
        values_one(a, type, q + i, p + i, q[i].first, min_int(seen.common, q[i].end));
    }
    if (seen.common < seen.common_end)
        values_all(a, type, q, &ahead->k, p, seen.common, seen.common_end, fresh, n_q);
    for (int i = 0; i < n_q; i++)
        values_one(a, type, q + i, p + i, max_int(seen.common_end, q[i].first), q[i].end);
}

/* Queries first .. first + n - 1 are computed together, in even shares: seven are four and three,
 * not six and one. */
typedef struct Share { int first, n; } Share;

V_INLINE int shares(const AttnTile *a, KvType type)
{
    int most = type == KV_F32 ? ATTN_Q : ATTN_Q_NARROW;
    return (a->n_q + most - 1) / most;
}

V_INLINE Share share_of(const AttnTile *a, KvType type, int i)
{
    int first = a->n_q * i / shares(a, type);
    return (Share){ first, a->n_q * (i + 1) / shares(a, type) - first };
}

/* The two halves of a tile for all queries: all use K before the first uses V, because K and V of
 * f32 do not fit into L1 together. The last of the queries prefetch. */
V_INLINE void weigh_all(const AttnTile *a, KvType type, Ahead *ahead, float (*s)[KV_TILE])
{
    Ahead none = { { NULL, NULL }, { NULL, NULL } };
    for (int i = 0, n = shares(a, type); i < n; i++) {
        Share  of = share_of(a, type, i);
        Ahead *to = i == n - 1 ? ahead : &none;
        WITH_CONSTANT(of.n, type == KV_F32 ? ATTN_Q : ATTN_Q_NARROW,
                      weigh(a, type, a->q + of.first, to, s + of.first, N))
    }
}

V_INLINE void add_all_values(const AttnTile *a, KvType type, Ahead *ahead, float (*p)[KV_TILE])
{
    Ahead none = { { NULL, NULL }, { NULL, NULL } };
    for (int i = 0, n = shares(a, type); i < n; i++) {
        Share  of = share_of(a, type, i);
        Ahead *to = i == n - 1 ? ahead : &none;
        WITH_CONSTANT(of.n, type == KV_F32 ? ATTN_Q : ATTN_Q_NARROW,
                      add_values(a, type, a->q + of.first, to, p + of.first, N))
    }
}

/* One function for f32 and for what was widened to it. */
static __attribute__((noinline)) void weigh_f32(const AttnTile *a, Ahead *ahead,
                                                float (*s)[KV_TILE])
{
    weigh_all(a, KV_F32, ahead, s);
}
static __attribute__((noinline)) void add_values_f32(const AttnTile *a, Ahead *ahead,
                                                     float (*p)[KV_TILE])
{
    add_all_values(a, KV_F32, ahead, p);
}

/* The same numbers as f32, for queries that would each convert them. */
V_INLINE void widen_k(const AttnTile *a, KvType type, float *to)
{
    size_t d_head = (size_t)a->head_dim;
    for (size_t g = 0; g < ATTN_GROUPS; g++) {
        f32x16 scale = type == KV_Q8 ? v_load(a->k_scale + g * LANES) : v_zero();
        for (size_t i = g * d_head * LANES; i < (g + 1) * d_head * LANES; i += LANES)
            v_store(to + i, kv_load(type, a->k, i, scale));
    }
}
V_INLINE void widen_v(const AttnTile *a, KvType type, float *to)
{
    size_t stride = ((size_t)a->head_dim + LANES - 1) / LANES * LANES;
    for (size_t t = 0; t < KV_TILE; t++) {
        f32x16 scale = type == KV_Q8 ? v_set(a->v_scale[t]) : v_zero();
        for (size_t i = t * stride; i < (t + 1) * stride; i += LANES)
            v_store(to + i, kv_load(type, a->v, i, scale));
    }
}

/* K of 16 positions from g * 16 on, 16 dimensions from d on, from rows of V: a transpose that four
 * times interleaves each row with the eighth after it. */
V_INLINE void turn(const AttnTile *a, KvType type, size_t stride, size_t g, size_t d, float *to)
{
    f32x16 x[LANES], y[LANES];
    UNROLL for (size_t i = 0; i < LANES; i++) {
        size_t t = g * LANES + i;
        x[i] = kv_load(type, a->v, t * stride + d, type == KV_Q8 ? v_set(a->v_scale[t]) : v_zero());
    }
    UNROLL for (int round = 0; round < 2; round++) {
        UNROLL for (int i = 0; i < LANES / 2; i++)
            v_zip(x[i], x[i + LANES / 2], &y[2 * i], &y[2 * i + 1]);
        UNROLL for (int i = 0; i < LANES / 2; i++)
            v_zip(y[i], y[i + LANES / 2], &x[2 * i], &x[2 * i + 1]);
    }
    UNROLL for (size_t i = 0; i < LANES; i++)
        v_store(to + i * LANES, x[i]);
}
/* What a group's last dimensions write past it, the next group overwrites. */
V_INLINE void turn_v(const AttnTile *a, KvType type, float *to)
{
    size_t d_head = (size_t)a->head_dim, stride = (d_head + LANES - 1) / LANES * LANES;
    for (size_t g = 0; g < ATTN_GROUPS; g++)
        for (size_t d = 0; d < d_head; d += LANES)
            turn(a, type, stride, g, d, to + (g * d_head + d) * LANES);
}

/* One cache for K and V: the K of the scores is made from it for each tile, which costs as much as
 * two queries. */
V_INLINE void attn_tile_once(AttnTile *a, KvType type, Ahead *ahead, float (*s)[KV_TILE])
{
    turn_v(a, type, a->wide);
    a->k = a->wide;
    weigh_f32(a, ahead, s);
    if (type != KV_F32 && a->n_q < ATTN_WIDEN_V) {
        add_all_values(a, type, ahead, s);
        return;
    }
    if (type != KV_F32) {
        widen_v(a, type, a->wide);
        a->v = a->wide;
    }
    add_values_f32(a, ahead, s);
}

/* f16 and q8: few queries convert K and V as they load them, many share one conversion. */
V_INLINE void attn_tile(const AttnTile *all, KvType type)
{
    _Alignas(64) float s[ATTN_MAX_Q][KV_TILE];
    fetch_scales(all, type);
    for (int at = 0; at < all->n_q; at += ATTN_MAX_Q) {
        bool     last  = all->n_q - at <= ATTN_MAX_Q;
        AttnTile a     = *all;
        Ahead    ahead = { .v = fetch_of(all, type, all->k ? all->v : NULL),
                           .k = fetch_of(all, type, last ? all->next_k : NULL) };
        a.q += at;
        a.n_q = last ? all->n_q - at : ATTN_MAX_Q;
        if (!all->k) {
            attn_tile_once(&a, type, &ahead, s);
        } else if (type == KV_F32) {
            weigh_f32(&a, &ahead, s);
            add_values_f32(&a, &ahead, s);
        } else if (a.n_q >= ATTN_WIDEN && all->wide) {
            a.k = a.v = all->wide;
            widen_k(all, type, all->wide);
            weigh_f32(&a, &ahead, s);
            widen_v(all, type, all->wide);
            add_values_f32(&a, &ahead, s);
        } else {
            weigh_all(&a, type, &ahead, s);
            add_all_values(&a, type, &ahead, s);
        }
    }
}

static void attn_tile_f32(const AttnTile *a) { attn_tile(a, KV_F32); }
static void attn_tile_f16(const AttnTile *a) { attn_tile(a, KV_F16); }
static void attn_tile_q8(const AttnTile *a) { attn_tile(a, KV_Q8); }

/* Merges two parts of one softmax: the sums with the smaller maximum are scaled down to the larger.
 * Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax". */
static void attn_merge(float *state, const float *part, int head_dim)
{
    float  m = state[0], mt = part[0], top = mt > m ? mt : m;
    f32x16 e = v_exp_low(v_set((mt > m ? m : mt) - top)), one = v_set(1.0f + (top - top));
    f32x16 a = mt > m ? e : one, b = mt > m ? one : e;
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
