/* Which tokens may come next: a walk over the vocabulary's trees in step with the states. A state
 * that accepts any plain text, as inside a JSON string, gets all plain tokens at once. */
#include <stdlib.h>
#include <string.h>
#include "constrain/grammar_parts.h"
#include "constrain/token_trie.h"

/* A cache of masks, indexed by a state and a tier. The mask of a tier has the tokens of that tier
 * and of those before. */
enum { MASKS = 512 };
typedef struct KeptMask { ConstraintState state; int tier; uint64_t *bits; } KeptMask;
struct MaskCache {
    const TokenTrie *trie;
    KeptMask         kept[MASKS];
    uint64_t        *spare[TIERS]; /* the next mask to fill */
};

void mask_cache_free(MaskCache *m)
{
    for (int i = 0; m && i < MASKS; i++)
        free(m->kept[i].bits);
    for (int i = 0; m && i < TIERS; i++)
        free(m->spare[i]);
    free(m);
}

/* ---- Plain text ------------------------------------------------------------------------------ */

/* Facts of an expression: it accepts any plain text of `good` characters, but not any of `bad`; and
 * what it may be after one character. */
typedef struct PlainFact {
    uint32_t good, bad, after, n_after; /* c->plain_after.word[after ...]; n_after: or NOT_MADE */
} PlainFact;
enum { FACT_WORDS = sizeof(PlainFact) / sizeof(uint32_t) };
/* A pattern that takes longer to decide counts as one that does not accept plain text. */
enum { MOST_LOOKED = 1 << 10, COST_OF_AFTER = 16 };

static PlainFact fact_of(const Constraint *c, uint32_t number)
{
    PlainFact f;
    memcpy(&f, c->plain_facts.word + (size_t)number * FACT_WORDS, sizeof f);
    return f;
}

static void set_fact(Constraint *c, uint32_t number, const PlainFact *f)
{
    memcpy(c->plain_facts.word + (size_t)number * FACT_WORDS, f, sizeof *f);
}

/* False: no memory, and nothing is recorded. */
static bool fact_number(Constraint *c, Expr e, uint32_t *number)
{
    bool known;
    if (!interned_put(&c->plain_known, &e, 1, number, &known))
        return false;
    const PlainFact new = { .bad = UINT32_MAX, .n_after = NOT_MADE };
    while (*number >= c->plain_facts.n / FACT_WORDS)
        if (!words_add(&c->plain_facts, (const uint32_t *)&new, FACT_WORDS))
            return false;
    return true;
}

/* Append e to the results from `from` on, unless it is there. */
static bool add_after(Constraint *c, size_t from, Expr e)
{
    for (size_t i = from; i < c->plain_after.n; i++)
        if (c->plain_after.word[i] == e)
            return true;
    return words_add(&c->plain_after, &e, 1);
}

/* Find what e may be after one plain character. False: some character cannot come. */
static bool find_after(Constraint *c, Expr e, size_t from)
{
    uint32_t number, pair[] = { c->plain, e };
    bool     known;
    c->g->work = 0;
    interned_empty(&c->seen);
    bool good = interned_put(&c->seen, pair, 2, &number, &known);
    for (uint32_t i = 0; good && i < c->seen.start.n; i++) {
        memcpy(pair, interned_row(&c->seen, i), sizeof pair);
        uint32_t split = split_meet(c->g, c->g->fact[pair[0]].split, c->g->fact[pair[1]].split);
        for (int class = 0; good && class < c->g->n_classes; class++) {
            if (split_class(c->g, split, (unsigned)class) != (unsigned)class)
                continue;
            uint32_t next[] = { expr_step(c->g, pair[0], (unsigned)class), 0 };
            if (next[0] == EXPR_NOTHING)
                continue;
            next[1] = expr_step(c->g, pair[1], (unsigned)class);
            good = next[1] != EXPR_NOTHING && !c->g->failed
                && (next[0] == EXPR_EMPTY ? add_after(c, from, next[1])
                                          : interned_put(&c->seen, next, 2, &number, &known));
        }
    }
    return good;
}

/* The same, cached. */
static PlainFact after_plain(Constraint *c, Expr e, uint32_t number)
{
    PlainFact f = fact_of(c, number);
    if (f.n_after != NOT_MADE)
        return f;
    f.after = (uint32_t)c->plain_after.n;
    if (!find_after(c, e, f.after)) {
        c->plain_after.n = f.after;
        f.bad = 1;
    }
    f.n_after = (uint32_t)c->plain_after.n - f.after;
    set_fact(c, number, &f);
    return f;
}

/* Does e match each plain character? */
static bool takes_plain(Constraint *c, Expr e)
{
    uint32_t number;
    if (!fact_number(c, e, &number))
        return false;
    PlainFact f = after_plain(c, e, number);
    bool      takes = f.bad > 1;
    for (uint32_t i = 0; i < f.n_after; i++)
        takes = takes && expr_nullable(c->g, c->plain_after.word[f.after + i]);
    return takes;
}

/* Does e certainly accept every plain text of n characters? *left: how many checks remain. */
static bool goes_on_with(Constraint *c, Expr e, uint32_t n, int *left)
{
    uint32_t number, max;
    if (n == 0)
        return true;
    /* most expressions fail at the first byte */
    for (int i = 0; i < 4; i++)
        if (c->g->fact[c->plain].first.bits[i] & ~c->g->fact[e].first.bits[i])
            return false;
    Expr inside = expr_repeated(c->g, e, &max);
    if (max >= n && takes_plain(c, inside))
        return true;
    if (--*left < 0 || !fact_number(c, e, &number))
        return false;
    PlainFact f = fact_of(c, number);
    if (n <= f.good || n >= f.bad)
        return n <= f.good;
    if (f.n_after == NOT_MADE && (*left -= COST_OF_AFTER) < 0)
        return false;
    f = after_plain(c, e, number);
    bool good = n < f.bad;
    for (uint32_t i = 0; good && i < f.n_after; i++)
        good = goes_on_with(c, c->plain_after.word[f.after + i], n - 1, left);
    if (*left < 0)
        return false;
    f = fact_of(c, number);
    if (good)
        f.good = n > f.good ? n : f.good;
    else
        f.bad = n < f.bad ? n : f.bad;
    set_fact(c, number, &f);
    return good;
}

/* The same for a state: true if one of its items does. */
static bool state_goes_on_with(Constraint *c, ConstraintState state, uint32_t n_characters)
{
    int  left = MOST_LOOKED;
    bool good = false;
    for (size_t i = 1; i < interned_length(&c->states, state) && !good; i += 3)
        good = goes_on_with(c, interned_row(&c->states, state)[i], n_characters, &left);
    return good;
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

static void add_bits(const TokenTrie *t, uint64_t *bits, const uint64_t *more)
{
    for (size_t i = 0; i < mask_words(t); i++)
        bits[i] |= more[i];
}

static const uint64_t *mask_of(Constraint *c, ConstraintState state, int tier, Error *err);

/* From the longest tokens down; for those the state is clamped already. If only they depend on the
 * counts, the mask of the shorter ones is that of a state that many share. */
static bool fill(Constraint *c, ConstraintState state, int tier, uint64_t *bits, Error *err)
{
    const TokenTrie *t = c->masks->trie;
    memset(bits, 0, mask_words(t) * sizeof *bits);
    for (int i = tier; i >= 0; i--) {
        const TokenSlice *slice = t->slice[i];
        ConstraintState   same = i == tier ? state : constraint_clamp(c, state, t->most[i], err);
        if (same == NOT_MADE)
            return false;
        if (same != state) {
            const uint64_t *rest = mask_of(c, same, i, err);
            if (rest)
                add_bits(t, bits, rest);
            return rest != NULL;
        }
        bool plain = state_goes_on_with(c, state, t->most[i]);
        if (plain)
            add_bits(t, bits, slice[SLICE_PLAIN].bits);
        if ((!plain && !walk(c, &slice[SLICE_PLAIN], state, bits, err))
            || !walk(c, &slice[SLICE_OTHER], state, bits, err))
            return false;
    }
    return true;
}

static KeptMask *place_of(MaskCache *m, ConstraintState state, int tier)
{
    return &m->kept[((size_t)state + (size_t)tier * (MASKS / TIERS + 1)) % MASKS];
}

static bool holds(const KeptMask *k, ConstraintState state, int tier)
{
    return k->bits && k->state == state && k->tier == tier;
}

/* The mask of the tokens up to a tier. */
static const uint64_t *mask_of(Constraint *c, ConstraintState state, int tier, Error *err)
{
    MaskCache *m = c->masks;
    KeptMask  *place = place_of(m, state, tier);
    if (!holds(place, state, tier)) {
        state = constraint_clamp(c, state, m->trie->most[tier], err);
        if (state == NOT_MADE)
            return NULL;
        place = place_of(m, state, tier);
    }
    if (holds(place, state, tier))
        return place->bits;
    if (!m->spare[tier])
        m->spare[tier] = malloc((mask_words(m->trie) + 1) * sizeof **m->spare);
    if (!m->spare[tier]) {
        no_memory("mask", err);
        return NULL;
    }
    if (!fill(c, state, tier, m->spare[tier], err))
        return NULL;
    uint64_t *old = place->bits;
    *place = (KeptMask){ state, tier, m->spare[tier] };
    m->spare[tier] = old;
    return place->bits;
}

static bool cache_for(Constraint *c, const TokenTrie *t, Error *err)
{
    if (c->masks && c->masks->trie == t)
        return true;
    mask_cache_free(c->masks);
    c->masks = calloc(1, sizeof *c->masks);
    if (!c->masks)
        return no_memory("mask", err);
    c->masks->trie = t;
    return true;
}

const uint64_t *state_mask(Constraint *c, const TokenTrie *t, ConstraintState state, Error *err)
{
    c->g->work = 0;
    return cache_for(c, t, err) ? mask_of(c, state, TIERS - 1, err) : NULL;
}

const uint64_t *constraint_mask(Constraint *c, const TokenTrie *t, ConstraintState state,
                                Error *err)
{
    return (c->names ? names_mask : state_mask)(c, t, state, err);
}
