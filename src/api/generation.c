/* api/generation.c: sequences that sample their own next tokens, any number of them in one batch.
 *
 * A step has three parts: each generation plans what it computes (plan_step), all of that is one
 * batch, and each samples from its logits (take_step). A generation computes at positions of its
 * own sequence and samples by its own seed and index, so the others never change its bits. */
#include "api/drafter.h"
#include "api/pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/memory.h"
#include "base/sound.h"
#include "runtime/sampler.h"

enum {
    DRAFT_MOST    = 63,
    DRAFT_START   = 4,
    DRAFT_MATCH   = 2,
    DRAFT_LONGEST = 16,
    WRONG_ROW     = 3, /* consecutive drafts of a model that may be wholly rejected ... */
    WRONG_PAUSE   = 5, /* ... before it drafts more rarely: at least once in 2^5 steps */
    LIKELY_MOST   = 7,  /* of fitting_likely: 8 in a batch cost little more than 1 */
    LIKELY_WRONG  = 16, /* that may be rejected, besides as many as were accepted */
    DRAFT_WINDOW  = 65536
};

/* Between steps (generation_is_sound):
 * - ids [n_ids] holds n_given of the prompt, resumed ones up to n_known, then those sampled here.
 *   The first n_held are computed. After prefill, unless it has ended, only the last one is not: a
 *   token is sampled as soon as there are logits for it.
 * - From opening to closing it alone has sequence `seq`, which is taken. That holds the n_held
 *   tokens, and perhaps rejected draft tokens after them, which the next step drops. Callers may
 *   drop more (tblock_seq_rewind): then the next step fails, so this is not asserted.
 * - It has no items in a batch. One that failed has its reason in `error`. */
struct tblock_generation {
    tblock_context           *context;
    tblock_generation_options opt; /* its arrays and texts are in `memory` */
    void                     *memory;
    int32_t                   seq;
    int32_t                  *ids; /* [cap_ids] prompt, then generated */
    size_t                    n_ids, cap_ids, n_given, n_reused;
    size_t                    n_known; /* tokens to prefill before the first is sampled here */
    size_t                    told_from; /* first position whose prompt logits go to on_token;
                                          * SIZE_MAX: none */
    size_t                    n_held; /* tokens that are computed; the sequence may hold more */
    TextStream               *stream; /* NULL: the model has no tokenizer */
    const char               *skip;   /* of opt.skip, what may still come */
    StopTexts                 stop;
    Fitting                   fit;
    Pool                      pool;
    TextOut                   text;
    atomic_bool               stopped;
    int                       end;
    Error                     error;
    const float              *logits; /* of batch number n_decodes */
    uint64_t                  n_decodes;
    size_t                    n_steps, n_proposed, n_accepted;
    size_t                    draft_length; /* tokens to draft: more while all are accepted */
    int32_t                   draft[DRAFT_MOST];
    Guess                     guess;  /* request to the context's drafter */
    int                       n_wrong, pause; /* its last drafts that were wholly rejected; steps
                                               * for which it is not asked */
    bool                      likely; /* the draft is from fitting_likely; totals of these: */
    size_t                    n_likely, n_likely_right;
    size_t                    n_items, first_item; /* of the current step */
};

bool generation_is_sound(const tblock_generation *g)
{
    const tblock_context *c     = g->context;
    const bool            samples = g->end == TBLOCK_GOES_ON && g->n_held >= g->n_known;
    return g->n_given >= 1 && g->n_given <= g->n_known && g->n_known <= g->n_ids
        && g->n_ids <= g->cap_ids && g->n_ids <= (size_t)c->n_ctx && g->n_reused <= g->n_held
        && g->n_held <= g->n_ids && (!samples || g->n_held + 1 == g->n_ids) && g->seq >= 0
        && g->seq < c->n_seqs && c->seq_tokens[g->seq].taken && g->n_items == 0
        && (g->end != TBLOCK_END_FAILED || g->error.status) && g->n_accepted <= g->n_proposed
        && g->n_likely_right <= g->n_likely && g->draft_length <= DRAFT_MOST
        && (!g->pool.sum || g->pool.first + g->pool.n <= g->pool.n_given);
}

/* ---- Options and sequences ------------------------------------------------------------------- */

/* The limits of a model that predicts nothing, or that is bidirectional. */
static bool check_model(const tblock_context *c, const tblock_generation_options *o, Error *err)
{
    if ((o->pool == TBLOCK_POOL_NONE || o->max_tokens >= 0 || o->prompt_logits)
        && !model_predicts(c->model, err))
        return false;
    return !c->model->weights.cfg.bidirectional || o->n_ids <= (size_t)c->n_batch
        || fail(err, USAGE, "ids: expected at most the %d tokens that are computed at once, as "
                            "each sees the whole text (bidirectional), found %zu", c->n_batch,
                o->n_ids);
}

static bool check_options(const tblock_context *c, const tblock_generation_options *o, Error *err)
{
    const int vocab = c->model->weights.cfg.vocab_size;
    if (o->n_ids == 0)
        return fail(err, USAGE, "ids: expected at least one token, found none");
    if (o->n_ids > (size_t)c->n_ctx)
        return fail(err, USAGE,
                    "ids: expected at most the %d tokens that the context holds, found %zu",
                    c->n_ctx, o->n_ids);
    if (!check_tokens("ids: ", o->ids, o->n_ids, vocab, err)
        || !check_model(c, o, err))
        return false;
    if (o->n_drawn >= o->n_ids)
        return fail(err, USAGE, "n_drawn: expected fewer than the %zu ids, found %zu", o->n_ids,
                    o->n_drawn);
    if (o->max_tokens < -1)
        return fail(err, USAGE, "max_tokens: expected at least -1, found %d", o->max_tokens);
    if (!check_range("draft", o->draft, 0, DRAFT_MOST, err))
        return false;
    if (o->draft > 0 && config_has_state(&c->model->weights.cfg))
        return fail(err, USAGE, "draft: expected 0 with this model, whose state (state_layers) "
                                "cannot forget a wrong guess, found %d", o->draft);
    if (o->draft_match < 0)
        return fail(err, USAGE, "draft_match: expected at least 0, found %d", o->draft_match);
    for (size_t i = 0; i < o->n_stop_texts; i++)
        if (!*o->stop_texts[i])
            return fail(err, USAGE, "stop text %zu: expected a text, found an empty one", i);
    if (o->n_stop_texts && o->constraint && !constraint_sleeps(o->constraint))
        return fail(err, USAGE, "stop texts: expected none beside a constraint, which says where "
                                "the text may end, found %zu", o->n_stop_texts);
    return o->n_stop_texts == 0 || c->model->tokenizer
        || fail(err, INPUT, "%s: no tokenizer, which stop texts need", c->model->source.path);
}

/* Copies the options: pointers to texts, ids and bytes in one allocation. */
static bool copy_options(tblock_generation *g, const tblock_generation_options *o, Error *err)
{
    tblock_model_info m;
    tblock_model_describe(g->context->model, &m);
    const bool     skips      = !o->constraint || constraint_sleeps(o->constraint);
    const char    *skip       = o->skip && skips ? o->skip : "";
    const int32_t *stop_ids   = o->stop_ids ? o->stop_ids : m.eos;
    const size_t   n_stop_ids = o->stop_ids ? o->n_stop_ids : (size_t)m.n_eos;
    const size_t   n_bias     = o->sampling.n_bias;
    size_t         bytes      = o->n_stop_texts * sizeof(char *) + n_stop_ids * sizeof(int32_t)
        + n_bias * (sizeof(int32_t) + sizeof(float)) + strlen(skip) + 1;
    for (size_t i = 0; i < o->n_stop_texts; i++)
        bytes += strlen(o->stop_texts[i]) + 1;
    const char **texts = g->memory = malloc(bytes);
    g->ids                         = malloc(o->n_ids * sizeof *g->ids);
    if (!g->memory || !g->ids)
        return no_memory(NULL, err);
    int32_t *ids  = (int32_t *)(texts + o->n_stop_texts), *bias_ids = ids + n_stop_ids;
    float   *bias = (float *)(bias_ids + n_bias);
    char    *at   = (char *)(bias + n_bias);
    for (size_t i = 0; i < o->n_stop_texts; i++) {
        texts[i] = strcpy(at, o->stop_texts[i]);
        at += strlen(at) + 1;
    }
    if (n_stop_ids)
        memcpy(ids, stop_ids, n_stop_ids * sizeof *ids);
    if (n_bias) {
        memcpy(bias_ids, o->sampling.bias_ids, n_bias * sizeof *bias_ids);
        memcpy(bias, o->sampling.bias, n_bias * sizeof *bias);
    }
    memcpy(g->ids, o->ids, o->n_ids * sizeof *g->ids);
    g->n_ids = g->cap_ids = g->n_known = o->n_ids;
    g->n_given                         = o->n_ids - o->n_drawn;
    g->opt                             = *o;
    g->opt.ids                         = NULL;
    g->opt.stop_ids                    = ids;
    g->opt.n_stop_ids                  = n_stop_ids;
    g->opt.sampling.bias_ids           = bias_ids;
    g->opt.sampling.bias               = bias;
    g->opt.sampling.n_given            = g->n_given;
    g->opt.draft_match                 = o->draft_match ? o->draft_match : DRAFT_MATCH;
    g->skip = g->opt.skip = strcpy(at, skip);
    g->stop               = (StopTexts){ .texts = texts, .n = o->n_stop_texts };
    g->fit                = (Fitting){ .constraint = o->constraint,
                                       .end        = ids,
                                       .n_end      = n_stop_ids,
                                       .vocab_size = m.vocab_size };
    return fitting_begin(&g->fit, g->context->model, err)
        && pool_begin(&g->pool, o->pool, &g->context->model->weights, g->n_given, err);
}

/* The length of the prefix of g->ids that a sequence holds. Tokens whose logits or states are
 * needed are computed again: at least the last one. */
static size_t common_tokens(const tblock_generation *g, int32_t seq)
{
    const tblock_context *c    = g->context;
    const size_t          held = (size_t)c->kv.seq[seq].length;
    size_t                most = g->pool.sum ? g->pool.first : g->n_ids - 1, n = 0;
    most                       = most < g->told_from ? most : g->told_from;
    most                       = most < held ? most : held;
    if (c->seq_lora[seq] != c->lora) /* its K and V are those of other adapters */
        return 0;
    if (c->model->weights.cfg.bidirectional) /* they depend on the whole text */
        return 0;
    while (n < most && c->seq_tokens[seq].id[n] == g->ids[n])
        n++;
    /* a recurrent state covers all tokens that the sequence holds */
    return n < held && config_has_state(&c->model->weights.cfg) ? 0 : n;
}

/* Is a sequence free, and all of it a prefix of ids? */
static bool begins_with(const tblock_generation *g, int32_t seq)
{
    const SeqTokens *t = &g->context->seq_tokens[seq];
    const size_t     n = (size_t)g->context->kv.seq[seq].length;
    return !t->taken && n && n <= g->n_ids && g->context->seq_lora[seq] == g->context->lora
        && memcmp(t->id, g->ids, n * sizeof *t->id) == 0;
}

/* The sequence with the longest common prefix, and its length; of several, one that holds nothing
 * else. -1: none has any. */
static int32_t longest_beginning(const tblock_generation *g, size_t *n)
{
    int32_t best = -1;
    *n           = 0;
    for (int32_t s = 0; s < g->context->n_seqs; s++) {
        size_t same = common_tokens(g, s);
        if (same > *n || (same && same == *n && begins_with(g, s))) {
            best = s;
            *n   = same;
        }
    }
    return best;
}

/* When a sequence was last used; 0: it holds nothing. */
static uint64_t last_use(const tblock_context *c, int32_t seq)
{
    return c->kv.seq[seq].length ? c->seq_tokens[seq].used : 0;
}

/* The least recently used free sequence; `but` only if there is no other. -1: none. */
static int32_t least_loss(const tblock_context *c, int32_t but)
{
    int32_t best = -1;
    for (int32_t s = 0; s < c->n_seqs; s++)
        if (!c->seq_tokens[s].taken && s != but
            && (best < 0 || last_use(c, s) < last_use(c, best)))
            best = s;
    return best < 0 && but >= 0 && !c->seq_tokens[but].taken ? but : best;
}

/* A prefix that another sequence holds is shared, so that one keeps it. If all of that sequence is
 * the prefix, or no other is free, the sequence itself is taken. */
static bool take_sequence(tblock_generation *g, Error *err)
{
    tblock_context *c = g->context;
    size_t          n;
    Error           why  = { 0 };
    int32_t         from = longest_beginning(g, &n);
    int32_t         to   = from >= 0 && begins_with(g, from) ? from : least_loss(c, from);
    if (to < 0)
        return fail(err, USAGE,
                    "expected a free sequence, but all %d of the context are in use by "
                    "generations",
                    c->n_seqs);
    bool shared = from == to || (n && tblock_seq_copy(c, from, to, (int32_t)n, &why));
    if (why.status == SYSTEM)
        return fail(err, SYSTEM, "%s", why.msg);
    if (!shared || !context_rewind(c, to, (int)n)) { /* none, or lost to a sliding window */
        n = 0;
        context_rewind(c, to, 0);
    }
    g->seq    = to;
    g->n_held = g->n_reused = n;
    c->seq_tokens[to].taken = true;
    return true;
}

/* ---- Text and ends --------------------------------------------------------------------------- */

/* Text after a constraint's trigger is not searched for stop strings. */
static bool put_text(tblock_generation *g, const char *text, size_t n)
{
    if (fitting_awake(&g->fit))
        return stop_texts_flush(&g->stop, &g->text, &g->error)
            && text_out_add(&g->text, text, n, &g->error);
    for (; n && *g->skip && *text == *g->skip; n--)
        g->skip++, text++;
    if (n)
        g->skip = "";
    return stop_texts_put(&g->stop, text, n, &g->text, &g->error);
}

/* With the rest of the text: half a character, and what might have become a stop string. */
static void end_with(tblock_generation *g, int why)
{
    size_t      n    = 0;
    const char *rest = g->stream ? text_stream_flush(g->stream, &n) : "";
    bool        told = put_text(g, rest, n) && stop_texts_flush(&g->stop, &g->text, &g->error);
    g->end           = !told                                        ? TBLOCK_END_FAILED
                       : g->stop.found && why != TBLOCK_END_STOPPED ? TBLOCK_END_TEXT
                                                                    : why;
}

/* One generation ends with its error; the text stays what it was. */
static bool give_up(tblock_generation *g)
{
    g->end = TBLOCK_END_FAILED;
    return false;
}

/* Does the constraint allow another token? g->fit says which. */
static bool fits_on(tblock_generation *g)
{
    Error why;
    if (!g->fit.constraint)
        return true;
    if (!fitting_allow(&g->fit, &why)) {
        fail(&g->error, why.status, "%s: %s", g->context->model->source.path, why.msg);
        return give_up(g);
    }
    if (!g->fit.n_texts)
        end_with(g, TBLOCK_END_FITS);
    return g->fit.n_texts;
}

/* Whether something other than a token ends it now. */
static bool is_over(tblock_generation *g)
{
    const size_t n_sampled = g->n_ids - g->n_given, most = (size_t)g->opt.max_tokens;
    if (g->stop.found)
        end_with(g, TBLOCK_END_TEXT);
    else if (atomic_load(&g->stopped))
        end_with(g, TBLOCK_END_STOPPED);
    else if (!fits_on(g))
        return true;
    else if (g->opt.max_tokens != 0 && (g->opt.max_tokens < 0 || n_sampled >= most))
        end_with(g, TBLOCK_END_LENGTH);
    else if (g->n_ids >= (size_t)g->context->n_ctx)
        end_with(g, TBLOCK_END_CONTEXT);
    return g->end != TBLOCK_GOES_ON;
}

static bool ends_text(const tblock_generation *g, int32_t id)
{
    for (size_t i = 0; i < g->opt.n_stop_ids; i++)
        if (g->opt.stop_ids[i] == id)
            return true;
    return false;
}

/* The next token is this one, which does not end the text. May another follow? */
static bool take_token(tblock_generation *g, int32_t id)
{
    size_t n;
    g->ids[g->n_ids++] = id;
    if (g->fit.constraint && !fitting_take(&g->fit, id, &g->error))
        return give_up(g);
    if (g->stream) {
        const char *text = text_stream_put(g->stream, id, &n);
        if (!put_text(g, text, n))
            return give_up(g);
    }
    return !is_over(g);
}

/* Takes the resumed tokens among ids. The text may end before the last of them. */
static bool take_resumed(tblock_generation *g, Error *err)
{
    if (g->n_known == g->n_given)
        return true;
    g->n_ids = g->n_given;
    for (bool more = !is_over(g); more && g->n_ids < g->n_known;)
        more = take_token(g, g->ids[g->n_ids]);
    g->n_known = g->n_ids;
    return g->end != TBLOCK_END_FAILED || fail(err, g->error.status, "%s", g->error.msg);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* The first generation makes the sampler's scratch memory, which all share. */
static bool check_sampling(tblock_context *c, const tblock_sampler_options *o, Error *err)
{
    if (c->sampler)
        return sampler_set(c->sampler, o, err);
    c->sampler = sampler_new(c->model->weights.cfg.vocab_size, o, err);
    return c->sampler != NULL;
}

tblock_generation *generation_open(tblock_context *c, const tblock_generation_options *opt,
                                   size_t told_from, Error *err)
{
    if (!check_options(c, opt, err) || !check_sampling(c, &opt->sampling, err))
        return NULL;
    tblock_generation *g = calloc(1, sizeof *g);
    if (!g) {
        no_memory(NULL, err);
        return NULL;
    }
    g->context      = c;
    g->seq          = -1;
    g->draft_length = DRAFT_START;
    g->told_from    = told_from;
    bool ok         = copy_options(g, opt, err);
    if (ok && c->model->tokenizer) {
        /* the text begins here if only the BOS precedes it: drop its dummy space, unless there is
         * a constraint, to which every byte counts */
        bool only_bos = g->n_ids == 1 && g->ids[0] == c->model->weights.cfg.bos;
        g->stream     = text_stream_new(c->model->tokenizer, !only_bos || opt->constraint);
        ok            = g->stream || no_memory(NULL, err);
    }
    if (!ok || !take_resumed(g, err) || !take_sequence(g, err)) {
        tblock_generation_close(g);
        return NULL;
    }
    ASSERT_SOUND(generation_is_sound(g));
    return g;
}

tblock_generation *tblock_generation_open(tblock_context *c, const tblock_generation_options *opt,
                                          tblock_error *err)
{
    NEED(NULL, err, c, opt);
    ALONE(c);
    return generation_open(c, opt, opt->prompt_logits ? 0 : SIZE_MAX, err);
}

void tblock_generation_close(tblock_generation *g)
{
    if (!g)
        return;
    ALONE(g->context);
    if (g->seq >= 0) {
        g->context->seq_tokens[g->seq].taken = false;
        g->context->seq_tokens[g->seq].used  = ++g->context->n_closed;
    }
    text_stream_free(g->stream);
    fitting_end(&g->fit);
    pool_end(&g->pool);
    text_out_free(&g->stop.held);
    text_out_free(&g->text);
    free(g->ids);
    free(g->memory);
    free(g);
}

void tblock_generation_stop(tblock_generation *g)
{
    NEED(, NULL, g);
    atomic_store(&g->stopped, true);
}

/* ---- A step ---------------------------------------------------------------------------------- */

static bool reserve_ids(tblock_generation *g, size_t n, Error *err)
{
    return ARRAY_ROOM(g->ids, g->cap_ids, n) || no_memory(NULL, err);
}

/* The longest possible draft: no longer than the text may grow, nor than `most`. */
static size_t draft_room(const tblock_generation *g, size_t most)
{
    const size_t left = (size_t)g->opt.max_tokens - (g->n_ids - g->n_given) - 1;
    const size_t room = (size_t)g->context->n_ctx - g->n_ids;
    most              = most < DRAFT_MOST ? most : DRAFT_MOST;
    most              = most < room ? most : room;
    return g->opt.max_tokens && left < most ? left : most;
}

/* Draft what the constraint forces or makes likely. */
static size_t propose_fitting(tblock_generation *g, size_t most)
{
    size_t n  = fitting_forced(&g->fit, g->draft, most);
    g->likely = n == 0 && g->n_likely <= LIKELY_WRONG + 2 * g->n_likely_right;
    if (g->likely)
        n = fitting_likely(&g->fit, g->draft, most < LIKELY_MOST ? most : LIKELY_MOST);
    g->likely = g->likely && n;
    return n;
}

/* Draft, as one of n_drafting generations. Forced tokens come first; the drafter is asked later.
 * More than draft + 1 rows in a step would cost more than they can gain, so all share them. */
static size_t propose(tblock_generation *g, size_t n_drafting)
{
    const size_t most = draft_room(g, (size_t)g->context->n_batch - 1);
    DraftOptions o    = { .min_match = g->opt.draft_match,
                          .max_match = DRAFT_LONGEST,
                          .window    = DRAFT_WINDOW };
    if (config_has_state(&g->context->model->weights.cfg)) /* it cannot roll back rejected tokens */
        return 0;
    size_t n = g->fit.constraint ? propose_fitting(g, most) : 0;
    if (n || !g->opt.draft)
        return n;
    const size_t rows = ((size_t)g->opt.draft + 1) / (n_drafting ? n_drafting : 1);
    n                 = rows > 1 ? rows - 1 : 0;
    n = n < g->draft_length ? n : g->draft_length;
    n = n < most ? n : most;
    if (o.max_match < o.min_match)
        o.max_match = o.min_match;
    if (!g->context->drafter)
        return draft_ngram(g->ids, g->n_ids, &o, g->draft, n);
    if (g->pause > 0)
        g->pause--;
    else
        g->guess.most = n;
    return 0;
}

/* A batch that failed may have computed more of the prompt. That stays, since a sliding window may
 * have advanced with it; but logits for on_token are lost, and so are states that were not
 * pooled. */
static void keep_prompt(tblock_generation *g, size_t length)
{
    const int32_t *id   = g->context->seq_tokens[g->seq].id;
    const size_t   pooled = g->pool.sum && !pool_is_full(&g->pool) ? g->pool.first + g->pool.n
                                                                   : g->n_known - 1;
    size_t         most = length < g->n_known ? length : g->n_known - 1;
    if (g->context->model->weights.cfg.bidirectional)
        return;
    most                = most < pooled ? most : pooled;
    most                = most < g->told_from ? most : g->told_from;
    while (g->n_held < most && id[g->n_held] == g->ids[g->n_held])
        g->n_held++;
}

/* Makes the sequence hold exactly the computed tokens: drops rejected draft tokens, and other
 * tokens of a batch that failed. Fails if some are missing. */
static bool settle_sequence(tblock_generation *g)
{
    const int length = g->context->kv.seq[g->seq].length;
    keep_prompt(g, (size_t)length);
    const int held = (int)g->n_held;
    if (length < held)
        return fail(&g->error, USAGE,
                    "sequence %d: expected the %d tokens of its generation, found %d", g->seq, held,
                    length);
    char lost[KV_LOST];
    return length == held || context_rewind(g->context, g->seq, held)
        || fail(&g->error, USAGE, "sequence %d: cannot go on after token %d: %s", g->seq, held,
                kv_cache_lost(&g->context->kv.shape, lost));
}

/* Are the logits after the prompt needed? Not if only its states are. */
static bool goes_on(const tblock_generation *g) { return !g->pool.sum || g->opt.max_tokens >= 0; }

static bool drafts(const tblock_generation *g) { return g->opt.draft > 0 && goes_on(g); }

/* How many of its tokens are prefilled in this step, of at most `most`; first: it is the first
 * prefill of the step. A bidirectional text is computed whole, or waits for a step of its own. */
static size_t next_tokens(const tblock_generation *g, size_t most, bool first)
{
    const size_t left = g->n_known - g->n_held;
    if (left <= most)
        return left;
    return !g->context->model->weights.cfg.bidirectional ? most : first ? left : 0;
}

/* Sets how many items it adds to the batch. first: as in next_tokens. */
static bool plan_step(tblock_generation *g, size_t n_drafting, size_t *prompt_tokens, bool first,
                      Error *err)
{
    g->guess = (Guess){ 0 };
    if (g->end != TBLOCK_GOES_ON)
        return true;
    if (atomic_load(&g->stopped)) {
        end_with(g, TBLOCK_END_STOPPED);
    } else if (!settle_sequence(g)) {
        give_up(g);
    } else if (g->n_held < g->n_known) {
        g->n_items = next_tokens(g, *prompt_tokens, first);
        *prompt_tokens -= g->n_items < *prompt_tokens ? g->n_items : *prompt_tokens;
        return reserve_ids(g, g->n_known + 1, err);
    } else {
        g->n_items = 1 + propose(g, n_drafting);
        return reserve_ids(g, g->n_ids + g->n_items + g->guess.most, err);
    }
    return true;
}

/* Steps until the last of them ends, if no stop string or token ends it before. */
static long steps_to_come(tblock_generation *const *g, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t left = (size_t)g[i]->context->n_ctx - g[i]->n_ids,
               sampled = g[i]->n_ids - g[i]->n_given, asked = (size_t)g[i]->opt.max_tokens;
        if (g[i]->opt.max_tokens != 0)
            left = g[i]->opt.max_tokens < 0 ? 0 : asked - sampled < left ? asked - sampled : left;
        if (g[i]->end == TBLOCK_GOES_ON && left > most)
            most = left;
    }
    return (long)most;
}

/* The drafter drafts for those that wait for it, and prefills the prompts of the others. */
static bool ask_drafter(tblock_context *c, tblock_generation *const *g, size_t n, size_t budget,
                        Error *err)
{
    Guess *first = NULL, **last = &first;
    for (size_t i = 0; i < n; i++) {
        tblock_generation *x = g[i];
        if (!drafts(x) || (!x->guess.most && !(x->n_items && x->n_held < x->n_known)))
            continue;
        x->guess = (Guess){ .seq      = x->seq,
                            .ids      = x->ids,
                            .n        = x->n_ids,
                            .most     = x->guess.most,
                            .sampling = &x->opt.sampling,
                            .end      = x->opt.stop_ids,
                            .n_end    = x->opt.n_stop_ids,
                            .fit      = x->fit.constraint ? &x->fit : NULL };
        *last    = &x->guess;
        last     = &x->guess.next;
    }
    if (!first || !drafter_guess(c->drafter, first, budget, steps_to_come(g, n), err))
        return !first;
    for (size_t i = 0; i < n; i++) {
        memcpy(g[i]->draft, g[i]->ids + g[i]->n_ids, g[i]->guess.n_guessed * sizeof *g[i]->draft);
        g[i]->n_items += g[i]->guess.n_guessed;
    }
    return true;
}

/* Sets where its items are in the batch. A draft stays within one chunk of n_batch tokens, so that
 * a sliding window can be rolled back to its start. */
static size_t place_step(tblock_generation *g, size_t before)
{
    const size_t n_batch = (size_t)g->context->n_batch, room = n_batch - before % n_batch;
    g->first_item        = before;
    if (g->n_held >= g->n_known && g->n_items > room)
        g->n_items = room;
    return before + g->n_items;
}

static void fill_items(const tblock_generation *g, tblock_item *item)
{
    const bool reads = g->n_held < g->n_known;
    for (size_t i = 0; i < g->n_items; i++) {
        size_t pos = g->n_held + i;
        item[i] =
            (tblock_item){ .seq         = g->seq,
                           .pos         = (int32_t)pos,
                           .want_logits = !reads || pos >= g->told_from
                               || (pos + 1 == g->n_known && goes_on(g)),
                           .token       = pos < g->n_ids ? g->ids[pos] : g->draft[pos - g->n_ids] };
    }
}

static void tell(tblock_generation *g, size_t index, int32_t token, const float *logits)
{
    if (!g->opt.on_token)
        return;
    g->opt.on_token(g->opt.user, index, token, logits);
    host_env_again(); /* whatever the callback set */
}

/* Sample a token from g->logits; false: the text ends with it, or it failed. */
static bool sample_token(tblock_generation *g)
{
    tblock_context *c = g->context;
    int32_t         id;
    Error           why;
    if (!sampler_set(c->sampler, &g->opt.sampling, &why)
        || !sampler_next(c->sampler, g->logits, g->fit.allowed, g->ids, g->n_ids,
                         (uint32_t)g->n_ids, &id, &why)) {
        fail(&g->error, why.status, "%s: %s", c->model->source.path, why.msg);
        return give_up(g);
    }
    tell(g, g->n_ids, id, g->logits);
    if (ends_text(g, id)) {
        end_with(g, TBLOCK_END_TOKEN);
        return false;
    }
    return take_token(g, id);
}

/* A wholly accepted draft makes the next one longer; else that is as long as what this step
 * sampled. A model that is always rejected is asked more and more rarely. */
static void adapt_draft(tblock_generation *g, size_t right, size_t n)
{
    const size_t most = (size_t)g->opt.draft;
    g->draft_length   = right == n ? 2 * g->draft_length : right;
    g->draft_length   = g->draft_length < 1 ? 1 : g->draft_length < most ? g->draft_length : most;
    if (right > 1)
        g->n_wrong = 0;
    else if (g->n_wrong < WRONG_ROW + WRONG_PAUSE)
        g->n_wrong++;
    g->pause = g->n_wrong > WRONG_ROW ? 1 << (g->n_wrong - WRONG_ROW) : 0;
}

/* Sample from the logits of n items, the first of which is the last token, as long as the sampled
 * tokens are those of the draft. */
static void sample_tokens(tblock_generation *g, size_t item, size_t n)
{
    const size_t before = g->n_ids, accepted = g->n_accepted;
    for (size_t i = 0; i < n; i++) {
        g->n_held    = g->n_ids; /* all are computed whose next token can be sampled */
        g->logits    = tblock_logits(g->context, item + i);
        g->n_decodes = g->context->n_decodes;
        if (!context_check_logits(g->context, item + i, &g->error)) {
            give_up(g);
            return;
        }
        if ((i == 0 && is_over(g)) || !sample_token(g) || i + 1 == n
            || g->ids[g->n_ids - 1] != g->draft[i])
            break;
        g->n_accepted++;
    }
    if (n > 1 && g->likely) {
        g->n_likely += n - 1;
        g->n_likely_right += g->n_accepted - accepted;
    } else if (n > 1) {
        adapt_draft(g, g->n_ids - before, n);
    }
}

/* Reports the prompt's own tokens to on_token, with their logits. */
static bool tell_prompt(tblock_generation *g)
{
    for (size_t i = 0; i < g->n_items; i++) {
        size_t next = g->n_held + i + 1;
        if (next <= g->told_from)
            continue;
        if (!context_check_logits(g->context, g->first_item + i, &g->error))
            return give_up(g);
        if (next < g->n_known)
            tell(g, next, g->ids[next], tblock_logits(g->context, g->first_item + i));
    }
    return true;
}

static bool embedding_is_finite(tblock_generation *g)
{
    if (g->context->allow_nan || pool_is_finite(&g->pool))
        return true;
    context_explain_nan(g->context, "the embedding", &g->error);
    return give_up(g);
}

static void take_step(tblock_generation *g)
{
    const size_t n = g->n_items, last = g->first_item + n - 1;
    if (n == 0)
        return;
    if (g->n_held < g->n_known) {
        if (g->told_from != SIZE_MAX && !tell_prompt(g))
            return;
        g->n_held += n;
        if (g->n_held < g->n_known || !embedding_is_finite(g))
            return;
        if (goes_on(g))
            sample_tokens(g, last, 1);
        else
            is_over(g);
        return;
    }
    g->n_steps++;
    g->n_proposed += n - 1;
    sample_tokens(g, g->first_item, n);
}

/* ---- The batch ------------------------------------------------------------------------------- */

static bool check_generations(const tblock_context *c, tblock_generation *const *g, size_t n,
                              Error *err)
{
    for (size_t i = 0; i < n; i++)
        if (g[i]->context != c)
            return fail(err, USAGE, "generation %zu: expected one of this context, found another's",
                        i);
    return true;
}

/* A step whose states are pooled, and the context's own observer, who sees them too. */
typedef struct PooledStep {
    tblock_generation *const *g;
    size_t                    n;
    tblock_observer           observer;
    void                     *user;
} PooledStep;

static void pool_states(void *user, const char *name, size_t first, int n_tok, const float *x,
                        size_t stride)
{
    const PooledStep *s = user;
    if (s->observer)
        s->observer(s->user, name, first, n_tok, x, stride);
    if (strcmp(name, POOLED_STATE) != 0)
        return;
    for (size_t i = 0; i < s->n; i++) {
        tblock_generation *g = s->g[i];
        for (size_t j = 0; g->pool.sum && j < g->n_items; j++) {
            const size_t item = g->first_item + j;
            if (item >= first && item - first < (size_t)n_tok)
                pool_add(&g->pool, g->n_held + j, x + (item - first) * stride);
        }
    }
}

static bool decode_step(tblock_context *c, tblock_generation *const *g, size_t n, size_t n_items,
                        Error *err)
{
    PooledStep pooled = { g, n, c->observer, c->observer_user };
    for (size_t i = 0; i < n; i++)
        if (g[i]->n_items && g[i]->pool.sum && !pool_is_full(&g[i]->pool)) {
            tblock_observe(c, pool_states, &pooled);
            c->only_last = !pooled.observer;
        }
    const bool ok = context_decode(c, c->step, n_items, err);
    tblock_observe(c, pooled.observer, pooled.user);
    return ok;
}

FP_ENV_WORK
static bool advance(tblock_context *c, tblock_generation *const *g, size_t n, size_t prompt_tokens,
                    Error *err)
{
    const size_t budget  = prompt_tokens ? prompt_tokens : (size_t)c->n_batch;
    size_t       n_items = 0, n_drafting = 0, left = budget;
    bool         ok = true;
    if (!check_generations(c, g, n, err))
        return false; /* those of another context belong to its thread */
    for (size_t i = 0; i < n; i++)
        n_drafting += g[i]->end == TBLOCK_GOES_ON && g[i]->n_held >= g[i]->n_known && drafts(g[i]);
    for (size_t i = 0; ok && i < n; i++) {
        if (g[i]->n_items > 0)
            ok = fail(err, USAGE, "generation %zu: expected each once, found it twice", i);
        ok = ok && plan_step(g[i], n_drafting, &left, left == budget, err);
    }
    ok = ok && (!c->drafter || ask_drafter(c, g, n, budget, err));
    for (size_t i = 0; ok && i < n; i++)
        n_items = place_step(g[i], n_items);
    ok = ok && context_reserve_step(c, n_items, err);
    for (size_t i = 0; ok && i < n; i++)
        fill_items(g[i], c->step + g[i]->first_item);
    forward_expect(c->forward, steps_to_come(g, n));
    ok = ok && (n_items == 0 || decode_step(c, g, n, n_items, err));
    forward_expect(c->forward, -1);
    for (size_t i = 0; i < n; i++) {
        if (ok)
            take_step(g[i]);
        g[i]->n_items = 0;
        ASSERT_SOUND(generation_is_sound(g[i]));
    }
    return ok;
}

bool tblock_advance(tblock_context *c, tblock_generation *const *generations, size_t n,
                    size_t prompt_tokens, tblock_error *err)
{
    NEED(false, err, c, generations || !n);
    ALONE(c);
    HOST_ENV_RETURN(bool, advance(c, generations, n, prompt_tokens, err));
}

void tblock_generation_describe(const tblock_generation *g, tblock_generation_info *out)
{
    NEED(, NULL, g, out);
    bool kept = g->logits && g->n_decodes == g->context->n_decodes;
    *out      = (tblock_generation_info){
             .end        = g->end,
             .stop       = (int)g->stop.which,
             .error      = &g->error,
             .seq        = g->seq,
             .ids        = g->ids,
             .n_ids      = g->n_ids,
             .n_given    = g->n_given,
             .n_reused   = g->n_reused,
             .n_held     = g->n_held,
             .text       = g->text.text ? g->text.text : "",
             .n_bytes    = g->text.n,
             .logits     = kept ? g->logits : NULL,
             .n_steps    = g->n_steps,
             .n_proposed = g->n_proposed,
             .n_accepted = g->n_accepted,
    };
}

FP_ENV_WORK
static bool embedding(const tblock_generation *g, bool normalize, float *out, Error *err)
{
    if (!g->pool.sum)
        return fail(err, USAGE, "embedding: expected a generation with the option pool");
    if (!pool_is_full(&g->pool))
        return fail(err, USAGE, "embedding: expected all %zu ids to be read, found %zu", g->n_given,
                    g->n_held);
    return pool_give(&g->pool, normalize, out, err);
}

bool tblock_generation_embedding(const tblock_generation *g, bool normalize, float *out,
                                 tblock_error *err)
{
    NEED(false, err, g, out);
    HOST_ENV_RETURN(bool, embedding(g, normalize, out, err));
}
