/* api/ranks_api.c: a model that ranks share. Rank 0 runs the program; every other rank repeats what
 * rank 0 does to models and contexts, so that all are ready when a pass exchanges activations. */
#include "api/mtp.h"
#include "api/ranks_orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* ---- Models ---------------------------------------------------------------------------------- */

/* This rank's part of opening; hash [65] becomes the model's. */
static tblock_model *open_part(Ranks *r, const char *path, const tblock_open_options *opt,
                               char *hash, Error *err)
{
    tblock_model *m = model_open(path, opt, r, err);
    if (m && !(source_need_weights(&m->source, err) && source_sample_hash(&m->source, hash, err))) {
        tblock_close(m);
        m = NULL;
    }
    return m;
}

/* Path, type and the matrices to keep, each with its NUL. */
static char *open_text(const char *path, const tblock_open_options *opt, size_t *n, Error *err)
{
    TextOut o = { 0 };
    text_out_bytes(&o, path, strlen(path) + 1);
    text_out_bytes(&o, opt->type ? opt->type : "", opt->type ? strlen(opt->type) + 1 : 1);
    for (size_t i = 0; i < opt->n_keep; i++)
        text_out_bytes(&o, opt->keep[i], strlen(opt->keep[i]) + 1);
    *n = o.n;
    return text_out_take(&o, err);
}

tblock_model *ranks_open(Ranks *r, const char *path, const tblock_open_options *opt, Error *err)
{
    static const tblock_open_options defaults = { 0 };
    char   hash[65] = "", *text;
    size_t n        = 0;
    Error  own      = { 0 };
    assert(r && r->rank == 0);
    opt = opt ? opt : &defaults;
    if (opt->mlock || opt->populate) {
        fail(err, USAGE, "%s: expected one process, found %d ranks: each reads only its part",
             opt->mlock ? "mlock" : "populate", r->size);
        return NULL;
    }
    if (!(text = open_text(path, opt, &n, err)))
        return NULL;
    Order o = { .kind = ORDER_OPEN,
                .id = ++r->n_named,
                .number = { (int)opt->n_keep, opt->check } };
    ranks_begin(r);
    bool          sent = ranks_send_order(r, &o, text, n) || ranks_exchange_failed(r, err);
    tblock_model *m    = sent ? open_part(r, path, opt, hash, &own) : NULL;
    if (m)
        m->id = o.id;
    bool ok = sent && ranks_agree(r, &own, hash, err);
    ranks_end(r);
    free(text);
    const char *recorded = ok && opt->check ? source_meta(&m->source, "sha256") : "-";
    ok = ok && ((recorded && recorded[0]) || ranks_check_hash(m, err)); /* opening checked it */
    if (ok)
        return m;
    if (m)
        tblock_close(m);
    else if (sent)
        ranks_order(r, ORDER_CLOSE, o.id, 0, 0, 0, 0);
    return NULL;
}

void ranks_dismiss(Ranks *r) { ranks_order(r, ORDER_END, 0, 0, 0, 0, 0); }

/* ---- Public ---------------------------------------------------------------------------------- */

bool tblock_ranks_join(tblock_ranks **out, tblock_error *err)
{
    NEED(false, err, out);
    *out = NULL;
    if (!ranks_started())
        return true;
    Ranks *r = calloc(1, sizeof *r);
    if (!r)
        return no_memory("ranks", err);
    if (ranks_join(r, err)) {
        *out = r;
        return true;
    }
    free(r);
    return false;
}

int tblock_ranks_rank(const tblock_ranks *r)
{
    NEED(0, NULL, r);
    return r->rank;
}
int tblock_ranks_size(const tblock_ranks *r)
{
    NEED(0, NULL, r);
    return r->size;
}

tblock_model *tblock_ranks_open(tblock_ranks *r, const char *path, const tblock_open_options *opt,
                                tblock_error *err)
{
    NEED(NULL, err, r, path);
    if (r->rank == 0)
        return ranks_open(r, path, opt, err);
    fail(err, USAGE, "a model is opened by rank 0, and this is rank %d", r->rank);
    return NULL;
}

bool tblock_ranks_follow(tblock_ranks *r, tblock_error *err)
{
    NEED(false, err, r);
    return r->rank > 0 ? ranks_follow(r, err)
                       : fail(err, USAGE, "rank 0 does not follow: it gives the orders");
}

void tblock_ranks_leave(tblock_ranks *r)
{
    if (!r)
        return;
    if (r->rank == 0 && !r->error.status)
        ranks_dismiss(r);
    ranks_free(r);
    free(r);
}

/* ---- The other ranks ------------------------------------------------------------------------- */

/* An object that rank 0 identifies by a number. */
typedef struct NamedObject { tblock_model *model; tblock_context *context; } NamedObject;

typedef struct Follower {
    Ranks       *ranks;
    NamedObject *named;
    size_t       n, cap;
    Order        order;
    char        *with;           /* of the order */
    size_t       with_cap;
    /* Of an order to decode. The final states of its items are not used here. */
    tblock_item  *item;
    const float **before;
    float       **after, *state;
    size_t        item_cap, before_cap, after_cap, state_cap;
    Error *err;
} Follower;

static bool receive(Follower *f)
{
    Order *o = &f->order;
    if (!ranks_broadcast(f->ranks, o, sizeof *o, true))
        return ranks_exchange_failed(f->ranks, f->err);
    size_t n = (size_t)o->n_bytes, id = (size_t)o->id;
    if (o->n_bytes < 0 || n > ORDER_BYTES || o->id < 0)
        return fail(f->err, SYSTEM, "expected an order of at most %d bytes, found %d", ORDER_BYTES,
                    (int)o->n_bytes);
    if (!ARRAY_ROOM(f->with, f->with_cap, n + 1) || !ARRAY_ROOM(f->named, f->cap, id + 1))
        return no_memory("ranks", f->err);
    for (; f->n <= id; f->n++)
        f->named[f->n] = (NamedObject){ NULL, NULL };
    if (n <= ORDER_WITH)
        memcpy(f->with, o->with, n);
    else if (!ranks_broadcast(f->ranks, f->with, n, false))
        return ranks_exchange_failed(f->ranks, f->err);
    f->with[n] = 0;
    return true;
}

static bool follow_open(Follower *f)
{
    size_t      n_keep = (size_t)f->order.number[0], at = 0;
    const char *text[2], **keep = calloc(n_keep + 1, sizeof *keep);
    Error       own      = { 0 };
    char        hash[65] = "";
    if (!keep)
        return no_memory("ranks", f->err);
    for (size_t i = 0; i < n_keep + 2; i++) {
        const char *next = f->with + at;
        at = at < (size_t)f->order.n_bytes ? at + strlen(next) + 1 : at;
        *(i < 2 ? &text[i] : &keep[i - 2]) = next;
    }
    tblock_model *m = open_part(f->ranks, text[0],
                                &(tblock_open_options){ .type = *text[1] ? text[1] : NULL,
                                                        .keep = keep,
                                                        .n_keep = n_keep,
                                                        .check = f->order.number[1] },
                                hash, &own);
    free(keep);
    f->named[f->order.id].model = m;
    return ranks_agree(f->ranks, &own, hash, f->err);
}

static bool follow_context(Follower *f)
{
    OrderContext  x;
    Error         own = { 0 };
    tblock_model *m = (size_t)f->order.number[0] < f->n ? f->named[f->order.number[0]].model : NULL;
    memcpy(&x, f->with, sizeof x);
    const char *name[] = { x.isa, x.math, x.activations, x.kv_type, x.affinity, x.pages };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        name[i] = *name[i] ? name[i] : NULL;
    f->named[f->order.id].context =
        !m ? (fail(&own, SYSTEM, "expected a model of number %d", (int)f->order.number[0]), NULL)
           : tblock_context_new(m, &(tblock_context_options){
                 .n_ctx = x.n_ctx, .n_seqs = x.n_seqs, .n_batch = x.n_batch, .threads = x.threads,
                 .rope_length = x.rope_length, .isa = name[0], .math = name[1],
                 .activations = name[2], .kv_type = name[3], .affinity = name[4], .pages = name[5],
                 .allow_nan = x.allow_nan }, &own);
    return ranks_agree(f->ranks, &own, "", f->err);
}

static bool follow_ahead(Follower *f)
{
    Error own   = { 0 };
    int   which = f->order.number[0];
    const tblock_context *of = (size_t)which < f->n ? f->named[which].context : NULL;
    if (of && of->model->ahead)
        f->named[f->order.id].context = mtp_context_new(of, &own);
    else
        fail(&own, SYSTEM, "expected a context of number %d, whose model looks ahead", which);
    return ranks_agree(f->ranks, &own, "", f->err);
}

/* So that the residual stream is gathered when rank 0 has an observer. */
static void watch_nothing(void *user, const char *name, size_t first, int n_tok, const float *x,
                          size_t stride)
{
    (void)user, (void)name, (void)first, (void)n_tok, (void)x, (void)stride;
}

/* Sequences get the adapters that they have on rank 0. */
static bool follow_sets(Follower *f, tblock_context *c, const char *sets, size_t n_sets)
{
    tblock_lora    use[LORA_MOST];
    const LoraSet *set;
    for (size_t k = 0; k < n_sets; k++) {
        OrderLora from;
        memcpy(&from, sets + k * sizeof from, sizeof from);
        for (int i = 0; i < from.n && i < LORA_MOST; i++)
            use[i] = (tblock_lora){ from.number[i], from.scale[i] };
        if (!lora_set_of(c, use, (size_t)from.n, &set, f->err))
            return false;
        for (int i = 0; i < f->order.number[0]; i++) {
            OrderItem item;
            memcpy(&item, f->with + (size_t)i * sizeof item, sizeof item);
            if (item.lora == k + 1 && item.seq < c->n_seqs)
                c->seq_lora[item.seq] = set;
        }
    }
    return true;
}

static bool follow_decode(Follower *f, tblock_context *c)
{
    const size_t n = (size_t)f->order.number[0], most = (size_t)f->order.number[2],
                 width = (size_t)c->model->weights.cfg.d_model, state = ranks_before_bytes(c);
    size_t at = 0, n_sets = (size_t)f->order.number[3];
    if ((size_t)f->order.n_bytes != n * (sizeof(OrderItem) + state) + n_sets * sizeof(OrderLora))
        return fail(f->err, SYSTEM, "expected an order for %zu items, found %d bytes", n,
                    (int)f->order.n_bytes);
    if (!ARRAY_ROOM(f->item, f->item_cap, n) || !ARRAY_ROOM(f->before, f->before_cap, n)
        || !ARRAY_ROOM(f->after, f->after_cap, n)
        || !ARRAY_ROOM(f->state, f->state_cap, most * width))
        return no_memory("ranks", f->err);
    for (size_t i = 0; i < n; i++) {
        OrderItem from;
        memcpy(&from, f->with + i * sizeof from, sizeof from);
        f->item[i]   = (tblock_item){ from.seq, from.pos, from.token, from.logits };
        f->after[i]  = from.state && at < most ? f->state + at++ * width : NULL;
        f->before[i] = (const float *)(const void *)(f->with + n * sizeof from + i * state);
        if (from.seq < c->n_seqs) {
            c->kv.seq[from.seq].kept = (int)from.kept;
            c->seq_lora[from.seq]    = NULL;
        }
    }
    if (!follow_sets(f, c, f->with + n * (sizeof(OrderItem) + state), n_sets))
        return false;
    c->before = state ? f->before : NULL;
    c->after  = f->after;
    tblock_observe(c, f->order.number[1] != NOT_SEEN ? watch_nothing : NULL, NULL);
    c->only_last = f->order.number[1] == SEEN_LAST;
    return context_decode(c, f->item, n, f->err);
}

static bool follow_lora(Follower *f)
{
    Error         own = { 0 };
    tblock_model *m   = f->named[f->order.id].model;
    const size_t  n   = (size_t)f->order.number[0];
    bool here = m && n <= m->n_lora
        ? lora_load_here(m, f->with, n, &own)
        : fail(&own, SYSTEM, "expected model %d with %zu adapters", (int)f->order.id, n);
    return ranks_agree(f->ranks, &own, here ? m->lora[n]->sha256 : "", f->err);
}

static bool follow_copy(Follower *f, tblock_context *c)
{
    const int32_t *n = f->order.number;
    return tblock_seq_copy(c, n[0], n[1], n[2], f->err) == (n[3] != 0)
        || fail(f->err, SYSTEM, "expected to copy as rank 0 did: %s", f->err->msg);
}

static bool follow_save(Follower *f, tblock_context *c)
{
    int32_t seq = f->order.number[0];
    return state_put_tiles(NULL, c, seq, (size_t)c->kv.seq[seq].length, f->err);
}

static bool follow_start(Follower *f, tblock_context *c)
{
    Error own = { 0 };
    state_start(c, f->order.number[0], (const int32_t *)(const void *)f->with,
                (size_t)f->order.n_bytes / sizeof(int32_t), f->order.number[1], &own);
    return ranks_agree(f->ranks, &own, "", f->err);
}

static bool follow(Follower *f, bool *end)
{
    const Order    *o = &f->order;
    NamedObject    *n = &f->named[o->id];
    tblock_context *c = n->context;
    switch ((OrderKind)o->kind) {
    case ORDER_END:     *end = true; return true;
    case ORDER_OPEN:    return follow_open(f);
    case ORDER_CONTEXT: return follow_context(f);
    case ORDER_LORA:    return follow_lora(f);
    case ORDER_HASH:
        return n->model && ranks_check_hash_here(f->ranks, &n->model->source, f->err);
    case ORDER_AHEAD:   return follow_ahead(f);
    case ORDER_CLOSE:
        tblock_close(n->model);
        n->model = NULL;
        return true;
    case ORDER_FREE:
        tblock_context_free(c);
        n->context = NULL;
        return true;
    case ORDER_DECODE:  return c && follow_decode(f, c);
    case ORDER_REWIND:  return c && tblock_seq_rewind(c, o->number[0], o->number[1], f->err);
    case ORDER_COPY:    return c && follow_copy(f, c);
    case ORDER_SAVE:    return c && follow_save(f, c);
    case ORDER_START:   return c && follow_start(f, c);
    case ORDER_TILES:   return c && state_take_tiles(c, o->number[0], NULL, f->err);
    }
    return fail(f->err, SYSTEM, "expected an order of this version, found number %d", (int)o->kind);
}

bool ranks_follow(Ranks *r, Error *err)
{
    Error    none = { 0 };
    Follower f    = { .ranks = r, .err = err ? err : &none };
    bool     ok = true, end = false;
    *f.err = none;
    while (ok && !end)
        ok = receive(&f) && follow(&f, &end);
    if (!ok) { /* no effect if the exchange itself failed */
        Error why;
        fail(&why, SYSTEM, "rank %d: %s", r->rank, f.err->msg);
        ranks_stop(r, why.msg);
    }
    for (size_t i = 0; i < f.n; i++)
        tblock_context_free(f.named[i].context);
    for (size_t i = 0; i < f.n; i++)
        tblock_close(f.named[i].model);
    free(f.named);
    free(f.with);
    free(f.item);
    free(f.before);
    free(f.after);
    free(f.state);
    return ok;
}
