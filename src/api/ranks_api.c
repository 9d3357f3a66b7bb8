/* api/ranks_api.c: a model that ranks share. Rank 0 runs the program; every other rank repeats what
 * rank 0 does to models and contexts, so that all are ready when a pass exchanges activations. */
#include "api/mtp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

typedef enum OrderKind {
    ORDER_END, ORDER_OPEN, ORDER_CLOSE, ORDER_CONTEXT, ORDER_AHEAD, ORDER_FREE, ORDER_DECODE,
    ORDER_REWIND, ORDER_COPY, ORDER_SAVE, ORDER_START, ORDER_TILES, ORDER_LORA,
    ORDER_HASH
} OrderKind;

/* What rank 0 broadcasts. Ranks may run on other processors, but all have little-endian integers
 * (base/cpu.h). More than `with` holds follows in a broadcast of its own. */
enum { WITH = 480, MOST_BYTES = 1 << 30 };
typedef struct Order {
    int32_t kind, id, number[4];
    int32_t n_bytes, unused;
    char    with[WITH];
} Order;
_Static_assert(sizeof(Order) == 512, "the same on every rank");

/* Does someone observe the pass? What is shown is gathered first, on all ranks. */
enum { NOT_SEEN, SEEN, SEEN_LAST /* only POOLED_STATE */ };

/* kept: of its sequence (KvSeq), so that all ranks can go back as far. lora: 1 + the number of its
 * adapters among the sets that come with the order; 0: none. */
typedef struct OrderItem {
    uint16_t seq, lora;
    int32_t  pos, token;
    uint32_t logits : 1, state : 1, kept : 30;
} OrderItem;
_Static_assert(sizeof(OrderItem) == 16, "the same on every rank");

/* Adapters that are used together, by their numbers in the model. */
typedef struct OrderLora {
    int32_t n, number[LORA_MOST], unused;
    double  scale[LORA_MOST];
} OrderLora;
_Static_assert(sizeof(OrderLora) == 200, "the same on every rank");

enum { NAME = 16 };
typedef struct OrderContext {
    int32_t n_ctx, n_seqs, n_batch, threads, rope_length, allow_nan;
    char    isa[NAME], math[NAME], activations[NAME], kv_type[NAME], affinity[NAME], pages[NAME];
} OrderContext;
_Static_assert(sizeof(OrderContext) <= WITH, "fits into an order");

static bool gives_orders(const Ranks *r) { return r && r->rank == 0; }

static bool send_order(Ranks *r, Order *o, const void *with, size_t n_bytes)
{
    o->n_bytes = (int32_t)n_bytes;
    if (n_bytes && n_bytes <= WITH)
        memcpy(o->with, with, n_bytes);
    return ranks_broadcast(r, o, sizeof *o, true)
        && (n_bytes <= WITH || ranks_broadcast(r, (void *)(uintptr_t)with, n_bytes, false));
}

/* An order on its own, in this thread's turn. A failure stays in r->error: the next decode
 * tells. */
static void order(Ranks *r, OrderKind kind, int id, int a, int b, int c, int d)
{
    Order o = { .kind = (int32_t)kind, .id = id, .number = { a, b, c, d } };
    ranks_begin(r);
    send_order(r, &o, NULL, 0);
    ranks_end(r);
}

static bool exchange_failed(const Ranks *r, Error *err)
{
    return fail(err, r->error.status, "%s", r->error.msg);
}

/* ---- Did all of them succeed? ---------------------------------------------------------------- */

typedef struct Report { int32_t status; char hash[68], msg[512], host[64]; } Report;

/* Every rank tells its error (status 0: none), and what it has opened if that must be the same.
 * Rank 0 fails with the first that is bad, and names its machine. */
static bool agree(Ranks *r, const Error *own, const char *hash, Error *err)
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
    bool ok = ranks_gather(r, all, at, false, true) || exchange_failed(r, err);
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
    assert(gives_orders(r));
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
    bool          sent = send_order(r, &o, text, n) || exchange_failed(r, err);
    tblock_model *m    = sent ? open_part(r, path, opt, hash, &own) : NULL;
    if (m)
        m->id = o.id;
    bool ok = sent && agree(r, &own, hash, err);
    ranks_end(r);
    free(text);
    const char *recorded = ok && opt->check ? source_meta(&m->source, "sha256") : "-";
    ok = ok && ((recorded && recorded[0]) || ranks_check_hash(m, err)); /* opening checked it */
    if (ok)
        return m;
    if (m)
        tblock_close(m);
    else if (sent)
        order(r, ORDER_CLOSE, o.id, 0, 0, 0, 0);
    return NULL;
}

bool ranks_order_lora(tblock_model *m, const char *path, Error *err)
{
    Ranks       *r   = m->ranks;
    const size_t n   = m->n_lora;
    Error        own = { 0 };
    Order        o   = { .kind = ORDER_LORA, .id = m->id, .number = { (int)n } };
    ranks_begin(r);
    bool ok = send_order(r, &o, path, strlen(path) + 1) || exchange_failed(r, err);
    if (ok) {
        bool here = lora_load_here(m, path, n, &own);
        ok        = agree(r, &own, here ? m->lora[n]->sha256 : "", err);
    }
    ranks_end(r);
    if (!ok)
        model_free_loras(m, n);
    return ok;
}

/* This rank's part; all speak. Models that record no hash are compared with rank 0's. */
static bool check_hash_here(Ranks *r, const Source *s, Error *err)
{
    Error       own = { 0 };
    const char *hex = source_hash_check(s, &own) ? source_hash(s, &own) : NULL;
    return agree(r, &own, hex ? hex : "", err);
}

bool ranks_check_hash(const tblock_model *m, Error *err)
{
    Order o = { .kind = ORDER_HASH, .id = m->id };
    ranks_begin(m->ranks);
    bool ok = (send_order(m->ranks, &o, NULL, 0) || exchange_failed(m->ranks, err))
        && check_hash_here(m->ranks, &m->source, err);
    ranks_end(m->ranks);
    return ok;
}

void ranks_order_close(const tblock_model *m)
{
    if (gives_orders(m->ranks) && m->id)
        order(m->ranks, ORDER_CLOSE, m->id, 0, 0, 0, 0);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static void put_name(char to[NAME], const char *name)
{
    if (name)
        strncpy(to, name, NAME - 1); /* a context has been made with it, so it is a short one */
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
    bool ok = (send_order(r, &o, of ? NULL : &x, of ? 0 : sizeof x) || exchange_failed(r, err))
        && agree(r, &(Error){ 0 }, "", err);
    ranks_end(r);
    return ok;
}

void ranks_order_free(const tblock_context *c)
{
    if (gives_orders(c->model->ranks) && c->id)
        order(c->model->ranks, ORDER_FREE, c->id, 0, 0, 0, 0);
}

/* Bytes of the state that each item of this context reads. */
static size_t before_bytes(const tblock_context *c)
{
    const Model *m = &c->model->weights;
    return m->is_mtp ? (size_t)m->cfg.d_model * sizeof(float) : 0;
}

/* The sets of adapters in a batch, each once. */
typedef struct LoraSets { const LoraSet **set; size_t n, cap; } LoraSets;

/* Where this one is among them; n: nowhere. */
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

/* The items, and behind them the states that they read, and their adapters. */
static bool send_items(const tblock_context *c, const BatchToken *token, size_t n,
                       const LoraSets *sets, Error *err)
{
    Ranks       *r     = c->model->ranks;
    const size_t state = before_bytes(c),
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
    bool ok = send_order(r, &o, item, bytes) || exchange_failed(r, err);
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

/* An order of which all ranks do more before ranks_done. */
static bool order_meeting(const tblock_context *c, OrderKind kind, int32_t seq, Error *err)
{
    Ranks *r = c->model->ranks;
    if (!gives_orders(r))
        return true;
    Order o = { .kind = (int32_t)kind, .id = c->id, .number = { seq } };
    ranks_begin(r);
    bool ok = send_order(r, &o, NULL, 0) || exchange_failed(r, err);
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
                       Error *err)
{
    Ranks *r   = c->model->ranks;
    Order  o   = { .kind = ORDER_START, .id = c->id, .number = { seq, first } };
    Error  own = { 0 };
    ranks_begin(r);
    bool ok = send_order(r, &o, tokens, n * sizeof *tokens) || exchange_failed(r, err);
    if (ok) {
        state_start(c, seq, tokens, n, first, &own);
        ok = agree(r, &own, "", err);
    }
    ranks_end(r);
    if (!ok)
        context_rewind(c, seq, 0);
    return ok;
}

bool ranks_done(const tblock_context *c, Error *err)
{
    Ranks *r = c->model->ranks;
    if (!r)
        return true;
    bool ok = !r->error.status || exchange_failed(r, err);
    if (gives_orders(r))
        ranks_end(r);
    return ok;
}

void ranks_order_rewind(tblock_context *c, int32_t seq, int length)
{
    if (gives_orders(c->model->ranks))
        order(c->model->ranks, ORDER_REWIND, c->id, seq, length, 0, 0);
}

void ranks_order_copy(tblock_context *c, int32_t from, int32_t to, int32_t n, bool done)
{
    if (gives_orders(c->model->ranks))
        order(c->model->ranks, ORDER_COPY, c->id, from, to, n, done);
}

void ranks_dismiss(Ranks *r) { order(r, ORDER_END, 0, 0, 0, 0, 0); }

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

/* What rank 0 has named by a number. */
typedef struct Named { tblock_model *model; tblock_context *context; } Named;

typedef struct Follower {
    Ranks *ranks;
    Named *named;
    size_t n, cap;
    Order  order;
    char  *with;           /* of the order */
    size_t with_cap;
    /* Of an order to decode. The states that its items end with are of no use here. */
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
        return exchange_failed(f->ranks, f->err);
    size_t n = (size_t)o->n_bytes, id = (size_t)o->id;
    if (o->n_bytes < 0 || n > MOST_BYTES || o->id < 0)
        return fail(f->err, SYSTEM, "expected an order of at most %d bytes, found %d", MOST_BYTES,
                    (int)o->n_bytes);
    if (!ARRAY_ROOM(f->with, f->with_cap, n + 1) || !ARRAY_ROOM(f->named, f->cap, id + 1))
        return no_memory("ranks", f->err);
    for (; f->n <= id; f->n++)
        f->named[f->n] = (Named){ NULL, NULL };
    if (n <= WITH)
        memcpy(f->with, o->with, n);
    else if (!ranks_broadcast(f->ranks, f->with, n, false))
        return exchange_failed(f->ranks, f->err);
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
    return agree(f->ranks, &own, hash, f->err);
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
    return agree(f->ranks, &own, "", f->err);
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
    return agree(f->ranks, &own, "", f->err);
}

/* So that the residual stream is gathered where rank 0 shows it. */
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
                 width = (size_t)c->model->weights.cfg.d_model, state = before_bytes(c);
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
    return agree(f->ranks, &own, here ? m->lora[n]->sha256 : "", f->err);
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
    return agree(f->ranks, &own, "", f->err);
}

static bool follow(Follower *f, bool *end)
{
    const Order    *o = &f->order;
    Named          *n = &f->named[o->id];
    tblock_context *c = n->context;
    switch ((OrderKind)o->kind) {
    case ORDER_END:     *end = true; return true;
    case ORDER_OPEN:    return follow_open(f);
    case ORDER_CONTEXT: return follow_context(f);
    case ORDER_LORA:    return follow_lora(f);
    case ORDER_HASH:    return n->model && check_hash_here(f->ranks, &n->model->source, f->err);
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
    if (!ok) { /* without effect if it was the exchange that failed */
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
