/* api/generation_draft.c: what a generation drafts: tokens that its constraint forces or makes
 * likely, tokens of a drafter, or what followed the same words before. */
#include "api/generation.h"

#include <string.h>

enum {
    DRAFT_LONGEST = 16,
    WRONG_ROW     = 3, /* consecutive drafts that may be wholly rejected ... */
    WRONG_PAUSE   = 5, /* ... before a model drafts more rarely: at least once in 2^5 steps, */
    NGRAM_PAUSE   = 3, /* and the n-gram in 2^3: it costs one row, and must not miss a repetition */
    LIKELY_MOST   = 7,  /* of fitting_likely: 8 in a batch cost little more than 1 */
    LIKELY_WRONG  = 16, /* that may be rejected, besides as many as were accepted */
    DRAFT_WINDOW  = 65536
};

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

size_t generation_propose(tblock_generation *g, size_t n_drafting)
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
    if (g->pause > 0) {
        g->pause--;
        return 0;
    }
    if (!g->context->drafter)
        return draft_ngram(g->ids, g->n_ids, &o, g->draft, n);
    g->guess.most = n;
    return 0;
}

bool generations_ask(tblock_context *c, tblock_generation *const *g, size_t n, size_t budget,
                     long n_steps, Error *err)
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
                            .fit      = x->fit.constraint ? &x->fit : NULL };
        *last    = &x->guess;
        last     = &x->guess.next;
    }
    if (!first || !drafter_guess(c->drafter, first, budget, n_steps, err))
        return !first;
    for (size_t i = 0; i < n; i++) {
        memcpy(g[i]->draft, g[i]->ids + g[i]->n_ids, g[i]->guess.n_guessed * sizeof *g[i]->draft);
        g[i]->n_items += g[i]->guess.n_guessed;
    }
    return true;
}

/* A wholly accepted draft makes the next one longer; else that is as long as what this step
 * sampled. Who is always rejected is asked more and more rarely. */
void generation_adapt(tblock_generation *g, size_t right, size_t n)
{
    const size_t most   = (size_t)g->opt.draft;
    const int    rarest = WRONG_ROW + (g->context->drafter ? WRONG_PAUSE : NGRAM_PAUSE);
    g->draft_length     = right == n ? 2 * g->draft_length : right;
    g->draft_length     = g->draft_length < 1 ? 1 : g->draft_length < most ? g->draft_length : most;
    if (right > 1)
        g->n_wrong = 0;
    else if (g->n_wrong < rarest)
        g->n_wrong++;
    g->pause = g->n_wrong > WRONG_ROW ? 1 << (g->n_wrong - WRONG_ROW) : 0;
}
