/* The recogniser: Earley's (1970, "An efficient context-free parsing algorithm"), over bytes: exact
 * for every grammar, also with ambiguity and left recursion, and without a tokenizer that would
 * have to guess. Earley notes the position at which a rule began; an item here has what follows the
 * rule instead: the items that wait for it, as an interned row. So sets of items that expect the
 * same are equal, wherever they occur, and become the states of an automaton that is built as
 * needed. A rule at the end of an alternative passes on what follows that alternative (after Leo
 * 1991), so lists that recur at their end do not grow. */
#include "constrain/grammar_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/sound.h"

/* A row of `follows`: PLAIN, then pairs of the dot to continue from and what follows there; MEMBER,
 * a GROUP's number, and which of its rules; GROUP, for rules that begin with one another: for each
 * rule n, then n pairs. A reference in it is a row's number * 2, or a rule of the group * 2 + 1.
 * Row 0 is the end of the text. References in a closure are the same, with the plan's rules. */
enum { PLAIN, MEMBER, GROUP };
enum { FOLLOW_END = 0 };
/* What waits for a rule: ~ the component of the rule, the rule, the dot after it, what follows. */
enum { WAIT = 4 };

/* About 400 MB in all; a closure of this many pairs takes some 20 ms. */
enum { MOST_STATE_WORDS = 1 << 25, MOST_FOLLOW_WORDS = 1 << 24, MOST_NEXT_WORDS = 1 << 26 };
enum { MOST_CLOSURE = 1 << 16, MOST_CLOSURE_WORDS = 1 << 19 };

/* ---- The closure of a set -------------------------------------------------------------------- */

static bool too_ambiguous(Constraint *c)
{
    return grammar_wrong(c->g, "the grammar is too ambiguous: a text has too many readings");
}

static bool add_words(Constraint *c, Words *w, const uint32_t *word, size_t n)
{
    return (w->n <= MOST_CLOSURE_WORDS || too_ambiguous(c))
        && (words_add(w, word, n) || grammar_no_memory(c->g));
}

static bool keep(Constraint *c, Interned *t, const uint32_t *row, size_t n, uint32_t *number)
{
    bool known;
    return interned_put(t, row, n, number, &known) || grammar_no_memory(c->g);
}

static bool reach(Constraint *c, uint32_t dot, uint32_t ref)
{
    uint32_t number;
    return keep(c, &c->seen, (uint32_t[]){ dot, ref }, 2, &number)
        && (c->seen.start.n <= MOST_CLOSURE
            || too_ambiguous(c));
}

/* Append what follows to *out, as pairs of a dot and a row's number. */
static bool add_follow(Constraint *c, uint32_t follow, Words *out)
{
    const uint32_t *row = interned_row(&c->follows, follow);
    if (*row == PLAIN)
        return add_words(c, out, row + 1, interned_length(&c->follows, follow) - 1);
    uint32_t        group = row[1], member = row[2];
    const uint32_t *at = interned_row(&c->follows, group) + 1;
    for (; member > 0; member--)
        at += 1 + 2 * *at;
    size_t from = (size_t)(at + 1 - c->follows.words.word), count = *at;
    for (size_t i = 0; i < count; i++) {
        uint32_t pair[2];
        memcpy(pair, c->follows.words.word + from + 2 * i, sizeof pair);
        uint32_t name[] = { MEMBER, group, pair[1] / 2 };
        if (pair[1] % 2 == 0)
            pair[1] /= 2;
        else if (!keep(c, &c->follows, name, 3, &pair[1]))
            return false;
        if (!add_words(c, out, pair, 2))
            return false;
    }
    return true;
}

/* A rule has ended. */
static bool complete(Constraint *c, uint32_t ref)
{
    if (ref % 2) /* without a byte: the rule is nullable, and its waits advanced at once */
        return true;
    c->copy.n = 0;
    if (!add_follow(c, ref / 2, &c->copy))
        return false;
    for (size_t i = 0; i < c->copy.n; i += 2)
        if (c->copy.word[i] == DOT_ACCEPT)
            c->may_end = true;
        else if (!reach(c, c->copy.word[i], c->copy.word[i + 1] * 2))
            return false;
    return true;
}

static bool predict(Constraint *c, uint32_t rule, uint32_t dot, uint32_t ref)
{
    const GrammarPlan *p = &c->plan;
    if (!add_words(c, &c->waits, (uint32_t[]){ ~p->component[rule], rule, dot, ref }, WAIT))
        return false;
    if (c->resolved[rule] == NOT_MADE) /* not predicted yet */
        for (uint32_t a = p->rule.word[rule]; a < p->rule.word[rule + 1]; a++)
            if (!reach(c, p->alternative.word[a], rule * 2 + 1))
                return false;
    c->resolved[rule] = FOLLOW_END;
    return !p->nullable[rule] || reach(c, dot, ref);
}

static bool close_over(Constraint *c)
{
    for (uint32_t i = 0; i < c->seen.start.n; i++) {
        const uint32_t *pair = interned_row(&c->seen, i);
        uint32_t        dot = pair[0], ref = pair[1], symbol = c->plan.dot.word[dot];
        uint32_t        kind = symbol & 3, id = symbol >> DOT_BITS;
        bool            good = true;
        if (kind == DOT_END)
            good = complete(c, ref);
        else if (kind == DOT_RULE)
            good = predict(c, id, dot + 1, ref);
        else if (id != EXPR_EMPTY)
            good = add_words(c, &c->items, (uint32_t[]){ id, dot, ref }, 3);
        if (good && kind == DOT_EXPR && expr_nullable(c->g, id))
            good = reach(c, dot + 1, ref);
        if (!good)
            return false;
    }
    return true;
}

/* ---- What follows the rules that were predicted ---------------------------------------------- */

static int by_words(const uint32_t *a, const uint32_t *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}
static int pairs_ascend(const void *a, const void *b) { return by_words(a, b, 2); }
static int waits_ascend(const void *a, const void *b) { return by_words(a, b, WAIT); }
static int triples_ascend(const void *a, const void *b) { return by_words(a, b, 3); }

/* Sort the rows of `size` words from `from` on, and drop duplicates. */
static void sort_rows(Words *w, size_t from, size_t size)
{
    if (w->n == from) /* perhaps never any row */
        return;
    uint32_t *row = w->word + from;
    size_t    n = (w->n - from) / size, n_kept = 0;
    qsort(row, n, size * sizeof *row, size == 2 ? pairs_ascend : triples_ascend);
    for (size_t i = 0; i < n; i++)
        if (n_kept == 0
            || memcmp(row + (n_kept - 1) * size, row + i * size, size * sizeof *row) != 0)
            memmove(row + n_kept++ * size, row + i * size, size * sizeof *row);
    w->n = from + n_kept * size;
}

/* Append a wait for a rule. If the waiting rule ends there, pass on what follows that rule. */
static bool add_wait(Constraint *c, uint32_t dot, uint32_t follow)
{
    if ((c->plan.dot.word[dot] & 3) == DOT_END)
        return add_follow(c, follow, &c->follow);
    return add_words(c, &c->follow, (uint32_t[]){ dot, follow }, 2);
}

/* The waits [from, to) are for one rule that does not begin with itself. */
static bool resolve_rule(Constraint *c, size_t from, size_t to)
{
    c->follow.n = 0;
    if (!add_words(c, &c->follow, &(uint32_t){ PLAIN }, 1))
        return false;
    for (size_t i = from; i < to; i += WAIT) {
        uint32_t ref = c->waits.word[i + 3];
        if (!add_wait(c, c->waits.word[i + 2], ref % 2 ? c->resolved[ref / 2] : ref / 2))
            return false;
    }
    sort_rows(&c->follow, 1, 2);
    return keep(c, &c->follows, c->follow.word, c->follow.n, &c->resolved[c->waits.word[from + 1]]);
}

/* The pairs of one rule of a group, whose waits are [from, to). */
static bool resolve_member(Constraint *c, size_t from, size_t to, uint32_t component)
{
    size_t at = c->follow.n;
    if (!add_words(c, &c->follow, &(uint32_t){ 0 }, 1))
        return false;
    for (size_t i = from; i < to; i += WAIT) {
        uint32_t dot = c->waits.word[i + 2], ref = c->waits.word[i + 3];
        size_t   n = c->follow.n;
        bool     inside = ref % 2 && c->plan.component[ref / 2] == component;
        /* of a member: its index in the group; `resolved` has it until the group is made */
        if (inside ? !add_words(c, &c->follow, (uint32_t[]){ dot, c->resolved[ref / 2] * 2 + 1 }, 2)
                   : !add_wait(c, dot, ref % 2 ? c->resolved[ref / 2] : ref / 2))
            return false;
        for (; !inside && n < c->follow.n; n += 2)
            c->follow.word[n + 1] *= 2;
    }
    sort_rows(&c->follow, at + 1, 2);
    c->follow.word[at] = (uint32_t)(c->follow.n - at - 1) / 2;
    return true;
}

static size_t rule_end(const Constraint *c, size_t from, size_t to)
{
    size_t i = from;
    while (i < to && c->waits.word[i + 1] == c->waits.word[from + 1])
        i += WAIT;
    return i;
}

static bool resolve_group(Constraint *c, size_t from, size_t to)
{
    uint32_t group, n = 0;
    for (size_t i = from; i < to; i = rule_end(c, i, to))
        c->resolved[c->waits.word[i + 1]] = n++;
    c->follow.n = 0;
    if (!add_words(c, &c->follow, &(uint32_t){ GROUP }, 1))
        return false;
    for (size_t i = from; i < to; i = rule_end(c, i, to))
        if (!resolve_member(c, i, rule_end(c, i, to), ~c->waits.word[from]))
            return false;
    if (!keep(c, &c->follows, c->follow.word, c->follow.n, &group))
        return false;
    for (size_t i = from; i < to; i = rule_end(c, i, to)) {
        uint32_t *place = &c->resolved[c->waits.word[i + 1]], name[] = { MEMBER, group, *place };
        if (!keep(c, &c->follows, name, 3, place))
            return false;
    }
    return true;
}

/* Find what follows each rule that was predicted. Rules that begin others go last, because others
 * refer to what follows them. */
static bool resolve(Constraint *c)
{
    Words *w = &c->waits;
    if (w->n)
        qsort(w->word, w->n / WAIT, WAIT * sizeof *w->word, waits_ascend);
    for (size_t from = 0, to; from < w->n; from = to) {
        for (to = from; to < w->n && w->word[to] == w->word[from]; to += WAIT)
            ;
        bool recursive = c->plan.recursive[w->word[from + 1]];
        if (recursive ? !resolve_group(c, from, to) : !resolve_rule(c, from, to))
            return false;
    }
    return c->follows.words.n <= MOST_FOLLOW_WORDS
        || grammar_wrong(c->g, "the text is nested too deeply");
}

/* ---- States ---------------------------------------------------------------------------------- */

static void closure_begin(Constraint *c)
{
    for (size_t i = 0; i < c->waits.n; i += WAIT)
        c->resolved[c->waits.word[i + 1]] = NOT_MADE;
    interned_empty(&c->seen);
    c->items.n = c->waits.n = 0;
    c->may_end = false;
}

static bool room_for_state(Constraint *c, uint32_t state)
{
    size_t n_classes = (size_t)c->g->n_classes;
    if (state < c->cap_next)
        return true;
    size_t cap = 2 * c->cap_next + 64;
    if (c->states.words.n > MOST_STATE_WORDS || cap > MOST_NEXT_WORDS / n_classes)
        return grammar_wrong(c->g, "it needs too many states");
    uint32_t *grown = realloc(c->next, cap * n_classes * sizeof *grown);
    if (!grown)
        return grammar_no_memory(c->g);
    memset(grown + c->cap_next * n_classes, 0xFF,
           (cap - c->cap_next) * n_classes * sizeof *grown);
    c->next = grown;
    c->cap_next = cap;
    return true;
}

static bool state_may_end(const Constraint *c, ConstraintState state)
{
    return *interned_row(&c->states, state);
}

/* The state of c->items, which it sorts. NOT_MADE: c->g has failed. */
static ConstraintState keep_state(Constraint *c, bool may_end)
{
    uint32_t state;
    sort_rows(&c->items, 0, 3);
    c->copy.n = 0;
    if (!add_words(c, &c->copy, &(uint32_t){ may_end }, 1)
        || !add_words(c, &c->copy, c->items.word, c->items.n)
        || !keep(c, &c->states, c->copy.word, c->copy.n, &state) || !room_for_state(c, state))
        return NOT_MADE;
    return state;
}

/* The state of what the caller added since closure_begin. NOT_MADE: c->g has failed. */
static ConstraintState closure_end(Constraint *c)
{
    if (!close_over(c) || !resolve(c))
        return NOT_MADE;
    for (size_t i = 0; i < c->items.n; i += 3) {
        uint32_t *ref = &c->items.word[i + 2];
        *ref = *ref % 2 ? c->resolved[*ref / 2] : *ref / 2;
    }
    return keep_state(c, c->may_end);
}

static bool state_is_sound(const Constraint *c, ConstraintState state)
{
    size_t          n = interned_length(&c->states, state), n_classes = (size_t)c->g->n_classes;
    const uint32_t *row   = interned_row(&c->states, state);
    bool            sound = n % 3 == 1 && row[0] <= 1 && (state != STATE_DEAD || n == 1)
        && state < c->cap_next;
    for (size_t i = 1; sound && i < n; i += 3)
        sound = row[i] < c->g->exprs.start.n && row[i + 1] < c->plan.dot.n
            && (c->plan.dot.word[row[i + 1]] & 3) == DOT_EXPR && row[i + 2] < c->follows.start.n
            && (i == 1 || triples_ascend(row + i - 3, row + i) < 0);
    for (size_t i = 0; sound && i < n_classes; i++) {
        const uint32_t next = c->next[state * n_classes + i];
        sound = next == NOT_MADE || next < (state ? c->states.start.n : 1);
    }
    return sound;
}

bool constraint_is_sound(const Constraint *c)
{
    const ConstraintState start = c->names ? names_state(c->names, c->start) : c->start;
    bool                  sound = start < c->states.start.n;
    for (uint32_t i = 0; sound && i < c->states.start.n; i++)
        sound = state_is_sound(c, i);
    return sound || c->g->failed;
}

ConstraintState constraint_make(Constraint *c, ConstraintState state, unsigned class, Error *err)
{
    size_t   n = interned_length(&c->states, state), n_classes = (size_t)c->g->n_classes;
    uint32_t split = 0; /* none */
    c->g->work = 0;
    closure_begin(c);
    for (size_t i = 1; i < n && !c->g->failed; i += 3) {
        ParseItem item;
        memcpy(&item, interned_row(&c->states, state) + i, sizeof item);
        split = split_meet(c->g, split, c->g->fact[item.expr].split);
        Expr after = expr_step(c->g, item.expr, class);
        if (after == EXPR_NOTHING)
            continue;
        if (after != EXPR_EMPTY)
            add_words(c, &c->items, (uint32_t[]){ after, item.dot, item.follow * 2 }, 3);
        if (expr_nullable(c->g, after))
            reach(c, item.dot + 1, item.follow * 2);
    }
    ConstraintState next = c->g->failed ? NOT_MADE : closure_end(c);
    assert(n_classes == (size_t)c->g->n_classes);
    if (next == NOT_MADE)
        grammar_failed(c->g, err);
    for (unsigned i = 0; next != NOT_MADE && i < n_classes; i++)
        if (split_class(c->g, split, i) == split_class(c->g, split, class))
            c->next[state * n_classes + i] = next;
    ASSERT_SOUND(next == NOT_MADE || (state_is_sound(c, state) && state_is_sound(c, next)));
    return next;
}

ConstraintState constraint_clamp(Constraint *c, ConstraintState state, uint32_t most, Error *err)
{
    size_t n = interned_length(&c->states, state);
    bool   same = true;
    c->g->work = 0;
    c->items.n = 0;
    for (size_t i = 1; i < n && !c->g->failed; i += 3) {
        ParseItem item;
        memcpy(&item, interned_row(&c->states, state) + i, sizeof item);
        Expr e = expr_clamp(c->g, item.expr, most);
        same = same && e == item.expr;
        add_words(c, &c->items, (uint32_t[]){ e, item.dot, item.follow }, 3);
    }
    if (same && !c->g->failed)
        return state;
    ConstraintState clamped =
        c->g->failed ? NOT_MADE : keep_state(c, state_may_end(c, state));
    if (clamped == NOT_MADE)
        grammar_failed(c->g, err);
    ASSERT_SOUND(clamped == NOT_MADE || state_is_sound(c, clamped));
    return clamped;
}

/* Make STATE_DEAD and the start state. */
static bool begin(Constraint *c)
{
    uint32_t number, end[] = { PLAIN, DOT_ACCEPT, FOLLOW_END };
    if (!keep(c, &c->follows, end, 3, &number)
        || !keep(c, &c->states, (uint32_t[]){ false }, 1, &number)
        || !room_for_state(c, STATE_DEAD))
        return false;
    size_t n = c->plan.rule.n - 1;
    c->resolved = malloc(n * sizeof *c->resolved);
    if (!c->resolved)
        return grammar_no_memory(c->g);
    memset(c->resolved, 0xFF, n * sizeof *c->resolved);
    closure_begin(c);
    /* Only the end waits at the end of the text, as if for a rule that has the start. */
    if (!predict(c, 0, DOT_ACCEPT, FOLLOW_END * 2))
        return false;
    c->start = closure_end(c);
    return c->start != NOT_MADE;
}

static Expr plain_character(Grammar *g)
{
    uint32_t      edges[] = { 0x20, 0x22, 0x23, 0x5C, 0x5D, CHARACTERS };
    const CharSet plain = { .edge = edges, .n = 6 };
    return expr_chars(g, &plain, CHARS_UTF8);
}

Constraint *constraint_new(Grammar *g, Rule start, const char *what, Error *err)
{
    Constraint *c = calloc(1, sizeof *c);
    if (!c) {
        grammar_free(g);
        no_memory(what, err);
        return NULL;
    }
    c->g = g;
    c->plain = plain_character(g);
    if (grammar_plan_make(&c->plan, g, start)) {
        expr_classes(g);
        g->most_exprs = EXPRS_RUN;
        if (begin(c) && (!g->names_once || names_begin(c))) {
            ASSERT_SOUND(constraint_is_sound(c));
            return c;
        }
    }
    Error why = { 0 };
    grammar_failed(g, &why);
    bool named = strncmp(why.msg, what, strlen(what)) == 0; /* by a front end, with the position */
    fail(err, why.status, "%s%s%s", named ? "" : what, named ? "" : ": ", why.msg);
    constraint_free(c);
    return NULL;
}

Constraint *constraint_of_expr(Grammar *g, Expr e, const char *what, Error *err)
{
    Rule   rule = grammar_rule(g, "start");
    Symbol symbol = symbol_expr(e);
    grammar_add(g, rule, &symbol, 1);
    return constraint_new(g, rule, what, err);
}

void constraint_free(Constraint *c)
{
    if (!c)
        return;
    grammar_free(c->g);
    grammar_plan_free(&c->plan);
    interned_free(&c->follows);
    interned_free(&c->states);
    interned_free(&c->seen);
    interned_free(&c->plain_known);
    Words *w[] = { &c->items, &c->waits,       &c->follow,
                   &c->copy,  &c->plain_facts, &c->plain_after };
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        free(w[i]->word);
    free(c->next);
    free(c->resolved);
    mask_cache_free(c->masks);
    names_free(c->names);
    free(c);
}

ConstraintState constraint_start(const Constraint *c) { return c->start; }

bool constraint_advance(Constraint *c, ConstraintState *state, const char *bytes, size_t n,
                        Error *err)
{
    ConstraintState s = *state;
    if (c->names)
        return names_advance(c, state, bytes, n, err);
    for (size_t i = 0; i < n && s != STATE_DEAD; i++) {
        s = constraint_next(c, s, c->g->class_of[(unsigned char)bytes[i]], err);
        if (s == NOT_MADE)
            return false;
    }
    *state = s;
    return true;
}

bool constraint_may_end(const Constraint *c, ConstraintState state)
{
    return state_may_end(c, c->names ? names_state(c->names, state) : state);
}

/* The one byte that an item of the state can begin with, judging by the sets of first bytes; -1:
 * none or several. */
static int only_byte(const Constraint *c, uint32_t state)
{
    ByteSet         all = { { 0 } };
    int             count = 0, byte = -1;
    const uint32_t *row = interned_row(&c->states, state);
    for (size_t i = 1; i < interned_length(&c->states, state); i += 3)
        for (int k = 0; k < 4; k++)
            all.bits[k] |= c->g->fact[row[i]].first.bits[k];
    for (int k = 0; k < 4; k++)
        if (all.bits[k]) {
            count += all.bits[k] & (all.bits[k] - 1) ? 2 : 1;
            byte = 64 * k + __builtin_ctzll(all.bits[k]);
        }
    return count == 1 ? byte : -1;
}

size_t constraint_forced(Constraint *c, ConstraintState state, char *bytes, size_t most)
{
    size_t   n = 0;
    uint32_t at = c->names ? names_state(c->names, state) : state;
    for (int byte; n < most && !state_may_end(c, at) && (byte = only_byte(c, at)) >= 0;) {
        at = constraint_next(c, at, c->g->class_of[byte], NULL);
        if (at == NOT_MADE || at == STATE_DEAD)
            break;
        bytes[n++] = (char)byte;
    }
    return n;
}
