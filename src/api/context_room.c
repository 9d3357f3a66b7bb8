/* api/context_room.c: how much a context may hold: tokens at once, and KV cache in the memory that
 * is available. */
#include "api/api.h"

#include "base/memory.h"

int context_batch(const Config *c, int n_batch, int n_ctx, int n_seqs)
{
    const int whole = n_ctx == c->n_ctx && n_ctx > WHOLE_BATCH ? WHOLE_BATCH : n_ctx;
    n_batch         = n_batch ? n_batch : 512;
    if (c->bidirectional && n_batch < whole)
        n_batch = whole < MAX_BATCH ? whole : MAX_BATCH;
    return n_batch > n_ctx && n_seqs == 1 ? n_ctx : n_batch;
}

static double plan_bytes(const tblock_context *c, int n_tok)
{
    return (double)kv_cache_plan_bytes(&c->kv.shape, n_tok, c->n_batch);
}

/* The bytes of KV cache, with what is there, that the available memory leaves after the weights
 * that are yet to be packed and the context's buffers; below 0: not known. */
static double kv_room(const tblock_context *c)
{
    const Model *m    = &c->model->weights;
    double       have = memory_available("") / (m->ranks ? m->ranks->local : 1);
    if (have <= 0)
        return -1;
    have -= (double)late_weights_to_come(m->late)
        + (c->n_decodes ? 0 : (double)forward_bytes(c->forward)); /* not written to yet */
    return (have > 0 ? have : 0) + (double)c->kv.bytes;
}

static bool fits(const tblock_context *c, int n_tok, double room, Error *err)
{
    size_t i    = 0; /* tiles that fit */
    double need = plan_bytes(c, n_tok);
    if (room < 0 || need <= room)
        return true;
    BISECT(i, (size_t)n_tok / KV_TILE, plan_bytes(c, ((int)i + 1) * KV_TILE) <= room);
    return fail(err, SYSTEM, "%s: out of memory: a KV cache of %d positions takes %.0f MB, but "
                             "%.0f MB are available: enough for --ctx %zu%s",
                c->model->source.path, n_tok, need / (1 << 20), room / (1 << 20), i * KV_TILE,
                c->kv.shape.type == KV_Q8 ? "" : ", or more with --kv-type q8");
}

bool context_fits(const tblock_context *c, int n_tok, Error *err)
{
    return plan_bytes(c, n_tok) < (double)c->kv.bytes + HUGE_PAGE
        || fits(c, n_tok, kv_room(c), err);
}

bool context_ask(tblock_context *c, bool chosen, Pages *pages, Error *err)
{
    const WeightPages *w    = c->model->weights.pages;
    const double       room = kv_room(c);
    size_t             copies = 0;
    if (w && *pages == PAGES_AUTO && weight_pages_roomy(w))
        copies = weight_pages_bytes(w) - weight_pages_copied(w);
    if (chosen && room >= 0 && plan_bytes(c, c->n_ctx) > room - (double)copies) {
        *pages = copies ? PAGES_FILE : *pages;
        copies = 0;
    }
    c->kv_room = room > (double)copies ? (size_t)(room - (double)copies) : 0;
    return !chosen || fits(c, c->n_ctx, room, err);
}
