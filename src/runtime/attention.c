/* runtime/attention.c: attention over the KV cache, tile by tile: causal, with a sliding window, or
 * bidirectional. The L x L matrix of scores never exists.
 *
 * A unit of work is a few consecutive tokens of one sequence under one KV head. Their queries
 * (all heads of the group) walk the tiles that they can see in ascending order, and share each
 * tile's K and V while it is in the cache. If the units do not divide evenly (one KV head, two
 * threads), the threads split a unit by its tiles. The tiles alone define the sum
 * (docs/numerics.md), so this never changes the bits. Source of the running softmax: Milakov and
 * Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, FlashAttention. */
#include "runtime/ops.h"

#include <string.h>

#include "base/memory.h"

int attention_queries(const Config *c)
{
    int group = c->heads / c->kv_heads;
    return group > ATTN_MAX_Q ? group : ATTN_MAX_Q / group * group;
}

/* Floats for K in the kernel's layout, if the cache has V alone. */
static size_t wide_floats(const Config *c)
{
    return config_kv_vectors(c) == 1 ? attn_wide_floats(c->head_dim) : 0;
}

/* Scratch for a unit: a state, a partial state, an aligned query and an aligned result for each
 * of its queries, and the list of queries for the kernel. */
size_t attention_scratch_floats(const Config *c)
{
    size_t per_query =
        2 * attn_state_floats(c->head_dim) + 2 * round_up((size_t)c->head_dim, LANES);
    return (size_t)attention_queries(c) * per_query
           + round_up(((size_t)attention_queries(c) * sizeof(AttnQuery) + sizeof(float) - 1)
                          / sizeof(float),
                      LANES)
           + wide_floats(c);
}

enum { FETCH_TILES = 4 };            /* how many tiles ahead the tile table's entry is fetched */

typedef struct AttentionUnit {
    int    seq, kv_head;
    int    first_head;           /* of the `group` query heads that this rank computes under it */
    int    next_head, first_tile; /* next unit of this thread with the same tokens; 0: none */
    int    first, n_tok;         /* tokens first .. first + n_tok - 1 of the call */
    int    pos;                  /* of the first token */
    int    length;               /* of the sequence, with this call */
    int    group, d_head, window;
    bool   chunked, bidirectional;
    size_t d_pad, state_floats;
    float *state, *part, *query, *result, *wide; /* wide NULL: in Run.scratch, if that is free */
    AttnQuery *ask;              /* the queries that see the current tile */
} AttentionUnit;

static void lay_out(AttentionUnit *u, const Run *r, int n_q)
{
    u->d_pad        = round_up((size_t)u->d_head, LANES);
    u->state_floats = attn_state_floats(u->d_head);
    u->state        = r->attn_scratch;
    u->part         = u->state + (size_t)n_q * u->state_floats;
    u->query        = u->part + (size_t)n_q * u->state_floats;
    u->result       = u->query + (size_t)n_q * u->d_pad;
    u->ask          = (AttnQuery *)(void *)(u->result + (size_t)n_q * u->d_pad);
    size_t wide     = wide_floats(&r->model->cfg);
    u->wide = wide ? r->attn_scratch + attention_scratch_floats(&r->model->cfg) - wide : NULL;
}

/* Query i's head in its token's row. */
static float *head_of(const AttentionUnit *u, const Act *a, int i)
{
    return act_row(a, u->first + i / u->group) + (u->first_head + i % u->group) * u->d_head;
}

static int end_of(const AttentionUnit *u, int pos)
{
    return window_end(u->window, u->bidirectional, pos, u->length);
}

typedef struct TileView { int first, end; bool starts; } TileView;

/* What a query at pos sees of tile number `tile`: positions [first, end) of it (none if first >=
 * end). starts: this is the first tile that the query sees. */
static TileView view_of(const AttentionUnit *u, int pos, int tile)
{
    int oldest = window_oldest(u->window, u->chunked, pos);
    int at = tile * KV_TILE, end = end_of(u, pos) - at;
    return (TileView){.first  = oldest > at ? oldest - at : 0,
                      .end    = end < KV_TILE ? end : KV_TILE,
                      .starts = oldest / KV_TILE == tile};
}

typedef struct NextTile { int kv_head, tile; } NextTile;

/* The tile that this thread reads after `tile`, so that the kernel can fetch it early. end: one
 * past the last tile that the thread takes of this unit. Result tile < 0: not known. */
static NextTile next_place(const Run *r, const AttentionUnit *u, int l, int tile, int end)
{
    const KvTiles *t = &r->kv_cache->seq[u->seq].layer[l];
    if (tile + FETCH_TILES < end)
        __builtin_prefetch(t->tile[tile + FETCH_TILES]); /* else the lookup waits */
    if (tile + 1 < end)
        return (NextTile){u->kv_head, tile + 1};
    return u->next_head ? (NextTile){u->next_head, u->first_tile} : (NextTile){0, -1};
}

/* Computes one tile for the queries of the unit that see it. Query i's partial state goes to
 * part + i * state_floats, or to `first` if this is the first tile that it sees. next: fetched
 * meanwhile. wide: room for the tile as f32, or NULL. */
static void compute_tile(const Run *r, const AttentionUnit *u, int l, int tile, NextTile next,
                         float *wide, float *first, float *part)
{
    const KvCache *kv    = r->kv_cache;
    int            n_ask = 0;
    for (int t = 0; t < u->n_tok; t++) {
        TileView v  = view_of(u, u->pos + t, tile);
        float   *to = v.starts ? first : part;
        for (int i = t * u->group; v.first < v.end && i < (t + 1) * u->group; i++)
            u->ask[n_ask++] = (AttnQuery){.q     = u->query + (size_t)i * u->d_pad,
                                          .first = v.first,
                                          .end   = v.end,
                                          .part  = to + (size_t)i * u->state_floats};
    }
    r->kernels->attn_tile[kv->shape.type](&(AttnTile){
        .k = kv->shape.v_is_k ? NULL : kv_cache_k(kv, u->seq, l, u->kv_head, tile),
        .v = kv_cache_v(kv, u->seq, l, u->kv_head, tile),
        .k_scale = kv_cache_k_scales(kv, u->seq, l, u->kv_head, tile),
        .v_scale = kv_cache_v_scales(kv, u->seq, l, u->kv_head, tile),
        .next_k = next.tile < 0 ? NULL : kv_cache_k(kv, u->seq, l, next.kv_head, next.tile),
        .next_scale = next.tile < 0 ? NULL : kv_cache_k_scales(kv, u->seq, l, next.kv_head,
            next.tile),
        .wide = u->wide ? u->wide : wide,
        .head_dim = u->d_head,
        .scale = r->attn_scale,
        .soft_cap = r->attn_softcap,
        .n_q = n_ask,
        .q = u->ask,
    });
}

/* The first tile of a query gives its state; later tiles are merged into it, in ascending order. */
static void attend_tile(const Run *r, const AttentionUnit *u, int l, int tile, int end)
{
    float *wide = attn_wide_floats(u->d_head) * sizeof(float) <= KERNEL_SCRATCH ? r->scratch : NULL;
    compute_tile(r, u, l, tile, next_place(r, u, l, tile, end), wide, u->state, u->part);
    for (int t = 0; t < u->n_tok; t++) {
        TileView v = view_of(u, u->pos + t, tile);
        for (int i = t * u->group; v.first < v.end && !v.starts && i < (t + 1) * u->group; i++)
            r->kernels->attn_merge(u->state + (size_t)i * u->state_floats,
                                   u->part + (size_t)i * u->state_floats, u->d_head);
    }
}

/* Divides the state by its sum and copies the result to its head in y. A sink is a last tile of
 * one position, whose value is 0. */
static void finish(const Run *r, const AttentionUnit *u, const Act *y, int l, int i)
{
    float       *result = u->result + (size_t)i * u->d_pad,
                *state = u->state + (size_t)i * u->state_floats;
    const float *sinks = r->layer[l].attn_sinks;
    if (sinks) {
        memset(u->part, 0, u->state_floats * sizeof *u->part);
        u->part[0] = sinks[u->first_head + i % u->group];
        u->part[1] = 1.0f;
        r->kernels->attn_merge(state, u->part, u->d_head);
    }
    r->kernels->attn_end(result, state, u->d_head);
    memcpy(head_of(u, y, i), result, (size_t)u->d_head * sizeof(float));
}

/* Sets *first and *end: the unit sees tiles first .. end - 1. Copies its queries, because heads
 * lie unaligned in a row if head_dim is not a multiple of 16. */
static void begin(const Run *r, AttentionUnit *u, int *first, int *end)
{
    int n_q = u->n_tok * u->group,
        oldest = window_oldest(u->window, u->chunked, u->pos);
    lay_out(u, r, n_q);
    for (int i = 0; i < n_q; i++)
        memcpy(u->query + (size_t)i * u->d_pad, head_of(u, &r->q, i),
               (size_t)u->d_head * sizeof(float));
    *first = u->first_tile = oldest / KV_TILE;
    *end   = (end_of(u, u->pos + u->n_tok - 1) - 1) / KV_TILE + 1;
}

/* One unit, by this thread alone. */
static void attend(const Run *r, AttentionUnit *u, const Act *y, int l)
{
    int first, end;
    begin(r, u, &first, &end);
    for (int tile = first; tile < end; tile++)
        attend_tile(r, u, l, tile, end);
    for (int i = 0; i < u->n_tok * u->group; i++)
        finish(r, u, y, l, i);
}

/* How many tiles' partial states for all of the unit's queries fit into a thread's scratch. */
static int tiles_in_scratch(const AttentionUnit *u)
{
    return (int)(KERNEL_SCRATCH
                 / ((size_t)(u->n_tok * u->group) * u->state_floats * sizeof(float)));
}

/* Merges tiles first .. end - 1 of a strip, ascending, into the states of the queries that this
 * thread owns. share: the number of tiles of the strip that each thread computed. */
static void merge_strip(const Run *r, const AttentionUnit *u, int first, int end, int share)
{
    int n_q = u->n_tok * u->group;
    for (int i = r->team.thread; i < n_q; i += r->team.n_threads)
        for (int tile = first; tile < end; tile++) {
            TileView v = view_of(u, u->pos + i / u->group, tile);
            if (v.first >= v.end)
                continue;
            int          thread = (tile - first) / share, slot = (tile - first) % share * n_q + i;
            const char  *of     = (const char *)r->scratch
                     + (ptrdiff_t)(thread - r->team.thread) * (ptrdiff_t)r->thread_bytes;
            const float *part   = (const float *)(const void *)of + (size_t)slot * u->state_floats;
            float       *state  = u->state + (size_t)i * u->state_floats;
            if (v.starts)
                memcpy(state, part, u->state_floats * sizeof *state);
            else
                r->kernels->attn_merge(state, part, u->d_head);
        }
}

/* One unit, by all threads together. Each thread computes a run of its tiles and keeps their
 * partial states one by one: merging is not associative, so a merged run would change the bits.
 * Then each thread merges all tiles in order for the queries that it owns. A strip is what fits
 * into the scratch of all threads, so memory does not grow with the length. */
static void attend_together(const Run *r, AttentionUnit *u, const Act *y, int l)
{
    int first, end, threads = r->team.n_threads;
    begin(r, u, &first, &end);
    u->next_head = 0;
    for (int n_q = u->n_tok * u->group, at = first, strip; at < end; at += strip) {
        int most = tiles_in_scratch(u), share = (end - at + threads - 1) / threads;
        share    = share < most ? share : most;
        strip    = end - at < share * threads ? end - at : share * threads;
        int mine = at + r->team.thread * share,
            my_end = mine + share < at + strip ? mine + share : at + strip;
        for (int tile = mine; tile < my_end; tile++) {
            float *part = (float *)r->scratch + (size_t)((tile - mine) * n_q) * u->state_floats;
            compute_tile(r, u, l, tile, next_place(r, u, l, tile, my_end), NULL, part, part);
        }
        threads_barrier(r->team);
        merge_strip(r, u, at, at + strip, share);
        threads_barrier(r->team);
    }
    for (int i = r->team.thread; i < u->n_tok * u->group; i += threads)
        finish(r, u, y, l, i);
}

/* Is unit number `turn` of n left over after each thread got equally many, and long enough to
 * split? With many units the last ones matter little. */
static bool worth_cutting(const Run *r, const AttentionUnit *u, int turn, int n)
{
    int threads = r->team.n_threads, seen = end_of(u, u->pos + u->n_tok - 1);
    int most = u->window << u->bidirectional;
    seen = most && most < seen ? most : seen;
    return turn >= n / threads * threads && n < 8 * threads && seen >= 2 * KV_TILE * threads
        && tiles_in_scratch(u) > 0;
}

static int count_units(const Run *r, int per_unit)
{
    int n = 0;
    for (int s = 0; s < r->n_spans; s++)
        n += (r->span[s].n_tok + per_unit - 1) / per_unit * (r->kv_heads.end - r->kv_heads.first);
    return n;
}

/* For the profile. Each visible position costs one product with K and one with V in every head. */
static void enter_attention(const Run *r, int window)
{
    const Config *c = &r->model->cfg;
    double        seen = 0, bytes = 0;
    if (!r->profile)
        return;
    for (int s = 0; s < r->n_spans; s++) { /* the span's tokens share tiles */
        int n = r->span[s].pos + r->span[s].n_tok, most = window + r->span[s].n_tok - 1;
        for (int pos = r->span[s].pos; pos < n; pos++)
            seen += window_end(window, c->bidirectional, pos, n)
                - window_oldest(window, false, pos);
        bytes += (double)r->kv_cache->tile_bytes / KV_TILE * (window && most < n ? most : n);
    }
    enter(r, "attention", bytes, 4.0 * c->heads * c->head_dim * seen);
}

/* Units are assigned round-robin, because later ones cost more under a causal mask. Those left over
 * are split between all threads. */
void attention(Run *r, Act *y, int l)
{
    const Config *c = &r->model->cfg;
    int group = c->heads / c->kv_heads, per_unit = attention_queries(c) / group, turn = 0,
        n = count_units(r, per_unit);
    touch(r, reads_own(&r->q, ANYWHERE), touches(&r->cached, ANYWHERE, false),
          writes_own(r, y, ANYWHERE, RANK_HEADS));
    enter_attention(r, config_window(c, l));
    for (int s = 0; s < r->n_spans; s++) {
        const Span *span = &r->span[s];
        for (int t = 0; t < span->n_tok; t += per_unit)
            for (int h = r->kv_heads.first; h < r->kv_heads.end; h++, turn++) {
                Range q = { h * group > r->heads.first ? h * group : r->heads.first,
                            (h + 1) * group < r->heads.end ? (h + 1) * group : r->heads.end };
                AttentionUnit u = {
                    .seq = span->seq,
                    .kv_head = h,
                    .first_head = q.first,
                    .next_head = h + r->team.n_threads < r->kv_heads.end ? h + r->team.n_threads
                                                                         : 0,
                    .first = span->first + t,
                    .n_tok = span->n_tok - t < per_unit ? span->n_tok - t : per_unit,
                    .pos = span->pos + t,
                    .length = span->pos + span->n_tok,
                    .group = q.end - q.first,
                    .d_head = c->head_dim,
                    .window = config_window(c, l),
                    .chunked = c->window_chunked,
                    .bidirectional = c->bidirectional,
                    .state_floats = attn_state_floats(c->head_dim)
                };
                if (u.group <= 0)
                    continue;
                if (worth_cutting(r, &u, turn, n))
                    attend_together(r, &u, y, l);
                else if (turn % r->team.n_threads == r->team.thread)
                    attend(r, &u, y, l);
            }
    }
    attention_probs(r, l);
}
