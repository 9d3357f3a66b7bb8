/* runtime/attention.c: causal (or windowed) attention over the KV cache, tile by tile, never an L x L matrix.
 *
 * A unit of work is a few consecutive tokens of one sequence under one KV head: their queries (all heads of the group)
 * walk the tiles they can see in ascending order and share each tile's K and V while it is in the cache. The sum is
 * defined by the tiles alone (docs/numerics.md), so the cut into units never shows. Source of the running merge: Milakov and
 * Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, FlashAttention. */
#include "runtime/run.h"

#include <string.h>

#include "base/checked.h"

int attention_queries(const Config *c)
{
    int group = c->heads / c->kv_heads;
    return group > ATTN_MAX_Q ? group : ATTN_MAX_Q / group * group;
}

/* A state, a partial state, an aligned query and an aligned result for every query of a unit. */
size_t attention_scratch_floats(const Config *c)
{
    size_t per_query = 2 * attn_state_floats(c->head_dim) + 2 * round_up((size_t)c->head_dim, LANES);
    return (size_t)attention_queries(c) * per_query
           + round_up(((size_t)attention_queries(c) * sizeof(AttnQuery) + sizeof(float) - 1) / sizeof(float), LANES);
}

typedef struct Unit {
    int    seq, kv_head;
    int    first, n_tok;         /* tokens first .. first + n_tok - 1 of the call */
    int    pos;                  /* of the first */
    int    group, d_head;
    size_t d_pad, state_floats;
    float *state, *part, *query, *result;
    AttnQuery *ask;              /* of the current tile */
} Unit;

static void lay_out(Unit *u, const Run *r, int n_q)
{
    u->d_pad        = round_up((size_t)u->d_head, LANES);
    u->state_floats = attn_state_floats(u->d_head);
    u->state        = r->attn_scratch;
    u->part         = u->state + (size_t)n_q * u->state_floats;
    u->query        = u->part + (size_t)n_q * u->state_floats;
    u->result       = u->query + (size_t)n_q * u->d_pad;
    u->ask          = (AttnQuery *)(void *)(u->result + (size_t)n_q * u->d_pad);
}

static float *head_of(const Unit *u, const Act *a, int i) /* query i's head in its token's row */
{
    return act_row(a, u->first + i / u->group) + (u->kv_head * u->group + i % u->group) * u->d_head;
}

typedef struct View { int first, end; bool starts; } View;

/* What a query at pos sees of tile number `tile`: positions [first, end) of it, none if first >= end; starts: it is the
 * first tile that the query sees. */
static View view_of(int pos, int window, int tile)
{
    int oldest = window && pos >= window ? pos - window + 1 : 0;
    int at = tile * KV_TILE, end = pos + 1 - at;
    return (View){.first  = oldest > at ? oldest - at : 0,
                  .end    = end < KV_TILE ? end : KV_TILE,
                  .starts = oldest / KV_TILE == tile};
}

/* All queries of the unit that see the tile; the first tile of a query is its state as it is, later ones are merged. */
static void attend_tile(const Run *r, const Unit *u, int l, int tile)
{
    int window = r->model->cfg.window, n_q = u->n_tok * u->group, n_ask = 0;
    for (int i = 0; i < n_q; i++) {
        View v = view_of(u->pos + i / u->group, window, tile);
        if (v.first < v.end)
            u->ask[n_ask++] = (AttnQuery){.q     = u->query + (size_t)i * u->d_pad,
                                          .first = v.first,
                                          .end   = v.end,
                                          .part  = (v.starts ? u->state : u->part) + (size_t)i * u->state_floats};
    }
    const float *scales = kv_cache_scales(r->kv_cache, u->seq, l, u->kv_head, tile);
    r->kernels->attn_tile[r->kv_cache->shape.type](&(AttnTile){
        .k = kv_cache_k(r->kv_cache, u->seq, l, u->kv_head, tile),
        .v = kv_cache_v(r->kv_cache, u->seq, l, u->kv_head, tile),
        .k_scale = scales,
        .v_scale = scales ? scales + KV_TILE : NULL,
        .head_dim = u->d_head,
        .scale = r->attn_scale,
        .n_q = n_ask,
        .q = u->ask,
    });
    for (int i = 0; i < n_q; i++) {
        View v = view_of(u->pos + i / u->group, window, tile);
        if (v.first < v.end && !v.starts)
            r->kernels->attn_merge(u->state + (size_t)i * u->state_floats, u->part + (size_t)i * u->state_floats, u->d_head);
    }
}

static void attend(const Run *r, Unit *u, const Act *y, int l)
{
    int window = r->model->cfg.window, n_q = u->n_tok * u->group;
    int oldest = window && u->pos >= window ? u->pos - window + 1 : 0, newest = u->pos + u->n_tok - 1;

    lay_out(u, r, n_q);
    for (int i = 0; i < n_q; i++) /* copied: a head_dim that is no multiple of 16 leaves heads unaligned in the row */
        memcpy(u->query + (size_t)i * u->d_pad, head_of(u, &r->q, i), (size_t)u->d_head * sizeof(float));
    for (int tile = oldest / KV_TILE; tile <= newest / KV_TILE; tile++)
        attend_tile(r, u, l, tile);
    for (int i = 0; i < n_q; i++) {
        float *result = u->result + (size_t)i * u->d_pad;
        r->kernels->attn_end(result, u->state + (size_t)i * u->state_floats, u->d_head);
        memcpy(head_of(u, y, i), result, (size_t)u->d_head * sizeof(float));
    }
}

/* Units are dealt out in turn: under a causal mask later ones cost more. */
void attention(Run *r, const Act *y, int l)
{
    const Config *c = &r->model->cfg;
    int group = c->heads / c->kv_heads, per_unit = attention_queries(c) / group, turn = 0;
    enter_attention(r);
    for (int s = 0; s < r->n_spans; s++) {
        const Span *span = &r->span[s];
        for (int t = 0; t < span->n_tok; t += per_unit)
            for (int h = 0; h < c->kv_heads; h++, turn++) {
                if (turn % r->team.n_threads != r->team.thread)
                    continue;
                Unit u = {.seq     = span->seq,
                          .kv_head = h,
                          .first   = span->first + t,
                          .n_tok   = span->n_tok - t < per_unit ? span->n_tok - t : per_unit,
                          .pos     = span->pos + t,
                          .group   = group,
                          .d_head  = c->head_dim};
                attend(r, &u, y, l);
            }
    }
    threads_barrier(r->team);
}
