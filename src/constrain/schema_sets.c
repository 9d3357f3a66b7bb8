/* Interns sets of values, which are conjunctions of literals. */
#include <stdlib.h>

#include "base/memory.h"
#include "constrain/schema_parts.h"

enum { EMPTY_DEPTH = 24 }; /* how far set_is_empty looks */

static SetId new_set(Schema *s, const SetLiteral *l, uint32_t n)
{
    Error       e;
    bool        found;
    SetLiteral *copy = schema_keep(s, n ? n : 1, sizeof *copy);
    if (!ARRAY_ROOM(s->set, s->cap_sets, s->n_sets + 1)) {
        no_memory(s->what, &e);
        grammar_fail(s->g, &e);
        return SET_NONE;
    }
    if (!copy)
        return SET_NONE;
    if (n)
        memcpy(copy, l, n * sizeof *l);
    int32_t *at = byte_map_put(&s->set_of, (const char *)copy, n * sizeof *l, (int32_t)s->n_sets,
                               &found, &e);
    if (!at) {
        grammar_fail(s->g, &e);
        return SET_NONE;
    }
    if (found)
        return (SetId)*at;
    if (s->n_sets == MOST_SETS) {
        schema_refuse(s, s->doc.node, "combinations of schemas: more than %d", MOST_SETS);
        return SET_NONE;
    }
    s->set[s->n_sets] = (SetFacts){ .literal = copy, .n = n };
    return (SetId)s->n_sets++;
}

/* The two predefined sets. NONE is no conjunction of literals. */
static bool begin_sets(Schema *s)
{
    SetLiteral never = UINT32_MAX;
    if (s->n_sets == 0 && new_set(s, NULL, 0) == SET_ANY)
        new_set(s, &never, 1);
    return s->n_sets >= 2;
}

SetId set_of(Schema *s, const JsonNode *j, bool value, bool negated)
{
    if (!begin_sets(s))
        return SET_NONE;
    for (int i = 0; !value && j->kind == NODE_OBJECT; i++) {
        const JsonNode *ref = keyword(j, "$ref");
        if (!schema_check(s, j))
            return SET_NONE;
        if (!ref || (!ref_alone(s) && j->n > 1))
            break;
        if (i == MOST_NESTED) {
            schema_refuse(s, ref, "$ref: leads back to itself");
            return SET_NONE;
        }
        j = schema_target(s, j);
        if (!j)
            return SET_NONE;
    }
    if (!value && !schema_check(s, j))
        return SET_NONE;
    if (!value && (j->kind == NODE_TRUE || (j->kind == NODE_OBJECT && j->n == 0)))
        return negated ? SET_NONE : SET_ANY;
    if (!value && j->kind == NODE_FALSE)
        return negated ? SET_ANY : SET_NONE;
    SetLiteral l = literal_of(s, s->doc.node + s->fact[j - s->doc.node].same, value, negated);
    return new_set(s, &l, 1);
}

SetId set_and(Schema *s, SetId a, SetId b)
{
    if (a == b || b == SET_ANY)
        return a;
    if (a == SET_ANY)
        return b;
    if (a == SET_NONE || b == SET_NONE)
        return SET_NONE;
    const SetFacts *x = &s->set[a], *y = &s->set[b];
    SetLiteral     *l = malloc((x->n + y->n) * sizeof *l);
    uint32_t        n = 0, i = 0, k = 0;
    bool            opposite = false;
    while (l && (i < x->n || k < y->n)) {
        SetLiteral next = k == y->n || (i < x->n && x->literal[i] < y->literal[k]) ? x->literal[i++]
                                                                                 : y->literal[k++];
        if (n && l[n - 1] == next)
            continue;
        opposite |= n && l[n - 1] == (next ^ 1);
        l[n++] = next;
    }
    SetId id = SET_NONE;
    if (!l) {
        Error e;
        no_memory(s->what, &e);
        grammar_fail(s->g, &e);
    } else if (!opposite) {
        id = new_set(s, l, n);
    }
    free(l);
    return id;
}

Expr set_scalar(Schema *s, SetId id, ValueType type)
{
    if (id == SET_NONE)
        return EXPR_NOTHING;
    Expr e = s->all[type];
    for (uint32_t i = 0; i < s->set[id].n && e != EXPR_NOTHING; i++)
        e = scalar_and(s, type, e, scalar_of(s, s->set[id].literal[i], type));
    return e;
}

Shapes set_shapes(Schema *s, SetId id, ValueType type)
{
    Shapes all = { 0 };
    bool   object = type == IS_OBJECT;
    if (id == SET_NONE)
        return all;
    if (s->set[id].shapes_known[object])
        return s->set[id].shapes[object];
    Shape any = shape_any(s);
    all = shapes_one(s, &any);
    for (uint32_t i = 0; i < s->set[id].n && all.n && !schema_failed(s); i++) {
        SetLiteral l = s->set[id].literal[i];
        all = shapes_and(s, all, shapes_of(s, l, type), type, literal_node(s, l));
    }
    s->set[id].shapes[object] = all;
    s->set[id].shapes_known[object] = !s->unsure;
    return all;
}

static bool look_for_values(Schema *s, SetId id)
{
    for (int type = 0; type < SCALAR_TYPES; type++) {
        Expr e = set_scalar(s, id, (ValueType)type);
        if (is_format(s, e) || !expr_is_nothing(s->g, e))
            return true;
    }
    return set_shapes(s, id, IS_ARRAY).n > 0 || set_shapes(s, id, IS_OBJECT).n > 0;
}

/* Through a property, a schema may refer to itself: then its shapes are not known yet when this
 * asks whether they are empty. The result is false then, and what was found on the way is dropped.
 * constraint_new removes rules that no text matches. */
bool set_is_empty(Schema *s, SetId id)
{
    if (id == SET_NONE || id == SET_ANY)
        return id == SET_NONE;
    if (s->set[id].empty == IS_EMPTY || s->set[id].empty == NOT_EMPTY)
        return s->set[id].empty == IS_EMPTY;
    if (s->set[id].empty == ASKING || s->asking >= EMPTY_DEPTH || schema_failed(s))
        return false;
    s->set[id].empty = ASKING;
    bool unsure = s->unsure;
    s->unsure = false;
    s->asking++;
    bool some = look_for_values(s, id) || s->unsure;
    s->asking--;
    s->unsure = unsure;
    s->set[id].empty = some ? NOT_EMPTY : IS_EMPTY;
    return !some;
}
