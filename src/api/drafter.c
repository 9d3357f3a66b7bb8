/* api/drafter.c: speculative decoding with a draft model. Source: Leviathan et al. 2023,
 * "Fast inference from transformers via speculative decoding". Unlike there, a draft token is
 * accepted only if it equals the sampled token, so the text is the same as without a draft. The
 * drafter samples with the same random numbers, which makes that as likely as it can be. */
#include "api/mtp.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"

/* Always prefilled, beyond the budget: the tokens of one step. */
enum { NEAR = 64 };
_Static_assert((int)MTP_UNREAD <= (int)NEAR, "room in a batch");

struct Drafter {
    tblock_context *context;
    Mtp            *mtp;     /* whose context it is; NULL: the caller's */
    Sampler        *sampler; /* over the tokens that both models have */
    int             vocab_size;
};

/* ---- Which models go together ---------------------------------------------------------------- */

static bool same_token(const Tokenizer *a, const Tokenizer *b, int id)
{
    const char *x, *y;
    size_t      n, m;
    bool        has = tokenizer_piece(a, id, &x, &n);
    return has == tokenizer_piece(b, id, &y, &m)
        && (!has || (n == m && memcmp(x, y, n) == 0
                     && tokenizer_piece_type(a, id) == tokenizer_piece_type(b, id)));
}

static bool same_tokens_in(const tblock_model *m, const tblock_model *d, Error *err)
{
    const char *path = d->source.path;
    if (!m->tokenizer != !d->tokenizer)
        return fail(err, INPUT, "%s: draft: expected a tokenizer as %s has it, found %s", path,
                    m->source.path, d->tokenizer ? "one where that has none" : "none");
    const int n  = m->tokenizer ? tokenizer_size(m->tokenizer) : m->weights.cfg.vocab_size,
              nd = d->tokenizer ? tokenizer_size(d->tokenizer) : d->weights.cfg.vocab_size;
    if (n != nd)
        return fail(err, INPUT, "%s: draft: expected the %d tokens of %s, found %d", path, n,
                    m->source.path, nd);
    for (int id = 0; m->tokenizer && id < n; id++)
        if (!same_token(m->tokenizer, d->tokenizer, id))
            return fail(err, INPUT, "%s: draft: token %d: expected the bytes and the type that %s "
                                    "has there, found others", path, id, m->source.path);
    return true;
}

/* Both models must roll back rejected tokens. */
static bool can_forget(const tblock_model *m, Error *err)
{
    return !config_has_state(&m->weights.cfg)
        || fail(err, INPUT, "%s: draft: expected a model that can forget a wrong guess, found one "
                            "with a state (state_layers)", m->source.path);
}

static bool check_drafter(const tblock_context *c, const tblock_context *d, Error *err)
{
    if (d->drafter)
        return fail(err, USAGE, "draft: expected a context without a drafter of its own, found one "
                                "that has one");
    if (d->n_seqs < c->n_seqs)
        return fail(err, USAGE, "draft: expected at least %d sequences, found %d", c->n_seqs,
                    d->n_seqs);
    return ranks_refuse(d->model, "a draft", err) && can_forget(d->model, err)
        && same_tokens_in(c->model, d->model, err);
}

/* draft == c: the MTP layer of its model. */
static Drafter *drafter_new(tblock_context *c, tblock_context *draft, Error *err)
{
    static const SamplerOptions greedy = { 0 };
    Drafter *d = calloc(1, sizeof *d);
    if (!d) {
        no_memory(NULL, err);
        return NULL;
    }
    if (draft == c)
        d->mtp = mtp_new(c, err);
    if (draft != c || d->mtp) {
        d->context    = d->mtp ? mtp_context(d->mtp) : draft;
        const int n   = c->model->weights.cfg.vocab_size,
                  m   = d->context->model->weights.cfg.vocab_size;
        d->vocab_size = n < m ? n : m;
        d->sampler    = sampler_new(d->vocab_size, &greedy, err);
    }
    if (!d->sampler) {
        drafter_free(d);
        return NULL;
    }
    return d;
}

FP_ENV_WORK
static bool draft_by(tblock_context *c, tblock_context *draft, Error *err)
{
    const size_t floats = (size_t)c->n_batch * (size_t)c->model->weights.cfg.d_model;
    if (!can_forget(c->model, err) || (draft && draft != c && !check_drafter(c, draft, err)))
        return false;
    Drafter *d = draft ? drafter_new(c, draft, err) : NULL;
    if (draft && !d)
        return false;
    float *states = d && d->mtp ? malloc(floats * sizeof *states) : NULL;
    if (d && d->mtp && !states) {
        drafter_free(d);
        return no_memory(NULL, err);
    }
    drafter_free(c->drafter);
    free(c->states);
    c->drafter = d;
    c->states  = states;
    return true;
}

bool tblock_draft_by(tblock_context *c, tblock_context *draft, tblock_error *err)
{
    NEED(false, err, c);
    ALONE(c);
    HOST_ENV_RETURN(bool, draft_by(c, draft, err));
}

void drafter_free(Drafter *d)
{
    if (!d)
        return;
    sampler_free(d->sampler);
    mtp_free(d->mtp);
    free(d);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

void drafter_show(const Drafter *d, const tblock_item *item, size_t n, const float *states)
{
    if (d->mtp)
        mtp_show(d->mtp, item, n, states);
}

void drafter_forget(const Drafter *d, int32_t seq)
{
    if (d && d->mtp)
        mtp_forget(d->mtp, seq);
    else if (d)
        context_rewind(d->context, seq, 0);
}

void drafter_copy(const Drafter *d, int32_t from, int32_t to, int32_t n_tokens)
{
    if (d && d->mtp)
        mtp_copy(d->mtp, from, to, n_tokens);
    if (!d || d->mtp)
        return;
    const int32_t held = d->context->kv.seq[from].length, n = n_tokens < held ? n_tokens : held;
    if (!tblock_seq_copy(d->context, from, to, n, NULL))
        context_rewind(d->context, to, 0);
}

void drafter_describe(const Drafter *d, tblock_context_info *out)
{
    tblock_context_info own;
    if (!d)
        return;
    tblock_context_describe(d->context, &own);
    out->kv_bytes += own.kv_bytes;
    out->kv_tile_bytes += own.kv_tile_bytes;
    out->activation_bytes += own.activation_bytes;
}

/* Cuts the sequence to the longest prefix that it shares with the text's first n tokens. Returns
 * its length. */
static size_t settle(tblock_context *c, const Guess *g, size_t n)
{
    const int32_t *id   = c->seq_tokens[g->seq].id;
    size_t         held = (size_t)c->kv.seq[g->seq].length, same = 0;
    while (same < n && same < held && id[same] == g->ids[same])
        same++;
    c->kv.seq[g->seq].kept = 0;
    if (same == held || context_rewind(c, g->seq, (int)same))
        return same;
    context_rewind(c, g->seq, 0); /* another text, whose window has advanced */
    return 0;
}

/* ---- Drafting -------------------------------------------------------------------------------- */

/* The tokens of the text that it lacks, as far as its model has them and the budget reaches. */
static size_t add_text(Drafter *d, Guess *g, size_t *budget, size_t at)
{
    if (d->mtp)
        return mtp_add(d->mtp, g, at);
    tblock_context *c      = d->context;
    const int       vocab  = c->model->weights.cfg.vocab_size;
    const size_t    room   = (size_t)c->n_ctx, wanted = g->most ? g->n : g->n - 1,
                    all    = wanted < room ? wanted : room;
    size_t          held   = settle(c, g, g->n - 1 < all ? g->n - 1 : all), n = all - held;
    const bool      near   = g->most && n <= NEAR;
    n                      = near || n <= *budget ? n : *budget;
    *budget -= near ? 0 : n;
    for (size_t i = 0; i < n; i++) {
        if (g->ids[held] >= vocab)
            return at; /* a token beyond the tokenizer's, of a model with more rows */
        c->step[at++] = (tblock_item){ .seq   = g->seq,
                                       .pos   = (int32_t)held,
                                       .token = g->ids[held] };
        held++;
    }
    g->goes_on = g->most && n && held == g->n;
    if (g->goes_on) {
        g->item                    = at - 1;
        c->step[g->item].want_logits = true;
    }
    return at;
}

/* One draft token from the logits. False: none, and this text drafts no more. */
static bool guess_token(Drafter *d, Guess *g, Error *why)
{
    const float *logits = tblock_logits(d->context, g->item);
    const size_t at     = g->n + g->n_guessed;
    int32_t      id;
    if ((g->fit && (!fitting_allow(g->fit, why) || !g->fit->n_texts))
        || !sampler_set(d->sampler, g->sampling, why)
        || !sampler_next(d->sampler, logits, g->fit ? g->fit->allowed : NULL, g->ids, at,
                         (uint32_t)at, &id, why)
        || sampler_ends(g->sampling, id) || (g->fit && !fitting_take(g->fit, id, why)))
        return false;
    g->ids[at] = id;
    g->n_guessed++;
    return g->n_guessed < g->most && at + 1 < (size_t)d->context->n_ctx;
}

/* A draft token for each text that goes on, which becomes its item of the next batch. Returns how
 * many these are. */
static size_t guess_round(Drafter *d, Guess *first)
{
    tblock_context *c = d->context;
    size_t          n = 0;
    Error           why;
    for (Guess *g = first; g; g = g->next) {
        if (!g->goes_on || !(g->goes_on = guess_token(d, g, &why)))
            continue;
        const size_t  at  = g->n + g->n_guessed - 1;
        const int32_t lag = d->mtp ? mtp_lag(d->mtp, g->seq) : 0;
        if (d->mtp)
            mtp_add_guess(d->mtp, g->seq, n);
        c->kv.seq[g->seq].kept = (int)g->n - lag;
        g->item                = n;
        c->step[n++]           = (tblock_item){ .seq         = g->seq,
                                                .pos         = (int32_t)at - lag,
                                                .token       = g->ids[at],
                                                .want_logits = true };
    }
    return n;
}

/* All draft tokens, the first of each text from the last of n items. */
static bool guess_all(Drafter *d, Guess *first, size_t n, Error *err)
{
    while (n) {
        if (!context_decode(d->context, d->context->step, n, err))
            return false;
        n = guess_round(d, first);
    }
    return true;
}

bool drafter_guess(Drafter *d, Guess *first, size_t budget, long n_steps, Error *err)
{
    size_t n = 0, most = budget;
    for (Guess *g = first; g; g = g->next)
        most += NEAR;
    if (d->mtp ? !mtp_reserve(d->mtp, most, err) : !context_reserve_step(d->context, most, err))
        return false;
    for (Guess *g = first; g; g = g->next) {
        n = add_text(d, g, &budget, n);
        if (g->fit)
            g->at = g->fit->at; /* restored at the end */
    }
    forward_expect(d->context->forward, n_steps);
    const bool good = guess_all(d, first, n, err);
    forward_expect(d->context->forward, -1);
    for (const Guess *g = first; g; g = g->next)
        if (g->fit)
            g->fit->at = g->at;
    return good;
}
