/* Which tokens may come next: a walk over the vocabulary's trees along the states. A state that
 * goes on with any plain text, as inside a JSON string, takes all tokens of plain text at once. */
#include <stdlib.h>
#include <string.h>
#include "constrain/grammar_parts.h"
#include "constrain/token_trie.h"

/* The last masks of as many states, where a state's place follows from its number. */
enum { MASKS = 512 };
struct MaskCache {
    const TokenTrie *trie;
    ConstraintState  state[MASKS];
    uint64_t        *bits[MASKS];
};

void mask_cache_free(MaskCache *m)
{
    for (int i = 0; m && i < MASKS; i++)
        free(m->bits[i]);
    free(m);
}

/* ---- Plain text ------------------------------------------------------------------------------ */

enum { FITS_NONE, FITS_SHORT, FITS_LONG };
enum { MOST_PAIRS = 2000 }; /* looked at; a pattern that needs more counts as one that does not
                             * fit */

/* Does e go on with every beginning of the texts of `plain`? */
static bool goes_on_with(Constraint *c, Expr e, Expr plain)
{
    Interned seen = { 0 };
    uint32_t number, pair[] = { plain, e };
    bool     known, good = interned_put(&seen, pair, 2, &number, &known);
    for (uint32_t i = 0; good && i < seen.start.n; i++) {
        size_t n;
        memcpy(pair, interned_row(&seen, i, &n), sizeof pair);
        for (int class = 0; good && class < c->g->n_classes; class++) {
            uint32_t next[] = { expr_step(c->g, pair[0], (unsigned)class), 0 };
            if (next[0] == EXPR_NOTHING)
                continue;
            next[1] = expr_step(c->g, pair[1], (unsigned)class);
            good = next[1] != EXPR_NOTHING && !c->g->failed && seen.start.n < MOST_PAIRS
                && interned_put(&seen, next, 2, &number, &known);
        }
    }
    interned_free(&seen);
    return good;
}

/* Which tokens of plain text does the expression go on with? Found once for each. */
static uint32_t plain_fit(Constraint *c, Expr e)
{
    uint32_t number, fit = FITS_NONE;
    bool     known;
    /* most expressions do not even begin so */
    for (int i = 0; i < 4; i++)
        if (c->g->fact[c->plain].first.bits[i] & ~c->g->fact[e].first.bits[i])
            return FITS_NONE;
    if (!interned_put(&c->plain_known, &e, 1, &number, &known))
        return FITS_NONE;
    if (known && number < c->plain_fits.n)
        return c->plain_fits.word[number];
    fit = goes_on_with(c, e, c->plain)         ? FITS_LONG
          : goes_on_with(c, e, c->plain_short) ? FITS_SHORT
                                               : FITS_NONE;
    if (number == c->plain_fits.n)
        words_add(&c->plain_fits, &fit, 1);
    return fit;
}

/* Of the items of a state, the best. */
static uint32_t state_fit(Constraint *c, ConstraintState state)
{
    uint32_t best = FITS_NONE;
    size_t   n;
    interned_row(&c->states, state, &n);
    for (size_t i = 1; i < n && best < FITS_LONG; i += 3) {
        uint32_t fit = plain_fit(c, interned_row(&c->states, state, &n)[i]);
        best = fit > best ? fit : best;
    }
    return best;
}

/* ---- The walk -------------------------------------------------------------------------------- */

static bool walk(Constraint *c, const TokenSlice *s, ConstraintState state, uint64_t *bits,
                 Error *err)
{
    ConstraintState path[MOST_TOKEN_BYTES + 1];
    path[0] = state;
    for (size_t i = 0; i < s->n_nodes;) {
        const TrieNode *node = &s->node[i];
        ConstraintState next =
            constraint_next(c, path[node->depth - 1], c->g->class_of[node->byte], err);
        if (next == NOT_MADE)
            return false;
        if (next == STATE_DEAD) {
            i = node->end;
            continue;
        }
        path[node->depth] = next;
        for (uint32_t k = 0; k < node->n_ids; k++) {
            int32_t id = s->id[node->first_id + k];
            bits[id / 64] |= 1ull << id % 64;
        }
        i++;
    }
    return true;
}

static bool fill(Constraint *c, const TokenTrie *t, ConstraintState state, uint64_t *bits,
                 Error *err)
{
    uint32_t fit = state_fit(c, state);
    size_t   n_words = mask_words(t);
    memset(bits, 0, n_words * sizeof *bits);
    for (int s = 0; s < SLICES; s++) {
        bool whole =
            (s == SLICE_SHORT && fit >= FITS_SHORT) || (s == SLICE_LONG && fit == FITS_LONG);
        for (size_t i = 0; whole && i < n_words; i++)
            bits[i] |= t->slice[s].bits[i];
        if (!whole && !walk(c, &t->slice[s], state, bits, err))
            return false;
    }
    return true;
}

static MaskCache *cache_for(Constraint *c, const TokenTrie *t, Error *err)
{
    if (c->masks && c->masks->trie == t)
        return c->masks;
    mask_cache_free(c->masks);
    c->masks = calloc(1, sizeof *c->masks);
    if (!c->masks) {
        no_memory("mask", err);
        return NULL;
    }
    c->masks->trie = t;
    return c->masks;
}

const uint64_t *constraint_mask(Constraint *c, const TokenTrie *t, ConstraintState state,
                                Error *err)
{
    MaskCache *m = cache_for(c, t, err);
    size_t     at = state % MASKS;
    if (!m)
        return NULL;
    if (m->bits[at] && m->state[at] == state)
        return m->bits[at];
    if (!m->bits[at])
        m->bits[at] = malloc((mask_words(t) + 1) * sizeof **m->bits);
    if (!m->bits[at]) {
        no_memory("mask", err);
        return NULL;
    }
    m->state[at] = NOT_MADE; /* until it is whole */
    if (!fill(c, t, state, m->bits[at], err))
        return NULL;
    m->state[at] = state;
    return m->bits[at];
}
