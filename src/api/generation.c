/* api/generation.c: sequences that sample their own next tokens, any number of them in one batch.
 *
 * A step has three parts: each generation plans what it computes (plan_step), all of that is one
 * batch, and each samples from its logits (take_step). A generation computes at positions of its
 * own sequence and samples by its own seed and index, so the others never change its bits. */
#include "api/generation.h"

#include <string.h>

#include "base/fp_env.h"
#include "base/memory.h"
#include "base/sound.h"
#include "runtime/sampler.h"

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

/* ---- Text and ends --------------------------------------------------------------------------- */

/* Text after a constraint's trigger, and that of the first min_tokens, is not searched for stop
 * strings. */
static bool put_text(tblock_generation *g, const char *text, size_t n)
{
    const bool awake = fitting_awake(&g->fit);
    for (; !awake && n && *g->skip && *text == *g->skip; n--)
        g->skip++, text++;
    if (!awake && n)
        g->skip = "";
    if (!awake && g->n_ids - g->n_given > (size_t)g->opt.sampling.min_tokens)
        return stop_texts_put(&g->stop, text, n, &g->text, &g->error);
    return stop_texts_flush(&g->stop, &g->text, &g->error)
        && text_out_add(&g->text, text, n, &g->error);
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

bool generation_resume(tblock_generation *g, Error *err)
{
    if (g->n_known == g->n_given)
        return true;
    g->n_ids = g->n_given;
    for (bool more = !is_over(g); more && g->n_ids < g->n_known;)
        more = take_token(g, g->ids[g->n_ids]);
    g->n_known = g->n_ids;
    return g->end != TBLOCK_END_FAILED || fail(err, g->error.status, "%s", g->error.msg);
}

/* ---- A step ---------------------------------------------------------------------------------- */

static bool reserve_ids(tblock_generation *g, size_t n, Error *err)
{
    return ARRAY_ROOM(g->ids, g->cap_ids, n) || no_memory(NULL, err);
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
        g->n_items = 1 + generation_propose(g, n_drafting);
        return reserve_ids(g, g->n_ids + g->n_items + g->guess.most, err);
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

static void report_token(tblock_generation *g, size_t index, int32_t token, const float *logits)
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
    report_token(g, g->n_ids, id, g->logits);
    if (sampler_ends(&g->opt.sampling, id)) {
        end_with(g, TBLOCK_END_TOKEN);
        return false;
    }
    return take_token(g, id);
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
        generation_adapt(g, g->n_ids - before, n);
    }
}

/* Reports the prompt's own tokens to on_token, with their logits. */
static bool report_prompt(tblock_generation *g)
{
    for (size_t i = 0; i < g->n_items; i++) {
        size_t next = g->n_held + i + 1;
        if (next <= g->told_from)
            continue;
        if (!context_check_logits(g->context, g->first_item + i, &g->error))
            return give_up(g);
        if (next < g->n_known)
            report_token(g, next, g->ids[next], tblock_logits(g->context, g->first_item + i));
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
        if (g->told_from != SIZE_MAX && !report_prompt(g))
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

/* ---- The batch ------------------------------------------------------------------------------- */

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
    for (size_t i = 0; i < n; i++) /* those of another context belong to its thread */
        if (g[i]->context != c)
            return fail(err, USAGE, "generation %zu: expected one of this context, found another's",
                        i);
    for (size_t i = 0; i < n; i++)
        n_drafting += g[i]->end == TBLOCK_GOES_ON && g[i]->n_held >= g[i]->n_known && drafts(g[i]);
    for (size_t i = 0; ok && i < n; i++) {
        if (g[i]->n_items > 0)
            ok = fail(err, USAGE, "generation %zu: expected each once, found it twice", i);
        ok = ok && plan_step(g[i], n_drafting, &left, left == budget, err);
    }
    ok = ok && (!c->drafter || generations_ask(c, g, n, budget, steps_to_come(g, n), err));
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
