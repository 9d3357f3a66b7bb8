/* Compiles sets to symbols of the grammar: an expression if there is no recursion, else a rule. */
#include "constrain/schema_parts.h"

enum { MOST_ROW = 64 };

static Symbol new_rule(Schema *s)
{
    if (s->n_states++ == MOST_STATES)
        schema_refuse(s, s->at, "counts and combinations: more than %d rules", MOST_STATES);
    return symbol_rule(grammar_rule(s->g, "value"));
}

Symbol symbol_row(Schema *s, const Symbol *part, size_t n)
{
    Symbol row[MOST_ROW];
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (symbol_is_nothing(part[i]))
            return part[i];
        if (m && !part[i].is_rule && !row[m - 1].is_rule)
            row[m - 1].id = expr_seq(s->g, row[m - 1].id, part[i].id);
        else
            row[m++] = part[i];
    }
    if (m == 2 && !row[1].is_rule && row[1].id == EXPR_EMPTY)
        m = 1;
    if (m == 2 && !row[0].is_rule && row[0].id == EXPR_EMPTY)
        return row[1];
    if (m < 2)
        return m ? row[0] : symbol_expr(EXPR_EMPTY);
    Symbol all = new_rule(s);
    grammar_add(s->g, all.id, row, m);
    return all;
}

Symbol symbol_choice(Schema *s, const Symbol *part, size_t n)
{
    Expr   e = EXPR_NOTHING;
    Symbol only = { 0 };
    size_t n_rules = 0;
    for (size_t i = 0; i < n; i++) {
        if (!part[i].is_rule)
            e = expr_alt(s->g, e, part[i].id);
        else if (!n_rules || part[i].id != only.id)
            only = part[i], n_rules++;
    }
    if (n_rules == 0)
        return symbol_expr(e);
    if (n_rules == 1 && e == EXPR_NOTHING)
        return only;
    Symbol all = new_rule(s), own = symbol_expr(e);
    if (e != EXPR_NOTHING)
        grammar_add(s->g, all.id, &own, 1);
    for (size_t i = 0; i < n; i++)
        if (part[i].is_rule)
            grammar_add(s->g, all.id, &part[i], 1);
    return all;
}

/* part, n times: halves twice */
static Symbol exactly(Schema *s, Symbol part, uint32_t n)
{
    if (n < 2)
        return n ? part : symbol_expr(EXPR_EMPTY);
    Symbol half = exactly(s, part, n / 2);
    return symbol_row(s, (Symbol[]){ half, half, n % 2 ? part : symbol_expr(EXPR_EMPTY) }, 3);
}

/* part, at most n times. Up to 2 h - 1: fewer than h, or h and fewer than h. */
static Symbol at_most(Schema *s, Symbol part, uint32_t n)
{
    const Symbol empty = symbol_expr(EXPR_EMPTY);
    if (n == 0)
        return empty;
    Symbol fewer = at_most(s, part, n % 2 ? n / 2 : n - 1);
    Symbol more = symbol_row(s, (Symbol[]){ exactly(s, part, n % 2 ? n / 2 + 1 : 1), fewer }, 2);
    return symbol_choice(s, (Symbol[]){ n % 2 ? fewer : empty, more }, 2);
}

Symbol symbol_times(Schema *s, Symbol part, uint32_t min, uint32_t max)
{
    if (!part.is_rule)
        return symbol_expr(expr_repeat(s->g, part.id, min, max));
    Symbol first = exactly(s, part, min), more;
    if (max == REPEAT_FOREVER) { /* left recursion is the cheapest for the recogniser */
        more = new_rule(s);
        grammar_add(s->g, more.id, NULL, 0);
        grammar_add(s->g, more.id, (Symbol[]){ more, part }, 2);
    } else {
        more = at_most(s, part, max - min);
    }
    return symbol_row(s, (Symbol[]){ first, more }, 2);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

Expr set_scalars(Schema *s, SetId id)
{
    Grammar *g = s->g;
    Expr     number = set_scalar(s, id, IS_NUMBER), text = set_scalar(s, id, IS_STRING);
    number = number_spelled(s, id, number);
    text = expr_seq(g, s->quote, expr_seq(g, text, s->quote));
    Expr list[] = { set_scalar(s, id, IS_NULL), set_scalar(s, id, IS_BOOL), number, text };
    return expr_alt_list(g, list, 4);
}

static Symbol value_symbol(Schema *s, SetId id)
{
    Shapes objects = set_shapes(s, id, IS_OBJECT), arrays = set_shapes(s, id, IS_ARRAY);
    size_t n = 0;
    Symbol *way = schema_keep(s, objects.n + arrays.n + 1, sizeof *way);
    if (!way)
        return symbol_expr(EXPR_NOTHING);
    way[n++] = symbol_expr(set_scalars(s, id));
    for (size_t i = 0; i < objects.n && !schema_failed(s); i++)
        way[n++] = object_symbol(s, &objects.shape[i]);
    for (size_t i = 0; i < arrays.n && !schema_failed(s); i++)
        way[n++] = array_symbol(s, &arrays.shape[i]);
    return symbol_choice(s, way, n);
}

Symbol set_symbol(Schema *s, SetId id)
{
    const JsonNode *before = s->at;
    if (id == SET_NONE || schema_failed(s))
        return symbol_expr(EXPR_NOTHING);
    if (s->set[id].finished)
        return s->set[id].symbol;
    if (s->set[id].begun) { /* inside itself */
        if (!s->set[id].used)
            s->set[id].rule = grammar_rule(s->g, "value");
        s->set[id].used = true;
        return symbol_rule(s->set[id].rule);
    }
    if (s->set[id].n)
        s->at = literal_node(s, s->set[id].literal[0]);
    if (!schema_enter(s, s->at))
        return symbol_expr(EXPR_NOTHING);
    s->set[id].begun = true;
    Symbol value = value_symbol(s, id);
    schema_leave(s);
    s->at = before;
    SetFacts *f = &s->set[id];
    if (f->used) {
        grammar_add(s->g, f->rule, &value, 1);
        value = symbol_rule(f->rule);
    }
    f->symbol = value;
    f->finished = true;
    return value;
}
