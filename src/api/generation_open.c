/* api/generation_open.c: opens and closes generations: checks and copies their options, takes the
 * sequence that already holds most of the prompt. */
#include "api/generation.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sound.h"
#include "runtime/sampler.h"

enum { DRAFT_MATCH = 2, DRAFT_START = 4 };

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
    g->opt.stop_ids                    = NULL;
    g->opt.sampling.end_ids            = ids;
    g->opt.sampling.n_end_ids          = n_stop_ids;
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

/* Are K and V of a sequence what g would compute, and may it use them? */
static bool may_share(const tblock_generation *g, int32_t seq)
{
    const tblock_context *c = g->context;
    return c->seq_lora[seq] == c->lora && c->seq_tokens[seq].scope == g->opt.cache_scope;
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
    if (!may_share(g, seq) || c->model->weights.cfg.bidirectional) /* these: on the whole text */
        return 0;
    while (n < most && c->seq_tokens[seq].id[n] == g->ids[n])
        n++;
    /* a recurrent state covers all tokens that the sequence holds */
    return n < held && config_has_state(&c->model->weights.cfg) ? 0 : n;
}

/* Is a sequence free, and all of it a prefix of ids? */
static bool is_whole_prefix(const tblock_generation *g, int32_t seq)
{
    const SeqTokens *t = &g->context->seq_tokens[seq];
    const size_t     n = (size_t)g->context->kv.seq[seq].length;
    return !t->taken && n && n <= g->n_ids && may_share(g, seq)
        && memcmp(t->id, g->ids, n * sizeof *t->id) == 0;
}

/* The sequence with the longest common prefix, and its length; of several, one that holds nothing
 * else. -1: none has any. */
static int32_t longest_prefix(const tblock_generation *g, size_t *n)
{
    int32_t best = -1;
    *n           = 0;
    for (int32_t s = 0; s < g->context->n_seqs; s++) {
        size_t same = common_tokens(g, s);
        if (same > *n || (same && same == *n && is_whole_prefix(g, s))) {
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
static int32_t lru_sequence(const tblock_context *c, int32_t but)
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
    int32_t         from = longest_prefix(g, &n);
    int32_t         to   = from >= 0 && is_whole_prefix(g, from) ? from : lru_sequence(c, from);
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
    c->seq_tokens[to].scope = g->opt.cache_scope;
    return true;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

tblock_generation *generation_open(tblock_context *c, const tblock_generation_options *opt,
                                   size_t told_from, Error *err)
{
    if (!check_options(c, opt, err) || !context_fits(c, (int)opt->n_ids, err)
        || (c->sampler && !sampler_set(c->sampler, &opt->sampling, err)))
        return NULL;
    if (!c->sampler) /* the first makes the sampler's scratch memory, which all share */
        c->sampler = sampler_new(c->model->weights.cfg.vocab_size, &opt->sampling, err);
    if (!c->sampler)
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
    if (!ok || !generation_resume(g, err) || !take_sequence(g, err)) {
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
