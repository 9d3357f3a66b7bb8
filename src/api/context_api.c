/* api/context_api.c: contexts, decode and sampling. Checks what the caller gives, then calls the
 * runtime. */
#include "api/drafter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/threads.h"
#include "model/config_keys.h"
#include "model/tensor_list.h"
#include "tblock_tools.h"

enum { MAX_SEQS = 1 << 16, MAX_THREADS = 1024 };

bool check_tokens(const char *what, const int32_t *id, size_t n, int vocab, Error *err)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= vocab)
            return fail(err, USAGE, "%stoken %zu: expected 0 to %d, found %d", what, i, vocab - 1,
                        (int)id[i]);
    return true;
}

static bool is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

bool kv_type_parse(const char *name, bool quantized, KvType *out, Error *err)
{
    *out = quantized ? KV_F16 : KV_F32;
    if (is_auto(name))
        return true;
    for (int t = 0; t < KV_COUNT; t++)
        if (strcmp(name, kv_type_name((KvType)t)) == 0) {
            *out = (KvType)t;
            return true;
        }
    return fail(err, USAGE, "kv-type: expected auto, f32, f16 or q8, found '%s'", name);
}

/* --math bf16 needs a kernel, and weights without tiny magnitudes. Either the converter has
 * recorded that there are none, or this reads all weights. */
static bool check_bf16(const tblock_context *c, Error *err)
{
    if (!c->kernels->matmul_bf16)
        return fail(err, USAGE, "math bf16: this build has no bf16 kernel for the instruction set "
                                "%s", c->kernels->isa);
    return c->model->source.stored.bf16_min
        || bf16_weights_check(&c->model->weights, c->model->source.path, err);
}

static bool pages_parse(const char *name, Pages *out, Error *err)
{
    static const char *const names[PAGES_COUNT] = {
        [PAGES_AUTO] = "auto", [PAGES_FILE] = "file", [PAGES_HUGE] = "huge"
    };
    for (int i = 0; i < PAGES_COUNT; i++)
        if (strcmp(name ? name : "auto", names[i]) == 0) {
            *out = (Pages)i;
            return true;
        }
    return fail(err, USAGE, "pages: expected auto, file or huge, found '%s'", name);
}

static bool choose(tblock_context *c, const tblock_context_options *o, KvType *kv, Error *err)
{
    const Config *cfg = &c->model->weights.cfg;
    const tblock_recorded recorded = o->recorded ? *o->recorded : (tblock_recorded){ 0 };
    if (!check_range("n_ctx", o->n_ctx, 0, 1 << 24, err)
        || !check_range("n_seqs", o->n_seqs, 0, MAX_SEQS, err)
        || !check_range("n_batch", o->n_batch, 0, MAX_BATCH, err)
        || !check_range("threads", o->threads, 0, MAX_THREADS, err)
        || !check_range("rope_length", o->rope_length, 0, 1 << 24, err)
        || !check_range("recorded n_ctx", recorded.n_ctx, 0, 1 << 24, err)
        || !check_range("recorded rope_length", recorded.rope_length, 0, 1 << 24, err))
        return false;
    c->n_ctx   = o->n_ctx ? o->n_ctx : cfg->n_ctx;
    if (!o->n_ctx && recorded.n_ctx > c->n_ctx && cfg->positions != POS_LEARNED)
        c->n_ctx = recorded.n_ctx;
    if (config_rope_length(cfg))
        c->rope_length = o->rope_length            ? o->rope_length
                         : recorded.rope_length ? recorded.rope_length
                                                   : c->n_ctx;
    else if (o->rope_length)
        return fail(err, USAGE, "rope_length: expected none with rope type %s, whose rotation "
                                "depends on no length, found %d",
                    rope_type_words[cfg->rope.type], o->rope_length);
    if (cfg->positions == POS_LEARNED && c->n_ctx > cfg->n_ctx)
        return fail(err, USAGE, "n_ctx: expected at most %d, the number of learned positions, "
                                "found %d", cfg->n_ctx,
                    c->n_ctx);
    c->n_seqs  = o->n_seqs ? o->n_seqs : 1;
    c->n_batch = context_batch(cfg, o->n_batch, c->n_ctx, c->n_seqs);
    c->threads = o->threads ? o->threads : threads_default();
    if (o->affinity && strcmp(o->affinity, "none") != 0 && strcmp(o->affinity, "cores") != 0)
        return fail(err, USAGE, "affinity: expected none or cores, found '%s'", o->affinity);
    const Model *m = &c->model->weights;
    c->kernels = kernels_select(ranks_isa(c->model, o->isa), err);
    if (!c->kernels || !numerics_choose(&c->numerics, m, o->math, o->activations, err)
        || !kv_type_parse(o->kv_type, model_is_quantized(m), kv, err))
        return false;
    c->activations = activations_name(c->numerics, m);
    return c->numerics.math != MATH_BF16 || check_bf16(c, err);
}

FP_ENV_WORK
static tblock_context *context_new(const tblock_model *m, const tblock_context_options *opt,
                                   const tblock_context *of, Error *err)
{
    static const tblock_context_options defaults = {0};
    const Config *cfg = &m->weights.cfg;
    KvType        kv  = KV_F32;
    Pages         pages = PAGES_AUTO;
    if (!opt)
        opt = &defaults;
    if (!source_need_weights(&m->source, err))
        return NULL;
    tblock_context *c = calloc(1, sizeof *c);
    if (!c) {
        no_memory(NULL, err);
        return NULL;
    }
    c->model         = m;
    c->allow_nan     = opt->allow_nan;
    c->logits_stride = round_up((size_t)cfg->vocab_size, LANES);
    bool ok = choose(c, opt, &kv, err) && pages_parse(opt->pages, &pages, err);
    if (ok) {
        KvShape shape = kv_shape(cfg, kv);
        if (m->ranks) {
            Range own           = rank_kv_heads(cfg, m->ranks->rank, m->ranks->size);
            shape.first_kv_head = own.first;
            shape.kv_heads      = own.end - own.first;
            shape.state_floats  = rank_state_floats(cfg, m->ranks->rank, m->ranks->size);
        }
        ok = kv_cache_init(&c->kv, &shape, c->n_seqs, err)
             && (c->forward =
                     forward_new(&m->weights, c->kernels, c->numerics, c->n_batch, c->threads,
                                 c->rope_length, err))
                 != NULL;
    }
    if (ok && opt->threads)
        forward_all_threads(c->forward); /* use exactly the requested number */
    if (ok && opt->affinity && strcmp(opt->affinity, "cores") == 0)
        forward_pin_threads(c->forward);
    if (ok) {
        c->next_pos   = malloc((size_t)c->n_seqs * sizeof *c->next_pos);
        c->seq_tokens = calloc((size_t)c->n_seqs, sizeof *c->seq_tokens);
        c->seq_lora   = calloc((size_t)c->n_seqs, sizeof *c->seq_lora);
        ok = (c->next_pos && c->seq_tokens && c->seq_lora) || no_memory(NULL, err);
    }
    /* an MTP layer and the other ranks have what was granted to the main model and rank 0 */
    if (ok && !of && (!m->ranks || m->ranks->rank == 0))
        ok = context_ask(c, opt->n_ctx > 0, &pages, err);
    if (ok)
        forward_pages(c->forward, pages);
    ok = ok && ranks_order_context(c, opt, of, err);
    if (!ok) {
        tblock_context_free(c);
        return NULL;
    }
    return c;
}

tblock_context *context_open(const tblock_model *m, const tblock_context_options *opt,
                             const tblock_context *of, Error *err)
{
    FpEnv           caller = fp_env_enter(); /* rotary frequencies are computed here */
    tblock_context *c      = context_new(m, opt, of, err);
    fp_env_leave(caller);
    return c;
}

tblock_context *tblock_context_new(const tblock_model *m, const tblock_context_options *opt,
                                   tblock_error *err)
{
    NEED(NULL, err, m);
    return context_open(m, opt, NULL, err);
}

void tblock_context_free(tblock_context *c)
{
    if (!c)
        return;
    ranks_order_free(c);
    forward_free(c->forward);
    kv_cache_free(&c->kv);
    sampler_free(c->sampler);
    drafter_free(c->drafter);
    for (int i = 0; c->seq_tokens && i < c->n_seqs; i++)
        free(c->seq_tokens[i].id);
    free(c->seq_tokens);
    context_free_loras(c);
    free(c->step);
    free(c->token);
    free(c->next_pos);
    free(c->logits);
    free(c->profile);
    free(c->states);
    free(c);
}

/* How many items of the batch belong to one sequence. */
static size_t count_items(const tblock_item *item, size_t n, int32_t seq)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += item[i].seq == seq;
    return count;
}

/* Does every item name a sequence, its next position and a token of the vocabulary? Changes
 * nothing. */
static bool check_batch(tblock_context *c, const tblock_item *item, size_t n, Error *err)
{
    int vocab = c->model->weights.cfg.vocab_size;
    for (int s = 0; s < c->n_seqs; s++)
        c->next_pos[s] = c->kv.seq[s].length;
    for (size_t i = 0; i < n; i++) {
        if (item[i].seq < 0 || item[i].seq >= c->n_seqs)
            return fail(err, USAGE, "item %zu: sequence: expected 0 to %d, found %d", i,
                        c->n_seqs - 1, item[i].seq);
        if (item[i].token < 0 || item[i].token >= vocab)
            return fail(err, USAGE, "item %zu: token: expected 0 to %d, found %d", i, vocab - 1,
                        item[i].token);
        int next = c->next_pos[item[i].seq]++;
        if (item[i].pos != next)
            return fail(err, USAGE, "item %zu: position: expected %d, the next position of "
                                    "sequence %d, found %d", i, next, item[i].seq,
                        item[i].pos);
        if (next >= c->n_ctx)
            return fail(err, USAGE,
                        "sequence %d: %zu more tokens after %d do not fit into the context of %d",
                        item[i].seq, count_items(item, n, item[i].seq),
                        c->kv.seq[item[i].seq].length, c->n_ctx);
    }
    return true;
}

bool model_predicts(const tblock_model *m, Error *err)
{
    const Config *c = &m->weights.cfg;
    return (!c->bidirectional && !c->headless)
        || fail(err, INPUT, "%s: expected a model that predicts the next token, found one %s: its "
                            "texts become vectors (tblock embed)", m->source.path,
                c->bidirectional ? "with attention in both directions (bidirectional)"
                                 : "without a head (headless)");
}

static bool check_logits(const tblock_context *c, const tblock_item *item, size_t n, Error *err)
{
    for (size_t i = 0; i < n; i++)
        if (item[i].want_logits)
            return model_predicts(c->model, err);
    return true;
}

/* For a bidirectional model, whole sequences must be in the batch. */
static bool check_whole(const tblock_context *c, const tblock_item *item, size_t n, Error *err)
{
    size_t run = 0;
    if (!c->model->weights.cfg.bidirectional)
        return true;
    for (size_t i = 0; i < n; i++) {
        run = i && item[i].seq == item[i - 1].seq ? run + 1 : 1;
        if ((size_t)item[i].pos + 1 != run || c->kv.seq[item[i].seq].length)
            return fail(err, USAGE, "item %zu: expected the whole text of sequence %d in one piece "
                                    "(bidirectional), found a part", i, item[i].seq);
        if (run > (size_t)c->n_batch)
            return fail(err, USAGE, "item %zu: expected at most the %d tokens that are computed at "
                                    "once, as each sees the whole text (bidirectional)", i,
                        c->n_batch);
    }
    return true;
}

/* How many of n items are computed next: as many as fit, but whole sequences if bidirectional. */
static size_t next_piece(const tblock_context *c, const tblock_item *item, size_t n)
{
    size_t most = n < (size_t)c->n_batch ? n : (size_t)c->n_batch;
    while (c->model->weights.cfg.bidirectional && most < n && item[most].seq == item[most - 1].seq)
        most--;
    return most;
}

static bool grow(void **p, size_t *cap, size_t n, size_t size, Error *err)
{
    size_t bytes;
    if (n <= *cap)
        return true;
    if (!mul_size(n, size, &bytes))
        return fail(err, SYSTEM, "a batch of %zu is too large", n);
    free(*p); /* the old contents are not needed */
    *cap = 0;
    *p   = aligned_alloc(64, round_up(bytes, 64));
    if (!*p)
        return fail(err, SYSTEM, "out of memory: %zu MB for a batch of %zu", bytes >> 20, n);
    *cap = n;
    return true;
}

/* The index of the first NaN, or n. */
static size_t first_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) { /* whole lanes without a branch */
        size_t end = n - i < LANES ? n : i + LANES;
        bool   bad = false;
        for (size_t j = i; j < end; j++)
            bad |= x[j] != x[j];
        for (size_t j = i; bad && j < end; j++)
            if (x[j] != x[j])
                return j;
    }
    return n;
}

bool context_explain_nan(const tblock_context *c, const char *what, Error *err)
{
    const char *path = c->model->source.path;
    CheckPart   finite;
    if (!data_check_finite(&finite, &c->model->source.stored, err))
        return false;
    if (finite.answer == CHECK_BAD)
        return fail(err, INPUT, "%s: %s: %s became NaN", path, finite.found, what);
    return fail(err, INPUT, "%s: %s became NaN although every weight is finite: a value became too "
                            "large for its type", path, what);
}

bool context_check_logits(const tblock_context *c, size_t i, Error *err)
{
    const size_t vocab  = (size_t)c->model->weights.cfg.vocab_size;
    const float *logits = c->token[i].logits;
    size_t       id     = logits && !c->allow_nan ? first_nan(logits, vocab) : vocab;
    char         what[64];
    if (id == vocab)
        return true;
    snprintf(what, sizeof what, "the logit of token %zu after position %d", id, c->token[i].pos);
    return context_explain_nan(c, what, err);
}

bool context_reserve_tokens(tblock_context *c, int32_t seq, size_t n, Error *err)
{
    SeqTokens *t = &c->seq_tokens[seq];
    return ARRAY_ROOM(t->id, t->cap, n) || no_memory(NULL, err);
}

bool context_reserve_step(tblock_context *c, size_t n, Error *err)
{
    if (n <= c->cap_step)
        return true;
    free(c->step);
    c->step     = malloc(n * sizeof *c->step);
    c->cap_step = c->step ? n : 0;
    return c->step || no_memory(NULL, err);
}

/* Reserves KV cache for a chunk of a batch, for each run of tokens of one sequence. */
static bool reserve_piece(tblock_context *c, const tblock_item *item, size_t n, Error *err)
{
    for (size_t j = 0, run; j < n; j += run) {
        int32_t seq = item[j].seq;
        for (run = 1; j + run < n && item[j + run].seq == seq;)
            run++;
        int pending = item[j].pos - c->kv.seq[seq].length; /* tokens of this chunk before the run */
        if (!kv_cache_reserve(&c->kv, seq, pending + (int)run, err)
            || !context_reserve_tokens(c, seq, (size_t)item[j].pos + run, err))
            return false;
    }
    return true;
}

bool context_decode(tblock_context *c, const tblock_item *items, size_t n_items, Error *err)
{
    size_t n_logits = 0;
    void  *token = c->token, *logits = c->logits;
    if (!check_batch(c, items, n_items, err)
        || !check_logits(c, items, n_items, err) || !check_whole(c, items, n_items, err))
        return false;
    c->n_items = 0;
    c->n_decodes++;
    for (size_t i = 0; i < n_items; i++)
        n_logits += items[i].want_logits;
    bool grown = grow(&token, &c->cap_items, n_items, sizeof *c->token, err)
        && grow(&logits, &c->cap_logits, n_logits, c->logits_stride * sizeof *c->logits, err);
    c->token  = token;
    c->logits = logits;
    if (!grown)
        return false;

    size_t at = 0;
    for (size_t i = 0; i < n_items; i++)
        c->token[i] = (BatchToken){
            .seq    = items[i].seq,
            .pos    = items[i].pos,
            .token  = items[i].token,
            .logits = items[i].want_logits ? c->logits + at++ * c->logits_stride : NULL,
            .before = c->before ? c->before[i] : NULL,
            .state  = c->after ? c->after[i] : NULL
        };
    forward_observe(c->forward, c->observer, c->observer_user,
                    c->only_last ? POOLED_STATE : NULL);
    for (size_t i = 0, n; i < n_items; i += n) {
        n = next_piece(c, items + i, n_items - i);
        for (size_t j = 0; c->states && j < n; j++)
            c->token[i + j].state = c->states + j * (size_t)c->model->weights.cfg.d_model;
        if (!reserve_piece(c, items + i, n, err) || !ranks_order_decode(c, c->token + i, n, err))
            return false;
        forward(c->forward, &c->kv, c->token + i, (int)n, i);
        if (!ranks_done(c, err))
            return false;
        for (size_t j = i; j < i + n; j++)
            c->seq_tokens[items[j].seq].id[items[j].pos] = items[j].token;
        if (c->drafter && c->states)
            drafter_show(c->drafter, items + i, n, c->states);
    }
    c->n_items = n_items;
    return true;
}

tblock_context *context_enter(tblock_context *c, const char *function)
{
    const uintptr_t me     = (uintptr_t)pthread_self();
    uintptr_t       nobody = 0;
    if (!atomic_compare_exchange_strong(&c->owner, &nobody, me) && nobody != me) {
        fprintf(stderr, "%s: another thread uses this context now: expected one at a time\n",
                function);
        abort();
    }
    c->owner_depth++;
    return c;
}

void context_leave(tblock_context **c)
{
    if (--(*c)->owner_depth == 0)
        atomic_store(&(*c)->owner, 0);
}

bool tblock_decode(tblock_context *c, const tblock_item *items, size_t n_items, tblock_error *err)
{
    NEED(false, err, c, items || !n_items);
    ALONE(c);
    bool ok = context_decode(c, items, n_items, err);
    for (size_t i = 0; ok && i < n_items; i++)
        ok = context_check_logits(c, i, err);
    return ok;
}

const float *tblock_logits(const tblock_context *c, size_t i)
{
    NEED(NULL, NULL, c);
    return i < c->n_items ? c->token[i].logits : NULL;
}

float *tblock_logits_take(tblock_context *c, size_t *n_rows, size_t *stride)
{
    NEED(NULL, NULL, c, n_rows, stride);
    ALONE(c);
    float *taken = NULL;
    *n_rows      = 0;
    *stride      = c->logits_stride;
    for (size_t i = 0; i < c->n_items; i++) {
        *n_rows += c->token[i].logits != NULL;
        c->token[i].logits = NULL;
    }
    if (*n_rows) {
        taken         = c->logits;
        c->logits     = NULL;
        c->cap_logits = 0;
        c->n_decodes++; /* a generation that sampled from them loses them too */
    }
    return taken;
}

int32_t tblock_seq_length(const tblock_context *c, int32_t seq)
{
    NEED(-1, NULL, c);
    return seq >= 0 && seq < c->n_seqs ? c->kv.seq[seq].length : -1;
}

bool context_rewind(tblock_context *c, int32_t seq, int length)
{
    /* Nothing changes, so the other ranks need no order; but they may not know that a sequence is
     * empty (ranks_order_start). */
    const bool same = length && length == c->kv.seq[seq].length;
    if (!kv_cache_rewind(&c->kv, seq, length))
        return false;
    if (!same)
        ranks_order_rewind(c, seq, length);
    if (length == 0) {
        context_begin_seq(c, seq);
        drafter_forget(c->drafter, seq);
    }
    return true;
}

bool tblock_seq_rewind(tblock_context *c, int32_t seq, int32_t length, tblock_error *err)
{
    NEED(false, err, c);
    ALONE(c);
    char lost[KV_LOST];
    if (seq < 0 || seq >= c->n_seqs)
        return fail(err, USAGE, "sequence: expected 0 to %d, found %d", c->n_seqs - 1, seq);
    if (length < 0 || length > c->kv.seq[seq].length)
        return fail(err, USAGE, "sequence %d: length: expected 0 to %d, found %d", seq,
                    c->kv.seq[seq].length, length);
    if (!context_rewind(c, seq, length))
        return fail(err, USAGE, "sequence %d: cannot go back to length %d: %s", seq, length,
                    kv_cache_lost(&c->kv.shape, lost));
    return true;
}

void tblock_observe(tblock_context *c, tblock_observer fn, void *user)
{
    NEED(, NULL, c);
    ALONE(c);
    c->observer      = fn;
    c->observer_user = user;
    c->only_last     = false;
}

bool tblock_profile(tblock_context *c, bool on, tblock_error *err)
{
    NEED(false, err, c);
    ALONE(c);
    if (on && !c->profile && !(c->profile = malloc(sizeof *c->profile)))
        return no_memory(NULL, err);
    if (on)
        *c->profile = (Profile){0};
    forward_profile(c->forward, on ? c->profile : NULL);
    return true;
}

size_t tblock_profile_read(const tblock_context *c, tblock_profile_row *row, size_t n)
{
    NEED(0, NULL, c, row || !n);
    size_t n_rows = c->profile ? (size_t)c->profile->n : 0;
    for (size_t i = 0; i < n_rows && i < n; i++) {
        const ProfileRow *p = &c->profile->row[i];
        row[i] = (tblock_profile_row){p->name, p->calls, p->seconds, p->bytes, p->operations};
    }
    return n_rows;
}

void tblock_context_describe(const tblock_context *c, tblock_context_info *out)
{
    NEED(, NULL, c, out);
    *out = (tblock_context_info){
        .n_ctx = c->n_ctx,
        .n_seqs = c->n_seqs,
        .n_batch = c->n_batch,
        .threads = c->threads,
        .rope_length = c->rope_length,
        .isa = c->kernels->isa,
        .math = math_name(c->numerics.math),
        .activations = c->activations,
        .kv_type = kv_type_name(c->kv.shape.type),
        .kv_bytes = c->kv.bytes,
        .kv_room = c->kv_room,
        .kv_tile_bytes = c->kv.tile_bytes * (size_t)c->kv.shape.n_layers,
        .activation_bytes =
            forward_bytes(c->forward) + c->cap_logits * c->logits_stride * sizeof *c->logits,
    };
    drafter_describe(c->drafter, out);
}

/* ---- Sampling -------------------------------------------------------------------------------- */

tblock_sampler *tblock_sampler_new(int vocab_size, const tblock_sampler_options *opt,
                                   tblock_error *err)
{
    static const tblock_sampler_options greedy = {0};
    return sampler_new(vocab_size, opt ? opt : &greedy, err);
}

void tblock_sampler_free(tblock_sampler *s) { sampler_free(s); }

bool tblock_sampler_next(tblock_sampler *s, const float *logits, const int32_t *previous,
                         size_t n_previous, uint32_t index, int32_t *token, tblock_error *err)
{
    NEED(false, err, s, logits, previous || !n_previous, token);
    FpEnv caller = fp_env_enter();
    bool  ok     = sampler_next(s, logits, NULL, previous, n_previous, index, token, err);
    fp_env_leave(caller);
    return ok;
}

uint64_t tblock_hash_floats(const float *x, size_t n)
{
    NEED(0, NULL, x || !n);
    uint64_t h = FNV_SEED;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = f32_bits(x[i]);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            bits = 0x7fc00000u; /* all NaN count as one: their bits may differ */
        h = fnv1a(h, &bits, sizeof bits);
    }
    return h;
}
