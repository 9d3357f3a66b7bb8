/* From the rules as written to those that run: rules without recursion become expressions, parts
 * that match nothing are removed, and adjacent expressions become one. */
#include "constrain/grammar_parts.h"

#include <stdlib.h>
#include <string.h>

/* How long a sequence of expressions one rule may become, and how many rules one match of it may
 * pass through: if each uses the next one twice, an automaton must distinguish what a stack need
 * not. */
enum { MOST_FOLDED = 1 << 14, MOST_THROUGH = 1 << 6 };
#define NONE UINT32_MAX

/* The rules that the start reaches, with their alternatives and symbols in one array. */
typedef struct PlanDraft {
    Grammar  *g;
    Words     reached;                 /* the rules, the start first */
    uint32_t *place;                   /* of a rule in `reached`; NONE */
    Words     symbol, from, owner;     /* of an alternative: its first pair in symbol, its rule */
    Words     use_from, use;           /* of a rule: the alternatives that use it, once per use */
    uint32_t *left, *alternatives;     /* not done yet: symbols of an alternative, of a rule */
    Expr     *folded;                  /* what a rule became; NONE */
    uint32_t *through;                 /* rules that one match of a folded rule passes through */
    uint8_t  *productive, *nullable;
} PlanDraft;

static size_t n_alternatives(const PlanDraft *d) { return d->owner.n; }
static uint32_t alternative_end(const PlanDraft *d, size_t a)
{
    return a + 1 < d->from.n ? d->from.word[a + 1] : (uint32_t)d->symbol.n;
}

static bool add_word(Grammar *g, Words *w, uint32_t word)
{
    return words_add(w, &word, 1) || grammar_no_memory(g);
}

static bool reach(PlanDraft *d, uint32_t rule)
{
    if (d->place[rule] != NONE)
        return true;
    if (d->g->rule[rule].n_alternatives == 0)
        return grammar_wrong(d->g, "rule %s is not defined", d->g->rule[rule].name);
    d->place[rule] = (uint32_t)d->reached.n;
    return add_word(d->g, &d->reached, rule);
}

/* Copy the alternatives of the i-th reached rule, and reach the rules that they use. */
static bool draft_rule(PlanDraft *d, uint32_t i)
{
    const Words *w = &d->g->rule[d->reached.word[i]].alternatives;
    for (size_t at = 0; at < w->n;) {
        uint32_t n = w->word[at++];
        if (!add_word(d->g, &d->from, (uint32_t)d->symbol.n) || !add_word(d->g, &d->owner, i))
            return false;
        for (; n > 0; n--, at += 2) {
            bool     is_rule = w->word[at + 1];
            uint32_t id = w->word[at];
            if ((is_rule && !reach(d, id))
                || !add_word(d->g, &d->symbol, is_rule ? d->place[id] : id)
                || !add_word(d->g, &d->symbol, is_rule))
                return false;
        }
    }
    return true;
}

/* Which alternatives use each rule. */
static bool draft_uses(PlanDraft *d)
{
    size_t    n = d->reached.n;
    uint32_t *count = calloc(n + 1, sizeof *count);
    bool      good = count != NULL;
    for (size_t i = 0; good && i < d->symbol.n; i += 2)
        if (d->symbol.word[i + 1])
            count[d->symbol.word[i] + 1]++;
    for (size_t i = 0; good && i < n; i++)
        count[i + 1] += count[i];
    good = good && words_add(&d->use_from, count, n + 1);
    for (size_t i = 0; good && i < count[n]; i++)
        good = words_add(&d->use, &(uint32_t){ 0 }, 1);
    for (size_t a = 0; good && a < n_alternatives(d); a++)
        for (uint32_t i = d->from.word[a]; i < alternative_end(d, a); i += 2)
            if (d->symbol.word[i + 1])
                d->use.word[count[d->symbol.word[i]]++] = (uint32_t)a;
    free(count);
    return good || grammar_no_memory(d->g);
}

static bool draft_make(PlanDraft *d, Rule start)
{
    size_t n = d->g->n_rules;
    d->place = malloc(n * sizeof *d->place);
    if (!d->place)
        return grammar_no_memory(d->g);
    memset(d->place, 0xFF, n * sizeof *d->place);
    if (!reach(d, start))
        return false;
    for (uint32_t i = 0; i < d->reached.n; i++)
        if (!draft_rule(d, i))
            return false;
    n = d->reached.n;
    d->left = calloc(n_alternatives(d), sizeof *d->left);
    d->alternatives = calloc(n, sizeof *d->alternatives);
    d->folded = malloc(n * sizeof *d->folded);
    d->through = calloc(n, sizeof *d->through);
    d->productive = calloc(n, 1);
    d->nullable = calloc(n, 1);
    if (!d->left || !d->alternatives || !d->folded || !d->through || !d->productive
        || !d->nullable)
        return grammar_no_memory(d->g);
    memset(d->folded, 0xFF, n * sizeof *d->folded);
    return draft_uses(d);
}

static void draft_free(PlanDraft *d)
{
    Words *w[] = { &d->reached, &d->symbol, &d->from, &d->owner, &d->use_from, &d->use };
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        free(w[i]->word);
    free(d->place);
    free(d->left);
    free(d->alternatives);
    free(d->folded);
    free(d->through);
    free(d->productive);
    free(d->nullable);
}

/* ---- Properties of rules --------------------------------------------------------------------- */

/* The symbol at d->symbol.word[i] as an expression; NONE: it stays a rule. */
static Expr expr_at(const PlanDraft *d, uint32_t i)
{
    uint32_t id = d->symbol.word[i];
    return d->symbol.word[i + 1] ? d->folded[id] : id;
}

/* One alternative as an expression. *through: raised to its rules. NONE: it would be too long. */
static Expr fold_row(PlanDraft *d, uint32_t a, uint32_t *through)
{
    Expr     e = EXPR_EMPTY;
    uint32_t from = d->from.word[a], end = alternative_end(d, a);
    size_t   length = 0, n_rules = 1;
    for (uint32_t i = from; i < end; i += 2) {
        length += expr_length(d->g, expr_at(d, i));
        n_rules += d->symbol.word[i + 1] ? d->through[d->symbol.word[i]] : 0;
    }
    if (length > MOST_FOLDED || n_rules > MOST_THROUGH)
        return NONE;
    *through = *through > n_rules ? *through : (uint32_t)n_rules;
    for (uint32_t i = end; i > from; i -= 2)
        e = expr_seq(d->g, expr_at(d, i - 2), e);
    return e;
}

/* Fold the rule whose alternatives are a, a + 1, ... False: it stays a rule. */
static bool fold_rule(PlanDraft *d, uint32_t rule, uint32_t a)
{
    const GrammarRule *r = &d->g->rule[d->reached.word[rule]];
    Words              list = { 0 };
    Expr               e = 0;
    for (; e != NONE && a < n_alternatives(d) && d->owner.word[a] == rule; a++) {
        e = fold_row(d, a, &d->through[rule]);
        if (!words_add(&list, &e, 1))
            grammar_no_memory(d->g);
    }
    if (e != NONE && !d->g->failed)
        d->folded[rule] = r->repeats ? expr_repeat(d->g, e, r->min, r->max)
                                     : expr_alt_list(d->g, list.word, list.n);
    free(list.word);
    return e != NONE && !d->g->failed;
}

typedef enum Claim { FOLDS, IS_PRODUCTIVE, IS_NULLABLE } Claim;

/* Alternative a has the property; does its rule have it now? */
static bool alternative_done(PlanDraft *d, Claim claim, uint32_t a)
{
    uint32_t rule = d->owner.word[a];
    uint8_t *mark = claim == IS_PRODUCTIVE ? d->productive : d->nullable;
    if (claim == FOLDS) {
        if (--d->alternatives[rule] > 0)
            return false;
        while (a > 0 && d->owner.word[a - 1] == rule)
            a--;
        return fold_rule(d, rule, a);
    }
    bool first = !mark[rule];
    mark[rule] = 1;
    return first;
}

static bool expr_has(PlanDraft *d, Claim claim, Expr e)
{
    return claim == FOLDS || (claim == IS_PRODUCTIVE ? !expr_is_nothing(d->g, e)
                                                     : expr_nullable(d->g, e));
}

/* Find the rules that have the property. FOLDS: a rule has it if all alternatives have; else: if
 * one has. An alternative has it if each symbol has. */
static bool draft_claim(PlanDraft *d, Claim claim)
{
    Words todo = { 0 };
    bool  good = true;
    memset(d->alternatives, 0, d->reached.n * sizeof *d->alternatives);
    for (uint32_t a = 0; a < n_alternatives(d); a++)
        d->alternatives[d->owner.word[a]]++;
    for (uint32_t a = 0; a < n_alternatives(d); a++) {
        d->left[a] = 0;
        for (uint32_t i = d->from.word[a]; i < alternative_end(d, a) && d->left[a] != NONE; i += 2)
            if (d->symbol.word[i + 1] && (claim == FOLDS || expr_at(d, i) == NONE))
                d->left[a]++;
            else if (!expr_has(d, claim, expr_at(d, i)))
                d->left[a] = NONE;
    }
    for (uint32_t a = 0; good && a < n_alternatives(d); a++)
        if (d->left[a] == 0 && alternative_done(d, claim, a))
            good = add_word(d->g, &todo, d->owner.word[a]);
    for (size_t i = 0; good && i < todo.n; i++) {
        uint32_t rule = todo.word[i];
        if (claim != FOLDS && d->folded[rule] != NONE)
            continue; /* it was counted as an expression */
        for (uint32_t u = d->use_from.word[rule]; good && u < d->use_from.word[rule + 1]; u++) {
            uint32_t a = d->use.word[u];
            if (d->left[a] != NONE && --d->left[a] == 0 && alternative_done(d, claim, a))
                good = add_word(d->g, &todo, d->owner.word[a]);
        }
    }
    free(todo.word);
    return good && !d->g->failed;
}

/* ---- What runs ------------------------------------------------------------------------------- */

static bool add_dot(GrammarPlan *p, Grammar *g, uint32_t number, uint32_t kind)
{
    return add_word(g, &p->dot, number << DOT_BITS | kind);
}

/* May this alternative match a text? */
static bool is_productive(PlanDraft *d, uint32_t a)
{
    for (uint32_t i = d->from.word[a]; i < alternative_end(d, a); i += 2)
        if (expr_at(d, i) == NONE ? !d->productive[d->symbol.word[i]]
                                  : expr_is_nothing(d->g, expr_at(d, i)))
            return false;
    return true;
}

/* The dots of an alternative. An alternative of expressions alone gets no dots: it joins *exprs. */
static bool plan_row(GrammarPlan *p, PlanDraft *d, uint32_t a, Words *exprs)
{
    uint32_t first = (uint32_t)p->dot.n, end = alternative_end(d, a);
    Expr     e = EXPR_EMPTY; /* the expressions since the last rule */
    for (uint32_t i = d->from.word[a]; i < end; i += 2) {
        uint32_t id = d->symbol.word[i];
        Expr     more = expr_at(d, i);
        bool     stays = more == NONE;
        if (e != EXPR_EMPTY && (stays || expr_length(d->g, e) > MOST_FOLDED)) {
            if (!add_dot(p, d->g, e, DOT_EXPR))
                return false;
            e = EXPR_EMPTY;
        }
        if (!stays)
            e = expr_seq(d->g, e, more);
        else if (!add_dot(p, d->g, id, DOT_RULE))
            return false;
    }
    if (p->dot.n == first)
        return add_word(d->g, exprs, e);
    return (e == EXPR_EMPTY || add_dot(p, d->g, e, DOT_EXPR))
        && add_dot(p, d->g, d->owner.word[a], DOT_END)
        && add_word(d->g, &p->alternative, first);
}

static bool plan_rules(GrammarPlan *p, PlanDraft *d)
{
    Words exprs = { 0 };
    bool  good = add_dot(p, d->g, 0, DOT_END); /* DOT_ACCEPT */
    for (uint32_t a = 0, rule = 0; good && rule < d->reached.n; rule++) {
        exprs.n = 0;
        good = add_word(d->g, &p->rule, (uint32_t)p->alternative.n);
        bool runs = d->folded[rule] == NONE;
        if (rule == 0 && !runs) /* the start is an expression */
            good = good && add_word(d->g, &exprs, d->folded[0]);
        for (; good && a < n_alternatives(d) && d->owner.word[a] == rule; a++)
            if (runs && is_productive(d, a))
                good = plan_row(p, d, a, &exprs);
        if (!good || exprs.n == 0)
            continue;
        Expr e = expr_alt_list(d->g, exprs.word, exprs.n);
        good = add_word(d->g, &p->alternative, (uint32_t)p->dot.n)
            && add_dot(p, d->g, e, DOT_EXPR) && add_dot(p, d->g, rule, DOT_END);
    }
    free(exprs.word);
    return good && add_word(d->g, &p->rule, (uint32_t)p->alternative.n) && !d->g->failed;
}

/* ---- Which rules begin which ----------------------------------------------------------------- */

/* Tarjan 1972, "Depth-first search and linear graph algorithms", without recursion. */
typedef struct Visit { uint32_t rule, alternative, dot; } Visit;
typedef struct Tarjan {
    GrammarPlan *p;
    Grammar     *g;
    Visit       *path;
    uint32_t    *index, *low, *open; /* open: the rules without a component yet */
    size_t       n_path, n_open;
    uint32_t     next, n_components;
} Tarjan;

static void enter(Tarjan *t, uint32_t rule)
{
    t->index[rule] = t->low[rule] = t->next++;
    t->open[t->n_open++] = rule;
    t->path[t->n_path++] = (Visit){ rule, t->p->rule.word[rule], NONE };
}

/* The next rule that can begin the visited one; NONE: no more. */
static uint32_t next_begun(Tarjan *t, Visit *v)
{
    const GrammarPlan *p = t->p;
    for (;;) {
        if (v->dot == NONE) {
            if (v->alternative == p->rule.word[v->rule + 1])
                return NONE;
            v->dot = p->alternative.word[v->alternative];
        }
        uint32_t kind = p->dot.word[v->dot] & 3, id = p->dot.word[v->dot] >> DOT_BITS;
        bool     goes_on = kind == DOT_RULE ? p->nullable[id]
                         : kind == DOT_EXPR ? expr_nullable(t->g, id) : false;
        if (goes_on) {
            v->dot++;
        } else {
            v->dot = NONE;
            v->alternative++;
        }
        if (kind == DOT_RULE)
            return id;
    }
}

static void leave(Tarjan *t, uint32_t rule)
{
    t->n_path--;
    if (t->n_path) {
        uint32_t above = t->path[t->n_path - 1].rule;
        if (t->low[rule] < t->low[above])
            t->low[above] = t->low[rule];
    }
    if (t->low[rule] != t->index[rule])
        return;
    bool several = t->open[t->n_open - 1] != rule;
    for (uint32_t one = NONE; one != rule;) {
        one = t->open[--t->n_open];
        t->p->component[one] = t->n_components;
        t->p->recursive[one] |= several;
    }
    t->n_components++;
}

static void find_components(Tarjan *t, size_t n)
{
    memset(t->index, 0xFF, n * sizeof *t->index);
    memset(t->p->component, 0xFF, n * sizeof *t->p->component);
    for (uint32_t first = 0; first < n; first++) {
        if (t->index[first] != NONE)
            continue;
        enter(t, first);
        while (t->n_path) {
            Visit   *v = &t->path[t->n_path - 1];
            uint32_t rule = v->rule, begun = next_begun(t, v);
            if (begun == NONE)
                leave(t, rule);
            else if (t->index[begun] == NONE)
                enter(t, begun);
            else if (t->p->component[begun] == NONE && t->index[begun] < t->low[rule])
                t->low[rule] = t->index[begun];
            if (begun == rule)
                t->p->recursive[rule] = 1;
        }
    }
}

static bool plan_components(GrammarPlan *p, Grammar *g, size_t n)
{
    Tarjan t = { .p = p, .g = g };
    t.path = malloc(n * sizeof *t.path);
    t.index = malloc(n * sizeof *t.index);
    t.low = malloc(n * sizeof *t.low);
    t.open = malloc(n * sizeof *t.open);
    p->component = malloc(n * sizeof *p->component);
    p->recursive = calloc(n, 1);
    bool good = t.path && t.index && t.low && t.open && p->component && p->recursive;
    if (good)
        find_components(&t, n);
    free(t.path);
    free(t.index);
    free(t.low);
    free(t.open);
    return good || grammar_no_memory(g);
}

/* Replace rules that repeat and are no expressions by rules that do not. *any: were there some? */
static bool spell_repeats(PlanDraft *d, bool *any)
{
    *any = false;
    for (size_t i = 0; i < d->reached.n; i++)
        if (d->folded[i] == NONE && d->g->rule[d->reached.word[i]].repeats) {
            grammar_spell_repeat(d->g, d->reached.word[i]);
            *any = true;
        }
    return !d->g->failed;
}

bool grammar_plan_make(GrammarPlan *p, Grammar *g, Rule start)
{
    PlanDraft d = { .g = g };
    bool      any = false, good = !g->failed && draft_make(&d, start) && draft_claim(&d, FOLDS)
                       && spell_repeats(&d, &any);
    if (any) { /* again, with the new rules */
        draft_free(&d);
        d = (PlanDraft){ .g = g };
        good = good && draft_make(&d, start) && draft_claim(&d, FOLDS);
    }
    good = good && draft_claim(&d, IS_PRODUCTIVE) && draft_claim(&d, IS_NULLABLE);
    if (good && (d.folded[0] == NONE ? !d.productive[0] : expr_is_nothing(g, d.folded[0])))
        good = grammar_wrong(g, "no text fits");
    if (good) {
        d.nullable[0] |= d.folded[0] != NONE && expr_nullable(g, d.folded[0]);
        p->nullable = d.nullable;
        d.nullable = NULL;
        good = plan_rules(p, &d) && plan_components(p, g, d.reached.n);
    }
    draft_free(&d);
    return good;
}

void grammar_plan_free(GrammarPlan *p)
{
    free(p->dot.word);
    free(p->alternative.word);
    free(p->rule.word);
    free(p->nullable);
    free(p->component);
    free(p->recursive);
}
