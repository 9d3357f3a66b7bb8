/* model/rank_cost.c: what a rank holds and reads, and what ranks exchange for a token, from a
 * config and the sizes of its weights. It follows model/rank_rows.c and the order of
 * runtime/forward.c; a test counts what a pass exchanges. */
#include "model/count.h"
#include "model/model.h"

/* Is it a table that is only looked up by row? */
static bool looked_up(const Config *c, const CountPart *p)
{
    return p->role == ROLE_POS_EMBED || (p->role == ROLE_EMBED && !c->tied_embeddings);
}

/* Bytes of a rank's panels of all tensors of a part. Vectors and undivided matrices are whole; of a
 * table that is used as stored, a rank reads rows in place. */
static double part_share(const Config *c, const CountPart *p, int rank, int size)
{
    if (looked_up(c, p) && !p->made)
        return 0;
    if (p->k == 0)
        return (double)p->bytes;
    Own own = rank_panels(c, rank_cut(c, p->role), p->rows, p->stack, rank, size);
    return (double)p->bytes * own_panels(&own) / panel_count(p->rows)
        * (own.items.end - own.items.first) / p->stack;
}

RankShare rank_share(const Config *c, const Count *n, int rank, int size)
{
    RankShare s  = { 0 };
    Range     kv = rank_kv_heads(c, rank, size);
    for (int i = 0; i < n->n_parts; i++) {
        const CountPart *p    = &n->part[i];
        double           held = part_share(c, p, rank, size);
        bool             some = tensor_row(p->role)->kind == KIND_STACK;
        s.weights += held;
        held = looked_up(c, p) ? 0 : held;
        s.read += some ? held * c->experts_used / c->n_experts : held;
    }
    for (int i = 0; i < n->n_ahead; i++)
        s.weights += part_share(c, &n->ahead[i], rank, size);
    s.kv    = (double)(kv.end - kv.first) / c->kv_heads;
    s.state = (double)count_state(c) * (double)rank_state_floats(c, rank, size) * sizeof(float);
    return s;
}

static void add_gather(RankExchange *x, int width)
{
    x->gathers++;
    x->bytes += (uint64_t)width * sizeof(float);
}

/* One block, of one token. */
static void add_block(RankExchange *x, const Config *c, int l)
{
    int  q = c->heads * config_value_dim(c), kv = c->kv_heads * c->head_dim;
    bool parallel = c->norm_placement == PLACE_PARALLEL || c->norm_placement == PLACE_PARALLEL2;
    if (config_state(c, l)) {
        q = config_state_width(c);
    } else if (c->q_lora) {        /* its norm reads all of it */
        add_gather(x, c->q_lora);
    } else if (c->qk_norm == QK_VECTOR) { /* the same, of all heads */
        add_gather(x, q);
        add_gather(x, kv);
    }
    add_gather(x, q);              /* of attention or a recurrent layer, for wo */
    if (!parallel)
        add_gather(x, c->d_model);
    add_gather(x, config_moe(c, l) ? c->experts_used * c->expert_d_ff + c->shared_d_ff : c->d_ff);
    add_gather(x, c->d_model);
}

RankExchange rank_exchange(const Config *c)
{
    RankExchange x = { 0 };
    for (int l = 0; l < c->n_layers; l++)
        add_block(&x, c, l);
    add_gather(&x, panel_count(c->vocab_size) * PANEL_ROWS);
    return x;
}

RankExchange rank_exchange_ahead(const Config *c)
{
    const Config own = config_mtp(c);
    RankExchange x   = rank_exchange(&own);
    add_gather(&x, c->d_model); /* of mtp_proj */
    return x;
}
