/* api/ranks_orders.c: rank 0's orders to the others when a shared model is used, and whether all
 * ranks succeeded. */
#include "api/ranks_orders.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

static bool gives_orders(const Ranks *r) { return r && r->rank == 0; }

bool ranks_send_order(Ranks *r, Order *o, const void *with, size_t n_bytes)
{
    o->n_bytes = (int32_t)n_bytes;
    if (n_bytes && n_bytes <= ORDER_WITH)
        memcpy(o->with, with, n_bytes);
    return ranks_broadcast(r, o, sizeof *o, true)
        && (n_bytes <= ORDER_WITH || ranks_broadcast(r, (void *)(uintptr_t)with, n_bytes, false));
}

void ranks_order(Ranks *r, OrderKind kind, int id, int a, int b, int c, int d)
{
    Order o = { .kind = (int32_t)kind, .id = id, .number = { a, b, c, d } };
    ranks_begin(r);
    ranks_send_order(r, &o, NULL, 0);
    ranks_end(r);
}

bool ranks_exchange_failed(const Ranks *r, Error *err)
{
    return fail(err, r->error.status, "%s", r->error.msg);
}

/* ---- Did all of them succeed? ---------------------------------------------------------------- */

typedef struct Report { int32_t status; char hash[68], msg[512], host[64]; } Report;

bool ranks_agree(Ranks *r, const Error *own, const char *hash, Error *err)
{
    size_t  n = (size_t)r->size, at[RANKS_MOST + 1];
    Report *all = calloc(n, sizeof *all), *mine = all ? &all[r->rank] : NULL;
    if (!all) {
        ranks_stop(r, "out of memory for the reports of all ranks");
        return no_memory("ranks", err);
    }
    mine->status = own->status;
    memcpy(mine->msg, own->msg, sizeof mine->msg);
    strncpy(mine->hash, hash, sizeof mine->hash - 1);
    gethostname(mine->host, sizeof mine->host - 1);
    for (size_t i = 0; i <= n; i++)
        at[i] = i * sizeof *all;
    bool ok = ranks_gather(r, all, at, false, true) || ranks_exchange_failed(r, err);
    for (size_t i = 0; ok && gives_orders(r) && i < n; i++)
        if (all[i].status && i == 0)
            ok = fail(err, all[i].status, "%.*s", (int)sizeof all[i].msg, all[i].msg);
        else if (all[i].status)
            ok = fail(err, all[i].status, "rank %zu on %.63s: %.*s", i, all[i].host,
                      (int)sizeof all[i].msg, all[i].msg);
        else if (memcmp(all[i].hash, all[0].hash, sizeof all[i].hash) != 0)
            ok = fail(err, INPUT, "rank %zu on %.63s: expected what rank 0 has opened (%.12s), "
                                  "found another at the same path (%.12s)",
                      i, all[i].host, all[0].hash, all[i].hash);
    free(all);
    return ok;
}

bool ranks_refuse(const tblock_model *m, const char *what, Error *err)
{
    return !m->ranks || fail(err, USAGE, "%s: expected one process, found %d ranks", what,
                             m->ranks->size);
}

const char *ranks_isa(const tblock_model *m, const char *isa)
{
    const char *own = m->ranks ? getenv("TBLOCK_ISA") : NULL;
    return own && (!isa || strcmp(isa, "auto") == 0) ? own : isa;
}

/* ---- Models ---------------------------------------------------------------------------------- */

bool ranks_order_lora(tblock_model *m, const char *path,
                      bool (*load)(tblock_model *m, const char *path, size_t number, Error *err),
                      Error *err)
{
    Ranks       *r   = m->ranks;
    const size_t n   = m->n_lora;
    Error        own = { 0 };
    Order        o   = { .kind = ORDER_LORA, .id = m->id, .number = { (int)n } };
    ranks_begin(r);
    bool ok = ranks_send_order(r, &o, path, strlen(path) + 1) || ranks_exchange_failed(r, err);
    if (ok) {
        bool here = load(m, path, n, &own);
        ok        = ranks_agree(r, &own, here ? m->lora[n]->sha256 : "", err);
    }
    ranks_end(r);
    return ok;
}

bool ranks_check_hash_here(Ranks *r, const Source *s, Error *err)
{
    Error       own = { 0 };
    const char *hex = source_hash_check(s, &own) ? source_hash(s, &own) : NULL;
    return ranks_agree(r, &own, hex ? hex : "", err);
}

bool ranks_check_hash(const tblock_model *m, Error *err)
{
    Order o = { .kind = ORDER_HASH, .id = m->id };
    ranks_begin(m->ranks);
    bool ok = (ranks_send_order(m->ranks, &o, NULL, 0) || ranks_exchange_failed(m->ranks, err))
        && ranks_check_hash_here(m->ranks, &m->source, err);
    ranks_end(m->ranks);
    return ok;
}

void ranks_order_close(const tblock_model *m)
{
    if (gives_orders(m->ranks) && m->id)
        ranks_order(m->ranks, ORDER_CLOSE, m->id, 0, 0, 0, 0);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static void put_name(char to[ORDER_NAME], const char *name)
{
    if (name)
        strncpy(to, name, ORDER_NAME - 1); /* a context was made with it, so it is a short one */
}

bool ranks_order_context(tblock_context *c, const tblock_context_options *opt,
                         const tblock_context *of, Error *err)
{
    Ranks *r = c->model->ranks;
    if (!gives_orders(r))
        return true;
    Order        o = { .kind   = of ? ORDER_AHEAD : ORDER_CONTEXT,
                       .id     = ++r->n_named,
                       .number = { of ? of->id : c->model->id } };
    OrderContext x = { .n_ctx = c->n_ctx, .n_seqs = c->n_seqs, .n_batch = c->n_batch,
                       .threads = opt->threads, .rope_length = c->rope_length,
                       .allow_nan = opt->allow_nan };
    put_name(x.isa, opt->isa);
    put_name(x.math, opt->math);
    put_name(x.activations, opt->activations);
    put_name(x.kv_type, opt->kv_type);
    put_name(x.affinity, opt->affinity);
    put_name(x.pages, opt->pages);
    c->id = o.id;
    ranks_begin(r);
    bool ok = (ranks_send_order(r, &o, of ? NULL : &x, of ? 0 : sizeof x)
               || ranks_exchange_failed(r, err))
        && ranks_agree(r, &(Error){ 0 }, "", err);
    ranks_end(r);
    return ok;
}

void ranks_order_free(const tblock_context *c)
{
    if (gives_orders(c->model->ranks) && c->id)
        ranks_order(c->model->ranks, ORDER_FREE, c->id, 0, 0, 0, 0);
}

size_t ranks_before_bytes(const tblock_context *c)
{
    const Model *m = &c->model->weights;
    return m->is_mtp ? (size_t)m->cfg.d_model * sizeof(float) : 0;
}

/* The sets of adapters in a batch, each once. */
typedef struct LoraSets { const LoraSet **set; size_t n, cap; } LoraSets;

/* The index of this one among them; n: none. */
static size_t find_set(const LoraSets *s, const LoraSet *set)
{
    size_t i = 0;
    while (i < s->n && s->set[i] != set)
        i++;
    return i;
}

static bool collect_sets(LoraSets *s, const tblock_context *c, const BatchToken *token, size_t n)
{
    for (size_t i = 0; c->n_loras && i < n; i++) {
        const LoraSet *set = c->seq_lora[token[i].seq];
        if (!set || find_set(s, set) < s->n)
            continue;
        if (!ARRAY_ROOM(s->set, s->cap, s->n + 1))
            return false;
        s->set[s->n++] = set;
    }
    return true;
}

static OrderLora order_lora(const tblock_model *m, const LoraSet *set)
{
    OrderLora o = { .n = set->n };
    for (int i = 0; i < set->n; i++) {
        while (m->lora[o.number[i]] != set->use[i].lora)
            o.number[i]++;
        o.scale[i] = set->use[i].scale;
    }
    return o;
}

/* The items, then the states that they read, and their adapters. */
static bool send_items(const tblock_context *c, const BatchToken *token, size_t n,
                       const LoraSets *sets, Error *err)
{
    Ranks       *r     = c->model->ranks;
    const size_t state = ranks_before_bytes(c),
                 bytes = n * (sizeof(OrderItem) + state) + sets->n * sizeof(OrderLora);
    OrderItem *item = malloc(bytes);
    if (!item)
        return no_memory("ranks", err);
    Order o = { .kind = ORDER_DECODE,
                .id = c->id,
                .number = { (int)n, !c->observer ? NOT_SEEN : c->only_last ? SEEN_LAST : SEEN, 0,
                            (int)sets->n } };
    for (size_t i = 0; i < n; i++) {
        const BatchToken *t   = &token[i];
        const LoraSet    *set = c->seq_lora[t->seq];
        item[i] = (OrderItem){ .seq    = (uint16_t)t->seq,
                               .lora   = (uint16_t)(set ? find_set(sets, set) + 1 : 0),
                               .pos    = t->pos,
                               .token  = t->token,
                               .logits = t->logits != NULL,
                               .state  = t->state != NULL,
                               .kept   = (uint32_t)c->kv.seq[t->seq].kept & 0x3fffffff };
        o.number[2] += t->state != NULL;
        if (state)
            memcpy((char *)(item + n) + i * state, t->before, state);
    }
    for (size_t i = 0; i < sets->n; i++) {
        OrderLora set = order_lora(c->model, sets->set[i]);
        memcpy((char *)(item + n) + n * state + i * sizeof set, &set, sizeof set);
    }
    ranks_begin(r);
    bool ok = ranks_send_order(r, &o, item, bytes) || ranks_exchange_failed(r, err);
    if (!ok)
        ranks_end(r);
    free(item);
    return ok;
}

bool ranks_order_decode(const tblock_context *c, const BatchToken *token, size_t n, Error *err)
{
    LoraSets sets = { 0 };
    if (!gives_orders(c->model->ranks))
        return true;
    bool ok = collect_sets(&sets, c, token, n) ? send_items(c, token, n, &sets, err)
                                               : no_memory("ranks", err);
    free(sets.set);
    return ok;
}

/* An order whose work goes on, on all ranks, until ranks_done. */
static bool order_meeting(const tblock_context *c, OrderKind kind, int32_t seq, Error *err)
{
    Ranks *r = c->model->ranks;
    if (!gives_orders(r))
        return true;
    Order o = { .kind = (int32_t)kind, .id = c->id, .number = { seq } };
    ranks_begin(r);
    bool ok = ranks_send_order(r, &o, NULL, 0) || ranks_exchange_failed(r, err);
    if (!ok)
        ranks_end(r);
    return ok;
}

bool ranks_order_save(const tblock_context *c, int32_t seq, Error *err)
{
    return order_meeting(c, ORDER_SAVE, seq, err);
}

bool ranks_order_tiles(const tblock_context *c, int32_t seq, Error *err)
{
    return order_meeting(c, ORDER_TILES, seq, err);
}

bool ranks_order_start(tblock_context *c, int32_t seq, const int32_t *tokens, size_t n, int first,
                       StateStart *start, Error *err)
{
    Ranks *r   = c->model->ranks;
    Order  o   = { .kind = ORDER_START, .id = c->id, .number = { seq, first } };
    Error  own = { 0 };
    ranks_begin(r);
    bool ok = ranks_send_order(r, &o, tokens, n * sizeof *tokens) || ranks_exchange_failed(r, err);
    if (ok) {
        start(c, seq, tokens, n, first, &own);
        ok = ranks_agree(r, &own, "", err);
    }
    ranks_end(r);
    return ok;
}

bool ranks_done(const tblock_context *c, Error *err)
{
    Ranks *r = c->model->ranks;
    if (!r)
        return true;
    bool ok = !r->error.status || ranks_exchange_failed(r, err);
    if (gives_orders(r))
        ranks_end(r);
    return ok;
}

void ranks_order_rewind(tblock_context *c, int32_t seq, int length)
{
    if (gives_orders(c->model->ranks))
        ranks_order(c->model->ranks, ORDER_REWIND, c->id, seq, length, 0, 0);
}

void ranks_order_copy(tblock_context *c, int32_t from, int32_t to, int32_t n, bool done)
{
    if (gives_orders(c->model->ranks))
        ranks_order(c->model->ranks, ORDER_COPY, c->id, from, to, n, done);
}
