/* Builds a grammar, and keeps its first failure. */
#include "constrain/grammar_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { MOST_RULES = 1 << 18, MOST_SYMBOLS = 1 << 22, MOST_REPEATS = 4096 };

Grammar *grammar_new(Error *err)
{
    Grammar *g = calloc(1, sizeof *g);
    if (g) {
        g->n_classes = 1;
        g->most_exprs = EXPRS_BUILT;
        if (expr_begin(g))
            return g;
    }
    grammar_free(g);
    no_memory(NULL, err);
    return NULL;
}

void grammar_free(Grammar *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_rules; i++) {
        free(g->rule[i].name);
        free(g->rule[i].alternatives.word);
    }
    free(g->rule);
    interned_free(&g->exprs);
    interned_free(&g->steps);
    interned_free(&g->splits);
    interned_free(&g->meets);
    free(g->met.word);
    free(g->stepped.word);
    free(g->stack.word);
    free(g->fact);
    free(g);
}

bool grammar_failed(const Grammar *g, Error *err)
{
    if (g->failed && err)
        *err = g->why;
    return g->failed;
}

void grammar_fail(Grammar *g, const Error *why)
{
    if (!g->failed)
        g->why = *why;
    g->failed = true;
}

bool grammar_wrong(Grammar *g, const char *format, ...)
{
    char    text[400];
    Error   why = { 0 };
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fail(&why, INPUT, "%s", text);
    grammar_fail(g, &why);
    return false;
}

bool grammar_no_memory(Grammar *g)
{
    Error why = { 0 };
    no_memory(NULL, &why);
    grammar_fail(g, &why);
    return false;
}

bool grammar_work(Grammar *g, size_t units)
{
    g->work += units;
    return g->work <= MOST_WORK || grammar_wrong(g, "it is too complex: it would take too long");
}

Rule grammar_rule(Grammar *g, const char *name)
{
    if (g->failed)
        return 0;
    if (g->n_rules == MOST_RULES) {
        grammar_wrong(g, "more than %d rules", MOST_RULES);
        return 0;
    }
    if (!ARRAY_ROOM(g->rule, g->cap_rules, g->n_rules + 1)) {
        grammar_no_memory(g);
        return 0;
    }
    g->rule[g->n_rules] = (GrammarRule){ .name = strdup(name) };
    if (!g->rule[g->n_rules].name) {
        grammar_no_memory(g);
        return 0;
    }
    return (Rule)g->n_rules++;
}

void grammar_add(Grammar *g, Rule rule, const Symbol *symbols, size_t n)
{
    if (g->failed)
        return;
    Words   *to = &g->rule[rule].alternatives;
    uint32_t head = (uint32_t)n;
    if (n >= MOST_SYMBOLS || to->n + 2 * n >= 2 * MOST_SYMBOLS) {
        grammar_wrong(g, "rule %s: more than %d symbols", g->rule[rule].name, MOST_SYMBOLS);
        return;
    }
    bool good = words_add(to, &head, 1);
    for (size_t i = 0; i < n && good; i++)
        good = words_add(to, (uint32_t[]){ symbols[i].id, symbols[i].is_rule }, 2);
    if (good)
        g->rule[rule].n_alternatives++;
    else
        grammar_no_memory(g);
}

Symbol grammar_repeat(Grammar *g, Symbol symbol, uint32_t min, uint32_t max)
{
    if (!symbol.is_rule || g->failed)
        return symbol_expr(expr_repeat(g, symbol.is_rule ? EXPR_NOTHING : symbol.id, min, max));
    Rule rule = grammar_rule(g, g->rule[symbol.id].name);
    grammar_add(g, rule, &symbol, 1);
    if (!g->failed) {
        g->rule[rule].repeats = true;
        g->rule[rule].min = min;
        g->rule[rule].max = max;
    }
    return symbol_rule(rule);
}

void grammar_names_once(Grammar *g) { g->names_once = true; }

void grammar_spell_repeat(Grammar *g, Rule rule)
{
    GrammarRule r = g->rule[rule];
    Symbol      row[2] = { { r.alternatives.word[1], r.alternatives.word[2] } };
    bool        endless = r.max == REPEAT_FOREVER;
    if (r.min > MOST_REPEATS || (!endless && r.max > MOST_REPEATS)) {
        grammar_wrong(g, "rule %s: it recurs, and is repeated more than %d times", r.name,
                      MOST_REPEATS);
        return;
    }
    g->rule[rule].repeats = false;
    g->rule[rule].alternatives.n = g->rule[rule].n_alternatives = 0;
    /* at: row[0] and more of the same, for the remaining counts */
    for (uint32_t i = 0, at = rule; i < r.min || i < r.max; i++) {
        bool last = endless && i >= r.min;
        Rule next = last || (i + 1 == r.max) ? at : grammar_rule(g, r.name);
        row[1] = symbol_rule(next);
        if (i >= r.min)
            grammar_add(g, at, NULL, 0);
        grammar_add(g, at, row, i + 1 == r.max ? 1 : 2);
        if (last || g->failed)
            return;
        at = next;
    }
    if (r.max == 0)
        grammar_add(g, rule, NULL, 0);
}
