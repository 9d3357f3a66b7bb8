/* model/rank_rows.c: which rows of its matrices, and which heads, a rank computes. Everything else
 * (norms, integers, routers) each rank computes for itself. */
#include "model/model.h"

RankCut rank_cut(TensorRole role)
{
    switch (role) {
    case ROLE_WQ:            return RANK_HEADS;
    case ROLE_WK:
    case ROLE_WV:            return RANK_KV_HEADS;
    case ROLE_ROUTER:
    case ROLE_SHARED_ROUTER:
    case ROLE_POS_EMBED:     return RANK_ALL;
    default:                 return RANK_PANELS; /* an embedding is the head too, or lies in rows */
    }
}

bool rank_supported(const Config *c, const char *what, Error *err)
{
    if (config_has_state(c))
        return fail(err, INPUT, "%s: state_layers: expected none for several ranks, found some "
                                "(states are not divided)", what);
    if (c->attn_gate)
        return fail(err, INPUT,
                    "%s: attn_gate: expected false for several ranks, found true (gates "
                    "are not divided)",
                    what);
    return c->kv_lora == 0
        || fail(err, INPUT, "%s: kv_lora: expected 0 for several ranks, found %d (latent attention "
                            "is not divided)", what, c->kv_lora);
}

/* Whole groups of heads with their KV head; where there are more ranks than KV heads, the ranks of
 * a KV head share its group. */
Range rank_heads(const Config *c, int rank, int size)
{
    int group = c->heads / c->kv_heads;
    if (size > c->kv_heads)
        return ranks_share(rank, size, c->heads);
    Range kv = ranks_share(rank, size, c->kv_heads);
    return (Range){ kv.first * group, kv.end * group };
}

/* A rank without heads (more ranks than heads) has a KV head all the same, which it never reads. */
Range rank_kv_heads(const Config *c, int rank, int size)
{
    int   group = c->heads / c->kv_heads;
    Range q     = rank_heads(c, rank, size);
    int   first = q.first / group < c->kv_heads ? q.first / group : c->kv_heads - 1,
        end     = (q.end + group - 1) / group;
    return (Range){ first, end > first ? end : first + 1 };
}

Range rank_columns(const Config *c, RankCut cut, int width, int rank, int size)
{
    Range own, before;
    switch (cut) {
    case RANK_HEADS:
        own = rank_heads(c, rank, size);
        return (Range){ own.first * c->head_dim, own.end * c->head_dim };
    case RANK_KV_HEADS:
        own = rank_kv_heads(c, rank, size);
        before = rank > 0 ? rank_kv_heads(c, rank - 1, size) : (Range){ 0, 0 };
        own.first = own.first > before.end ? own.first : before.end;
        return (Range){ own.first * c->head_dim, own.end * c->head_dim };
    case RANK_PANELS:
        own = ranks_share(rank, size, panel_count(width));
        own.first *= PANEL_ROWS;
        own.end = own.end * PANEL_ROWS < width ? own.end * PANEL_ROWS : width;
        return (Range){ own.first < own.end ? own.first : own.end, own.end };
    case RANK_ALL: break;
    }
    return (Range){ 0, width };
}

Range rank_panels(const Config *c, RankCut cut, int rows, int rank, int size)
{
    Range own = { 0, rows };
    if (cut == RANK_PANELS)
        return ranks_share(rank, size, panel_count(rows));
    if (cut == RANK_HEADS || cut == RANK_KV_HEADS) {
        own = cut == RANK_HEADS ? rank_heads(c, rank, size) : rank_kv_heads(c, rank, size);
        own = (Range){ own.first * c->head_dim, own.end * c->head_dim };
    }
    return (Range){ own.first / PANEL_ROWS, panel_count(own.end) };
}

Range model_panels(const Model *m, TensorRole role, int rows)
{
    return m->ranks ? rank_panels(&m->cfg, rank_cut(role), rows, m->ranks->rank, m->ranks->size)
                    : (Range){ 0, panel_count(rows) };
}
