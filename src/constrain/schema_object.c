/* The grammar of one shape of objects. */
#include "constrain/schema_parts.h"

enum { MOST_SOME = 3 };

/* Builds one shape. A state is how much of the object has been written: which named properties,
 * which of the properties that some[] requires, and how many in all, as far as that matters.
 * grammar_names_once rules out duplicate names, unless the order does already. */
typedef struct ObjectWalk {
    Schema      *s;
    const Shape *shape;
    Symbol      *named;         /* each named property without a comma */
    Symbol       rest[1 << MOST_SOME]; /* another property, one for each subset of some[] */
    Symbol      *memo;          /* by state */
    bool        *known;
    uint32_t     count_to;      /* counts from here on are equal; at least 1 */
    uint32_t     min, max;      /* max: REPEAT_FOREVER if it cannot be exceeded */
    uint32_t     n_rest_names;  /* of the other properties; also REPEAT_FOREVER */
} ObjectWalk;

static Symbol member(Schema *s, Expr name, SetId child)
{
    Grammar *g = s->g;
    Expr     key = expr_seq(g, s->quote, expr_seq(g, name, expr_seq(g, s->quote, s->colon)));
    return name == EXPR_NOTHING
        ? symbol_expr(EXPR_NOTHING)
        : symbol_row(s, (Symbol[]){ symbol_expr(key), set_symbol(s, child) }, 2);
}

static Expr spelled_names(Schema *s, const Shape *shape)
{
    Expr *e = schema_keep(s, (size_t)shape->n_named + 1, sizeof *e);
    for (uint32_t i = 0; e && i < shape->n_named; i++)
        e[i] = string_text(s, shape->named[i].name, shape->named[i].n);
    return expr_alt_list(s->g, e, e ? shape->n_named : 0);
}

/* The properties, other than the named ones, that meet those of some[] in the subset. */
static Symbol rest_member(ObjectWalk *w, uint32_t subset, Expr spelled)
{
    Schema *s = w->s;
    Symbol *way = schema_keep(s, w->shape->n_classes + 1, sizeof *way);
    size_t  n = 0;
    for (uint32_t c = 0; way && c < w->shape->n_classes; c++) {
        NameClass x = w->shape->classes[c];
        Expr      names = spelled == EXPR_NOTHING ? x.names : expr_minus(s->g, x.names, spelled);
        SetId     child = x.child;
        for (uint32_t i = 0; i < w->shape->n_some; i++)
            if (subset >> i & 1) {
                names = expr_and(s->g, names, w->shape->some[i].names);
                child = set_and(s, child, w->shape->some[i].child);
            }
        if (!set_is_empty(s, child) && !expr_is_nothing(s->g, names))
            way[n++] = member(s, names, child);
    }
    return way ? symbol_choice(s, way, n) : symbol_expr(EXPR_NOTHING);
}

/* With a comma before it, unless it is the first. */
static Symbol after_comma(ObjectWalk *w, uint32_t count, Symbol property)
{
    return count ? symbol_row(w->s, (Symbol[]){ symbol_expr(w->s->comma), property }, 2) : property;
}

/* ---- What follows the named properties ------------------------------------------------------- */

static uint32_t one_more(const ObjectWalk *w, uint32_t count)
{
    return count < w->count_to ? count + 1 : count;
}

static Symbol some_left(ObjectWalk *w, uint32_t done, uint32_t count);

static Symbol *state_at(ObjectWalk *w, uint32_t place, uint32_t count, bool **known)
{
    size_t i = (size_t)place * (w->count_to + 1) + count;
    *known = &w->known[i];
    return &w->memo[i];
}

/* Any number of other properties, within the counts. */
static Symbol rest_of(ObjectWalk *w, uint32_t count)
{
    Schema  *s = w->s;
    uint32_t min = w->min > count ? w->min - count : 0;
    uint32_t max = w->max == REPEAT_FOREVER ? w->max : w->max - count;
    Symbol   one = w->rest[0], more = after_comma(w, 1, one);
    max = max < w->n_rest_names ? max : w->n_rest_names;
    if (min > max)
        return symbol_expr(EXPR_NOTHING);
    if (max > 1 && !symbol_is_nothing(one))
        grammar_names_once(s->g);
    if (symbol_is_nothing(one) || !max)
        return symbol_expr(min ? EXPR_NOTHING : EXPR_EMPTY);
    if (count)
        return symbol_times(s, more, min, max);
    Symbol some = symbol_row(s, (Symbol[]){ one, symbol_times(s, more, min ? min - 1 : 0,
                                                 max == REPEAT_FOREVER ? max : max - 1) }, 2);
    return symbol_choice(s, (Symbol[]){ symbol_expr(min ? EXPR_NOTHING : EXPR_EMPTY), some }, 2);
}

/* The same while some[] requires more; done: those that have been met. */
static Symbol some_left(ObjectWalk *w, uint32_t done, uint32_t count)
{
    Schema  *s = w->s;
    uint32_t all = (1u << w->shape->n_some) - 1, n = 0;
    bool    *known;
    if (done == all)
        return rest_of(w, count);
    Symbol *own = state_at(w, w->shape->n_named + done, count, &known);
    if (*known)
        return *own;
    Symbol way[1 << MOST_SOME];
    bool   loops = count == w->count_to && w->max == REPEAT_FOREVER;
    grammar_names_once(s->g);
    if (loops) { /* its own state recurs */
        *own = symbol_rule(grammar_rule(s->g, "value"));
        *known = true;
    }
    for (uint32_t met = 0; met <= all && count < w->max; met++)
        if (!(met & done))
            way[n++] = symbol_row(s, (Symbol[]){ after_comma(w, count, w->rest[met]),
                                           some_left(w, done | met, one_more(w, count)) }, 2);
    if (loops) {
        for (uint32_t i = 0; i < n; i++)
            grammar_add(s->g, own->id, &way[i], 1);
    } else {
        *own = symbol_choice(s, way, n);
        *known = true;
    }
    return *own;
}

/* ---- Named properties ------------------------------------------------------------------------ */

/* What follows after `count` of the first i named properties. Built from the last property to the
 * first, for all possible counts. */
static Symbol in_order(ObjectWalk *w)
{
    Schema  *s = w->s;
    uint32_t n_named = w->shape->n_named, n_last = n_named < w->count_to ? n_named : w->count_to;
    Symbol  *next = schema_keep(s, (size_t)w->count_to + 1, sizeof *next);
    for (uint32_t count = 0; next && count <= n_last; count++)
        next[count] = some_left(w, 0, count);
    for (uint32_t i = n_named; next && i-- > 0;) {
        Presence presence = w->shape->named[i].presence;
        if (presence == ABSENT)
            continue;
        /* upwards: a row of the table replaces the one after it */
        for (uint32_t count = 0; count <= n_last && count <= i && !schema_failed(s); count++) {
            Symbol way[2] = { { 0 } };
            size_t n = 0;
            if (w->max == REPEAT_FOREVER || count < w->max)
                way[n++] = symbol_row(s, (Symbol[]){ after_comma(w, count, w->named[i]),
                                               next[one_more(w, count)] }, 2);
            if (presence == OPTIONAL)
                way[n++] = next[count];
            next[count] = symbol_choice(s, way, n);
        }
    }
    return next ? next[0] : symbol_expr(EXPR_NOTHING);
}

/* One of the named properties that are required, or of the optional ones. */
static Symbol one_named(ObjectWalk *w, Presence presence, uint32_t *n)
{
    Symbol *way = schema_keep(w->s, (size_t)w->shape->n_named + 1, sizeof *way);
    *n = 0;
    for (uint32_t i = 0; way && i < w->shape->n_named; i++)
        if (w->shape->named[i].presence == presence)
            way[(*n)++] = w->named[i];
    return symbol_choice(w->s, way, way ? *n : 0);
}

/* In any order, a state is how many required properties have been written, how many others, and
 * which of some[] have been met. No name is repeated, so it suffices to count the required ones.
 * The states after one more required property are in `after`, which become those before. */
typedef struct AnyOrder {
    Symbol   required[2], optional[2]; /* with a comma: [1] */
    uint32_t n_required, min, max, count_to;
    Symbol  *after;                    /* [subset of some[]][count] */
} AnyOrder;

static Symbol any_order_state(ObjectWalk *w, const AnyOrder *o, uint32_t n, uint32_t done,
                              uint32_t k)
{
    Schema  *s = w->s;
    uint32_t all = (1u << w->shape->n_some) - 1, n_ways = 0, width = o->count_to + 1;
    bool     loops = k == o->count_to && o->max == REPEAT_FOREVER, comma = n || k;
    Symbol   way[(1 << MOST_SOME) + 3], own = { 0 };
    if (loops)
        own = symbol_rule(grammar_rule(s->g, "value"));
    way[n_ways++] = symbol_row(s, (Symbol[]){ o->required[comma], o->after[done * width + k] }, 2);
    if (n == o->n_required && k >= o->min && done == all)
        way[n_ways++] = symbol_expr(EXPR_EMPTY);
    for (uint32_t met = 0; met <= all && (loops || k < o->count_to); met++) {
        uint32_t then = done | met;
        Symbol   next = loops && then == done ? own : o->after[then * width + (loops ? k : k + 1)];
        if (met & done)
            continue;
        way[n_ways++] = symbol_row(s, (Symbol[]){ after_comma(w, comma, w->rest[met]), next }, 2);
        if (met == 0)
            way[n_ways++] = symbol_row(s, (Symbol[]){ o->optional[comma], next }, 2);
    }
    if (!loops)
        return symbol_choice(s, way, n_ways);
    for (uint32_t i = 0; i < n_ways; i++)
        grammar_add(s->g, own.id, &way[i], 1);
    return own;
}

static bool begin_any_order(ObjectWalk *w, AnyOrder *o)
{
    uint32_t n_optional;
    o->required[0] = one_named(w, REQUIRED, &o->n_required);
    o->optional[0] = one_named(w, OPTIONAL, &n_optional);
    o->required[1] = after_comma(w, 1, o->required[0]);
    o->optional[1] = after_comma(w, 1, o->optional[0]);
    o->min = w->shape->min > o->n_required ? w->shape->min - o->n_required : 0;
    o->max = w->shape->max;
    if (o->max != REPEAT_FOREVER)
        o->max = o->max > o->n_required ? o->max - o->n_required : 0;
    if (w->n_rest_names != REPEAT_FOREVER && o->max > n_optional + w->n_rest_names)
        o->max = n_optional + w->n_rest_names;
    o->count_to = o->max != REPEAT_FOREVER ? o->max : o->min ? o->min : 1;
    size_t sets = (size_t)1 << w->shape->n_some;
    if (o->count_to >= MOST_STATES / 4 / sets / ((size_t)o->n_required + 1))
        return schema_refuse(w->s, w->s->at, "properties in any order: more than can be counted");
    grammar_names_once(w->s->g);
    o->after = schema_keep(w->s, sets * ((size_t)o->count_to + 1), sizeof *o->after);
    return o->after && o->min <= o->max;
}

static Symbol in_any_order(ObjectWalk *w)
{
    AnyOrder o = { 0 };
    if (!begin_any_order(w, &o))
        return symbol_expr(EXPR_NOTHING);
    for (uint32_t n = o.n_required + 1; n-- > 0;)
        for (uint32_t done = 1u << w->shape->n_some; done-- > 0;)
            for (uint32_t k = o.count_to + 1; k-- > 0 && !schema_failed(w->s);)
                o.after[done * (o.count_to + 1) + k] = any_order_state(w, &o, n, done, k);
    return o.after[0];
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* How far properties must be counted. */
static void plan_counts(ObjectWalk *w)
{
    uint32_t least = 0, most = 0;
    for (uint32_t i = 0; i < w->shape->n_named; i++) {
        least += w->shape->named[i].presence == REQUIRED;
        most += w->shape->named[i].presence != ABSENT;
    }
    w->min = w->shape->min > least ? w->shape->min : 0;
    w->max = w->shape->max;
    if (!w->shape->n_classes && most <= w->max)
        w->max = REPEAT_FOREVER;
    w->count_to = w->max != REPEAT_FOREVER ? w->max : w->min;
    if (w->count_to == 0)
        w->count_to = 1;
}

/* How many of these names other properties can have. */
static uint32_t count_names(Schema *s, const Shape *shape, Expr names)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->n_classes && n <= MOST_NAMES; i++)
        if (!set_is_empty(s, shape->classes[i].child))
            n += expr_count(s->g, expr_and(s->g, shape->classes[i].names, names), MOST_NAMES);
    return n <= MOST_NAMES ? n : REPEAT_FOREVER;
}

/* False if a demand is on finitely many names: each may get a value that does not meet it, and then
 * cannot come again. Nothing here foresees that. */
static bool can_be_met(Schema *s, const Shape *shape, Expr others)
{
    for (uint32_t i = 0; i < shape->n_some; i++) {
        NameClass x = shape->some[i];
        uint32_t  n =
             x.child == SET_ANY ? 0 : count_names(s, shape, expr_and(s->g, others, x.names));
        if (n > 0 && n != REPEAT_FOREVER)
            return schema_refuse(s, s->at, "not: a demand on one of %u names that a pattern spells",
                                 n);
    }
    return true;
}

/* The symbols of the properties. False: there are too many to walk. */
static bool begin_walk(ObjectWalk *w)
{
    Schema      *s = w->s;
    const Shape *shape = w->shape;
    size_t       places = (size_t)shape->n_named + ((size_t)1 << MOST_SOME) + 1;
    if (w->count_to > MOST_STATES / places)
        return schema_refuse(s, s->at, "minProperties, maxProperties: more than can be counted");
    w->memo = schema_keep(s, places * (w->count_to + 1), sizeof *w->memo);
    w->known = schema_keep(s, places * (w->count_to + 1), sizeof *w->known);
    w->named = schema_keep(s, shape->n_named + 1, sizeof *w->named);
    if (!w->memo || !w->known || !w->named)
        return false;
    Expr spelled = spelled_names(s, shape);
    for (uint32_t subset = 0; subset < 1u << shape->n_some; subset++)
        w->rest[subset] = rest_member(w, subset, spelled);
    Expr others = expr_minus(s->g, s->all[IS_STRING], spelled);
    w->n_rest_names = count_names(s, shape, others);
    if (!can_be_met(s, shape, others))
        return false;
    for (uint32_t i = 0; i < shape->n_named && !schema_failed(s); i++) {
        const Named *p = &shape->named[i];
        if (p->presence != ABSENT)
            w->named[i] = member(s, string_text(s, p->name, p->n), p->child);
    }
    return !schema_failed(s);
}

static Symbol walk_object(ObjectWalk *w)
{
    Schema *s = w->s;
    plan_counts(w);
    if (!begin_walk(w))
        return symbol_expr(EXPR_NOTHING);
    Symbol inside = s->any_order ? in_any_order(w) : in_order(w);
    return symbol_row(s, (Symbol[]){ symbol_expr(expr_text(s->g, "{", 1)), inside,
                               symbol_expr(expr_text(s->g, "}", 1)) }, 3);
}

/* The i-th of some[] is met by this named property: one way to write the object. */
static Symbol met_by(Schema *s, const Shape *shape, uint32_t some, uint32_t named)
{
    Shape        other = *shape;
    const Named *p = &shape->named[named];
    SetId        child = set_and(s, p->child, shape->some[some].child);
    if (set_is_empty(s, child)
        || expr_is_nothing(s->g, expr_and(s->g, shape->some[some].names,
                                          string_text(s, p->name, p->n))))
        return symbol_expr(EXPR_NOTHING);
    other.named = schema_keep(s, shape->n_named, sizeof *other.named);
    other.some = schema_keep(s, shape->n_some, sizeof *other.some);
    if (!other.named || !other.some)
        return symbol_expr(EXPR_NOTHING);
    memcpy(other.named, shape->named, shape->n_named * sizeof *other.named);
    other.named[named].presence = REQUIRED;
    other.named[named].child = child;
    other.n_some = 0;
    for (uint32_t i = 0; i < shape->n_some; i++)
        if (i != some)
            other.some[other.n_some++] = shape->some[i];
    return object_symbol(s, &other);
}

Symbol object_symbol(Schema *s, const Shape *shape)
{
    Symbol *way = schema_keep(s, (size_t)shape->n_named * shape->n_some + 1, sizeof *way);
    size_t  n = 0;
    if (!way || !schema_enter(s, s->at))
        return symbol_expr(EXPR_NOTHING);
    if (shape->n_some > MOST_SOME) {
        schema_refuse(s, s->at, "not: more than %d demands on properties at once", MOST_SOME);
        return symbol_expr(EXPR_NOTHING);
    }
    for (uint32_t i = 0; i < shape->n_some; i++)
        for (uint32_t k = 0; k < shape->n_named && !schema_failed(s); k++)
            if (shape->named[k].presence != ABSENT)
                way[n++] = met_by(s, shape, i, k);
    ObjectWalk w = { .s = s, .shape = shape };
    way[n++] = walk_object(&w);
    schema_leave(s);
    return symbol_choice(s, way, n);
}
