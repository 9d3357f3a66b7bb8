/* The grammar of one shape of arrays. */
#include "constrain/schema_parts.h"

enum { MOST_CONTAINS = 3, MOST_UNIQUE = 12 };

/* One value: a scalar with all its spellings, or a set with only this array or object. */
typedef struct UniqueValue { Expr text; SetId set; } UniqueValue;

/* A state is the number of items and, for each of contains, how many of them match it, as far as
 * that matters; or for unique items, which of the values are among them. */
typedef struct ArrayWalk {
    Schema      *s;
    const Shape *shape;
    Symbol      *memo;
    bool        *known;
    uint32_t     count_to;              /* items from here on are alike */
    uint32_t     cap[MOST_CONTAINS];    /* matches from here on are alike */
    UniqueValue  value[MOST_UNIQUE];    /* the values of unique items */
    uint32_t     n_values;
} ArrayWalk;

static SetId item_set(const Shape *a, uint32_t i)
{
    return i < a->n_prefix ? a->prefix[i] : a->rest;
}

static Symbol after_comma(Schema *s, uint32_t i, Symbol item)
{
    return i ? symbol_row(s, (Symbol[]){ symbol_expr(s->comma), item }, 2) : item;
}

static Symbol brackets(Schema *s, Symbol inside)
{
    return symbol_row(s, (Symbol[]){ symbol_expr(expr_text(s->g, "[", 1)), inside,
                               symbol_expr(expr_text(s->g, "]", 1)) }, 3);
}

/* ---- Counted items --------------------------------------------------------------------------- */

/* Items from i on, i > 0 or the first. */
static Symbol plain_items(Schema *s, const Shape *a, uint32_t i)
{
    Symbol none = symbol_expr(i >= a->min ? EXPR_EMPTY : EXPR_NOTHING), more;
    if (i >= a->max || schema_failed(s))
        return none;
    Symbol item = set_symbol(s, item_set(a, i));
    if (i >= a->n_prefix && i > 0) {
        uint32_t min = a->min > i ? a->min - i : 0;
        if (symbol_is_nothing(item))
            return none;
        return symbol_times(s, after_comma(s, i, item), min,
                     a->max == REPEAT_FOREVER ? a->max : a->max - i);
    }
    if (symbol_is_nothing(item))
        return none;
    more = symbol_row(s, (Symbol[]){ after_comma(s, i, item), plain_items(s, a, i + 1) }, 2);
    return symbol_choice(s, (Symbol[]){ none, more }, 2);
}

/* ---- contains -------------------------------------------------------------------------------- */

/* The item at i that matches the contains in the subset. Not matching another one matters only if
 * that one has a maximum. */
static SetId item_in(ArrayWalk *w, uint32_t i, uint32_t subset)
{
    Schema *s = w->s;
    SetId   set = item_set(w->shape, i);
    for (uint32_t c = 0; c < w->shape->n_contains; c++) {
        const Contains *x = &w->shape->contains[c];
        if (subset >> c & 1) {
            set = i < x->from ? SET_NONE : set_and(s, set, x->child);
        } else if (i >= x->from && x->max != REPEAT_FOREVER && x->child != SET_NONE) {
            if (x->child == SET_ANY || s->set[x->child].n != 1) {
                if (x->child == SET_ANY)
                    return SET_NONE;
                schema_refuse(s, s->at, "contains: its opposite is not kept");
                return SET_NONE;
            }
            SetLiteral l = s->set[x->child].literal[0];
            set = set_and(s, set, set_of(s, literal_node(s, l), l & 2, !(l & 1)));
        }
    }
    return set;
}

static Symbol with_contains(ArrayWalk *w, uint32_t i, const uint32_t *seen)
{
    Schema      *s = w->s;
    const Shape *a = w->shape;
    size_t       index = i;
    bool         enough = i >= a->min;
    for (uint32_t c = 0; c < a->n_contains; c++) {
        index = index * (w->cap[c] + 1) + seen[c];
        enough &= seen[c] >= a->contains[c].min;
    }
    if (w->known[index] || schema_failed(s))
        return w->memo[index];
    Symbol way[(1 << MOST_CONTAINS) + 1];
    size_t n = 0;
    way[n++] = symbol_expr(enough ? EXPR_EMPTY : EXPR_NOTHING);
    bool loops = i == w->count_to && a->max == REPEAT_FOREVER;
    if (loops) {
        w->memo[index] = symbol_rule(grammar_rule(s->g, "value"));
        w->known[index] = true;
    }
    for (uint32_t subset = 0; subset < 1u << a->n_contains && i < a->max; subset++) {
        uint32_t next[MOST_CONTAINS];
        bool     over = false;
        for (uint32_t c = 0; c < a->n_contains; c++) {
            next[c] = seen[c] + (subset >> c & 1);
            over |= next[c] > a->contains[c].max;
            next[c] = next[c] < w->cap[c] ? next[c] : w->cap[c];
        }
        Symbol item = over ? symbol_expr(EXPR_NOTHING) : set_symbol(s, item_in(w, i, subset));
        if (!symbol_is_nothing(item))
            way[n++] = symbol_row(s,
                                  (Symbol[]){ after_comma(s, i, item),
                                              with_contains(w, i < w->count_to ? i + 1 : i, next) },
                                  2);
    }
    if (loops)
        for (size_t k = 0; k < n; k++)
            grammar_add(s->g, w->memo[index].id, &way[k], 1);
    else
        w->memo[index] = symbol_choice(s, way, n);
    w->known[index] = true;
    return w->memo[index];
}

static Symbol contains_symbol(ArrayWalk *w)
{
    Schema      *s = w->s;
    const Shape *a = w->shape;
    uint32_t     none[MOST_CONTAINS] = { 0 };
    size_t       states;
    w->count_to = a->max != REPEAT_FOREVER ? a->max : a->min > a->n_prefix ? a->min : a->n_prefix;
    for (uint32_t c = 0; c < a->n_contains && c < MOST_CONTAINS; c++)
        if (a->max == REPEAT_FOREVER && a->contains[c].from > w->count_to)
            w->count_to = a->contains[c].from;
    if (w->count_to == 0)
        w->count_to = 1; /* the first item has no comma */
    states = (size_t)w->count_to + 1;
    for (uint32_t c = 0; c < a->n_contains && c < MOST_CONTAINS; c++) {
        const Contains *x = &a->contains[c];
        w->cap[c] = x->max != REPEAT_FOREVER ? x->max : x->min;
        states = states > MOST_STATES ? states : states * ((size_t)w->cap[c] + 1);
    }
    if (states > MOST_STATES || a->n_contains > MOST_CONTAINS) {
        schema_refuse(s, s->at, "contains: more than can be counted");
        return symbol_expr(EXPR_NOTHING);
    }
    w->memo = schema_keep(s, states, sizeof *w->memo);
    w->known = schema_keep(s, states, sizeof *w->known);
    return w->memo && w->known ? with_contains(w, 0, none) : symbol_expr(EXPR_NOTHING);
}

/* ---- uniqueItems ----------------------------------------------------------------------------- */

/* The values that an enum or const lists, of this schema or of the one it refers to. */
static const JsonNode *listed(Schema *s, const JsonNode *schema, bool *one)
{
    for (int i = 0; i < MOST_NESTED && schema && schema->kind == NODE_OBJECT; i++) {
        *one = keyword(schema, "const") != NULL;
        if (*one || keyword(schema, "enum"))
            return *one ? keyword(schema, "const") : keyword(schema, "enum");
        schema = keyword(schema, "$ref") ? schema_target(s, schema) : NULL;
    }
    return NULL;
}

/* False: there is no room. A value that is there already changes nothing. */
static bool add_value(ArrayWalk *w, UniqueValue v)
{
    Schema *s = w->s;
    for (uint32_t k = 0; k < w->n_values; k++) {
        UniqueValue x = w->value[k];
        if (v.text && x.text ? !expr_is_nothing(s->g, expr_and(s->g, v.text, x.text))
                             : !v.text && !x.text && !set_is_empty(s, set_and(s, v.set, x.set)))
            return true;
    }
    if (w->n_values == MOST_UNIQUE)
        return false;
    w->value[w->n_values++] = v;
    return true;
}

/* All spellings of the scalar whose shortest spelling this is. */
static Expr same_scalar(Schema *s, const char *text)
{
    Expr        e = expr_text(s->g, text, strlen(text));
    const char *zeros = strchr(text, '.') ? "0*" : "(?:\\.0+)?";
    if (*text != '-' && !(*text >= '0' && *text <= '9'))
        return e;
    if (strcmp(text, "0") == 0)
        e = expr_alt(s->g, e, expr_text(s->g, "-0", 2));
    return expr_seq(s->g, e, expr_pattern(s->g, zeros));
}

static bool find_scalars(ArrayWalk *w, SetId id)
{
    Grammar *g = w->s->g;
    Expr     shortest = expr_pattern(
        g, "(?s:[^-0-9].*)|0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\\.[0-9]*[1-9]");
    TextOut  texts = { 0 };
    Expr     scalars = expr_and(g, shortest, set_scalars(w->s, id));
    bool     found = expr_texts(g, scalars, MOST_UNIQUE, &texts);
    for (size_t i = 0; found && i < texts.n; i += strlen(texts.text + i) + 1)
        found = add_value(w, (UniqueValue){ .text = same_scalar(w->s, texts.text + i) });
    text_out_free(&texts);
    return found;
}

/* Fills w->value with the members of a finite set, without duplicates. False: they are unknown or
 * too many. */
static bool find_values(ArrayWalk *w, SetId id)
{
    Schema         *s = w->s;
    const JsonNode *list = NULL;
    bool            one = false;
    if (id == SET_ANY || !find_scalars(w, id))
        return false;
    if (!set_shapes(s, id, IS_ARRAY).n && !set_shapes(s, id, IS_OBJECT).n)
        return true;
    for (uint32_t i = 0; i < s->set[id].n && !list; i++)
        if (!(s->set[id].literal[i] & 3))
            list = listed(s, literal_node(s, s->set[id].literal[i]), &one);
    if (!list)
        return false;
    const JsonNode *end = node_end(list);
    for (const JsonNode *i = one ? list : list + 1; i != end; i += i->skip) {
        SetId value = set_of(s, i, true, false);
        if ((i->kind == NODE_ARRAY || i->kind == NODE_OBJECT)
            && !set_is_empty(s, set_and(s, value, id))
            && !add_value(w, (UniqueValue){ .set = value }))
            return false;
    }
    return true;
}

/* The value as an item of the set. */
static Symbol value_in(Schema *s, UniqueValue v, SetId set)
{
    if (!v.text)
        return set_symbol(s, set_and(s, v.set, set));
    Expr e = expr_and(s->g, v.text, set_scalars(s, set));
    return symbol_expr(expr_is_nothing(s->g, e) ? EXPR_NOTHING : e);
}

static Symbol unique_items(ArrayWalk *w, uint32_t mask)
{
    Schema      *s = w->s;
    const Shape *a = w->shape;
    Symbol       way[MOST_UNIQUE + 1];
    uint32_t     i = 0;
    size_t       n = 0;
    for (uint32_t bit = 0; bit < w->n_values; bit++)
        i += mask >> bit & 1;
    if (w->known[mask] || schema_failed(s))
        return w->memo[mask];
    way[n++] = symbol_expr(i >= a->min ? EXPR_EMPTY : EXPR_NOTHING);
    for (uint32_t v = 0; v < w->n_values && i < a->max; v++)
        if (!(mask >> v & 1)) {
            Symbol item = value_in(s, w->value[v], item_set(a, i));
            if (!symbol_is_nothing(item))
                way[n++] = symbol_row(s, (Symbol[]){ after_comma(s, i, item),
                                               unique_items(w, mask | 1u << v) }, 2);
        }
    w->memo[mask] = symbol_choice(s, way, n);
    w->known[mask] = true;
    return w->memo[mask];
}

static Symbol unique_symbol(ArrayWalk *w)
{
    Schema      *s = w->s;
    const Shape *a = w->shape;
    bool         found = a->n_contains == 0;
    for (uint32_t i = 0; i <= a->n_prefix && found && i < a->max; i++)
        found = item_set(a, i) == SET_NONE || find_values(w, item_set(a, i));
    if (!found) {
        schema_refuse(s, s->doc.node + a->unique,
                      "uniqueItems: kept only for items of at most %d values",
                      MOST_UNIQUE);
        return symbol_expr(EXPR_NOTHING);
    }
    w->memo = schema_keep(s, (size_t)1 << w->n_values, sizeof *w->memo);
    w->known = schema_keep(s, (size_t)1 << w->n_values, sizeof *w->known);
    return w->memo && w->known ? unique_items(w, 0) : symbol_expr(EXPR_NOTHING);
}

Symbol array_symbol(Schema *s, const Shape *shape)
{
    ArrayWalk w = { .s = s, .shape = shape };
    Symbol    inside;
    if (!schema_enter(s, s->at))
        return symbol_expr(EXPR_NOTHING);
    if (shape->n_prefix > MOST_NESTED) {
        schema_refuse(s, s->at, "prefixItems: more than %d", MOST_NESTED);
        return symbol_expr(EXPR_NOTHING);
    }
    if (shape->unique && shape->max > 1)
        inside = unique_symbol(&w);
    else if (shape->n_contains)
        inside = contains_symbol(&w);
    else
        inside = plain_items(s, shape, 0);
    schema_leave(s);
    return brackets(s, inside);
}
