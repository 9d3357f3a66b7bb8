/* Shapes of objects and arrays: one, intersection, union. */
#include <stdlib.h>
#include "constrain/schema_parts.h"

Shape shape_any(Schema *s)
{
    NameClass *all = schema_keep(s, 1, sizeof *all);
    if (all)
        *all = (NameClass){ s->all[IS_STRING], SET_ANY };
    return (Shape){ .max = REPEAT_FOREVER, .classes = all, .n_classes = all ? 1 : 0 };
}

Shapes shapes_one(Schema *s, const Shape *shape)
{
    Shape *copy = schema_keep(s, 1, sizeof *copy);
    if (copy)
        *copy = *shape;
    return (Shapes){ .shape = copy, .n = copy ? 1 : 0 };
}

Shapes shapes_or(Schema *s, Shapes a, Shapes b, const JsonNode *at)
{
    if (!a.n || !b.n)
        return a.n ? a : b;
    if (a.n + b.n > MOST_SHAPES) {
        schema_refuse(s, at, "more than %d cases to tell apart", MOST_SHAPES);
        return (Shapes){ 0 };
    }
    if (!a.room || a.room->n != a.n || a.room->cap - a.n < b.n) {
        Shapes longer = { .n = a.n, .room = schema_keep(s, 1, sizeof *a.room) };
        longer.shape = schema_keep(s, 2 * (a.n + b.n), sizeof *a.shape);
        if (!longer.shape || !longer.room)
            return (Shapes){ 0 };
        memcpy(longer.shape, a.shape, a.n * sizeof *a.shape);
        longer.room->cap = 2 * (a.n + b.n);
        a = longer;
    }
    memcpy(a.shape + a.n, b.shape, b.n * sizeof *a.shape);
    a.room->n = a.n += b.n;
    return a;
}

static const Named *find_named(const Shape *shape, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < shape->n_named; i++)
        if (shape->named[i].n == n && memcmp(shape->named[i].name, name, n) == 0)
            return &shape->named[i];
    return NULL;
}

/* The set of a property that is not among the named ones. */
static SetId class_child(Schema *s, const Shape *shape, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < shape->n_classes; i++) {
        Expr both = shape->classes[i].names;
        if (both == s->all[IS_STRING]
            || !expr_is_nothing(s->g, expr_and(s->g, both, string_text(s, name, n))))
            return shape->classes[i].child;
    }
    return SET_NONE;
}

SetId shape_child(Schema *s, const Shape *shape, const char *name, uint32_t n)
{
    const Named *own = find_named(shape, name, n);
    return !own                        ? class_child(s, shape, name, n)
           : own->presence == ABSENT ? SET_NONE
                                     : own->child;
}

/* All objects in which this property has this presence and a value of this set. */
Shape shape_with_name(Schema *s, const JsonNode *name, Presence presence, SetId child)
{
    Shape  shape = shape_any(s);
    Named *named = schema_keep(s, 1, sizeof *named);
    if (named) {
        *named = (Named){ name->text, name->n, presence, child };
        shape.named = named;
        shape.n_named = 1;
    }
    return shape;
}

/* ---- Intersection ---------------------------------------------------------------------------- */

/* Appends a property of a to out, as b restricts it. False: no such object. */
static bool add_named(Schema *s, Shape *out, const Named *a, const Shape *b)
{
    const Named *other = find_named(b, a->name, a->n);
    Named        both = *a;
    both.child = set_and(s, a->child, other ? other->child : class_child(s, b, a->name, a->n));
    if (other && other->presence != OPTIONAL) {
        if (a->presence != OPTIONAL && a->presence != other->presence)
            return false;
        both.presence = other->presence;
    }
    if (both.presence != ABSENT && set_is_empty(s, both.child)) {
        if (both.presence == REQUIRED)
            return false;
        both.presence = ABSENT;
    }
    out->named[out->n_named++] = both;
    return true;
}

static void and_classes(Schema *s, Shape *out, const Shape *a, const Shape *b)
{
    for (uint32_t i = 0; i < a->n_classes; i++)
        for (uint32_t k = 0; k < b->n_classes; k++) {
            NameClass x = a->classes[i], y = b->classes[k];
            SetId     child = set_and(s, x.child, y.child);
            Expr      names = scalar_and(s, IS_STRING, x.names, y.names);
            bool      sure = names == x.names || names == y.names;
            if (child == SET_NONE || names == EXPR_NOTHING
                || (!sure && expr_is_nothing(s->g, names)))
                continue;
            out->classes[out->n_classes++] = (NameClass){ names, child };
        }
}

static bool and_objects(Schema *s, Shape *out, const Shape *a, const Shape *b)
{
    out->named = schema_keep(s, a->n_named + b->n_named + 1, sizeof *out->named);
    out->classes = schema_keep(s, (size_t)a->n_classes * b->n_classes + 1, sizeof *out->classes);
    out->some = schema_keep(s, a->n_some + b->n_some + 1, sizeof *out->some);
    if (!out->named || !out->classes || !out->some)
        return false;
    for (uint32_t i = 0; i < a->n_named; i++)
        if (!add_named(s, out, &a->named[i], b))
            return false;
    for (uint32_t i = 0; i < b->n_named; i++)
        if (!find_named(a, b->named[i].name, b->named[i].n) && !add_named(s, out, &b->named[i], a))
            return false;
    and_classes(s, out, a, b);
    for (uint32_t i = 0; i < a->n_some; i++)
        out->some[out->n_some++] = a->some[i];
    for (uint32_t i = 0; i < b->n_some; i++) {
        bool twice = false;
        for (uint32_t k = 0; k < a->n_some; k++)
            twice |= memcmp(&a->some[k], &b->some[i], sizeof *b->some) == 0;
        if (!twice)
            out->some[out->n_some++] = b->some[i];
    }
    uint32_t least = 0, most = 0;
    for (uint32_t i = 0; i < out->n_named; i++) {
        least += out->named[i].presence == REQUIRED;
        most += out->named[i].presence != ABSENT;
    }
    if (least > out->min)
        out->min = least;
    if (!out->n_classes && most < out->max)
        out->max = most;
    return out->min <= out->max && (!out->n_some || out->max > 0);
}

static bool and_arrays(Schema *s, Shape *out, const Shape *a, const Shape *b)
{
    uint32_t n = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    out->prefix = schema_keep(s, n + 1, sizeof *out->prefix);
    out->contains = schema_keep(s, a->n_contains + b->n_contains + 1, sizeof *out->contains);
    if (!out->prefix || !out->contains)
        return false;
    for (uint32_t i = 0; i < n; i++)
        out->prefix[i] = set_and(s, i < a->n_prefix ? a->prefix[i] : a->rest,
                                 i < b->n_prefix ? b->prefix[i] : b->rest);
    out->n_prefix = n;
    out->rest = set_and(s, a->rest, b->rest);
    for (uint32_t i = 0; i < a->n_contains; i++)
        out->contains[out->n_contains++] = a->contains[i];
    for (uint32_t i = 0; i < b->n_contains; i++) {
        const Contains *c = &b->contains[i];
        bool            twice = false;
        for (uint32_t k = 0; k < a->n_contains; k++)
            twice |= memcmp(&a->contains[k], c, sizeof *c) == 0;
        if (!twice)
            out->contains[out->n_contains++] = *c;
    }
    out->unique = a->unique ? a->unique : b->unique;
    /* no possible item: no longer array */
    for (uint32_t i = 0; i < n && i < out->max; i++)
        if (set_is_empty(s, out->prefix[i]))
            out->max = i;
    if (out->max > n && out->rest != SET_ANY && set_is_empty(s, out->rest))
        out->max = n;
    for (uint32_t i = 0; i < out->n_contains; i++) {
        const Contains *c = &out->contains[i];
        if (c->min > c->max || (c->min && (out->max < c->min || set_is_empty(s, c->child))))
            return false;
    }
    return out->min <= out->max;
}

static bool is_any(const Schema *s, const Shape *x)
{
    return x->min == 0 && x->max == REPEAT_FOREVER && !x->n_named && !x->n_some && !x->n_prefix
        && !x->n_contains && !x->unique && x->rest == SET_ANY && x->n_classes == 1
        && x->classes[0].names == s->all[IS_STRING] && x->classes[0].child == SET_ANY;
}

Shapes shapes_and(Schema *s, Shapes a, Shapes b, ValueType type, const JsonNode *at)
{
    Shapes all = { 0 };
    if (a.n == 1 && is_any(s, &a.shape[0]))
        return b;
    if (b.n == 1 && is_any(s, &b.shape[0]))
        return a;
    for (size_t i = 0; i < a.n; i++)
        for (size_t k = 0; k < b.n && !schema_failed(s); k++) {
            const Shape *x = &a.shape[i], *y = &b.shape[k];
            Shape        both = { .min = x->min > y->min ? x->min : y->min,
                                  .max = x->max < y->max ? x->max : y->max };
            if (!grammar_work(s->g, (size_t)x->n_named * y->n_named / 4 + 8))
                break;
            if (s->n_pairs++ == MOST_PAIRS)
                schema_refuse(s, at, "too many cases to tell apart");
            if (both.min > both.max
                || !(type == IS_OBJECT ? and_objects : and_arrays)(s, &both, x, y))
                continue;
            Shapes one = { .shape = &both, .n = 1 };
            all = all.n ? shapes_or(s, all, one, at) : shapes_one(s, &both);
        }
    return all;
}
