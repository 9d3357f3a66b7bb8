/* The objects and arrays that a schema allows or forbids, as a union of shapes. */
#include "constrain/schema_parts.h"

static Shapes sub(Schema *s, const JsonNode *schema, bool negated, ValueType type)
{
    return set_shapes(s, set_of(s, schema, false, negated), type);
}

static Shapes everything(Schema *s)
{
    Shape any = shape_any(s);
    return shapes_one(s, &any);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static Shapes value_equal(Schema *s, const JsonNode *value, ValueType type)
{
    Shape    shape = { .min = value->n, .max = value->n, .rest = SET_NONE };
    uint32_t n = value->n;
    if (!value_has_type(value, type))
        return (Shapes){ 0 };
    if (type == IS_OBJECT)
        shape.named = schema_keep(s, n + 1, sizeof *shape.named);
    else
        shape.prefix = schema_keep(s, n + 1, sizeof *shape.prefix);
    JSON_NODES (i, value) {
        SetId child = set_of(s, i, true, false);
        if (shape.named)
            shape.named[shape.n_named++] = (Named){ i->key, i->key_n, REQUIRED, child };
        if (shape.prefix)
            shape.prefix[shape.n_prefix++] = child;
    }
    return shapes_one(s, &shape);
}

/* Another size, or another member; for an object, also another name. */
static Shapes value_other(Schema *s, const JsonNode *value, ValueType type)
{
    Shapes   all = { 0 };
    uint32_t at = 0;
    if (!value_has_type(value, type))
        return everything(s);
    Shape size = shape_any(s);
    size.min = value->n + 1;
    all = shapes_or(s, all, shapes_one(s, &size), value);
    size.min = 0;
    size.max = value->n - 1;
    if (value->n)
        all = shapes_or(s, all, shapes_one(s, &size), value);
    JSON_NODES (i, value) {
        JsonNode key = { .kind = NODE_STRING, .text = i->key, .n = i->key_n };
        SetId    child = set_of(s, i, true, true);
        Shape    wrong = shape_any(s), absent = wrong;
        if (type == IS_OBJECT) {
            absent = shape_with_name(s, &key, ABSENT, SET_ANY);
            wrong = shape_with_name(s, &key, REQUIRED, child);
            all = shapes_or(s, all, shapes_one(s, &absent), value);
        } else {
            wrong.prefix = schema_keep(s, at + 1, sizeof *wrong.prefix);
            if (!wrong.prefix)
                return all;
            wrong.prefix[at++] = child;
            wrong.n_prefix = wrong.min = at;
        }
        all = shapes_or(s, all, shapes_one(s, &wrong), value);
    }
    return all;
}

static Shapes values(Schema *s, const JsonNode *schema, bool negated, ValueType type)
{
    const JsonNode *list = keyword(schema, "enum"), *value = keyword(schema, "const");
    Shapes all = negated ? (Shapes){ 0 } : everything(s), each = negated ? everything(s) : all;
    if (list && !negated)
        all = (Shapes){ 0 };
    JSON_NODES (i, list) {
        if (!value_has_type(i, type))
            continue;
        if (negated)
            each = shapes_and(s, each, value_other(s, i, type), type, i);
        else
            all = shapes_or(s, all, value_equal(s, i, type), i);
    }
    if (list && negated)
        all = each;
    if (value && negated)
        all = shapes_or(s, all, value_other(s, value, type), value);
    else if (value)
        all = shapes_and(s, all, value_equal(s, value, type), type, value);
    return all;
}

/* ---- One of many ----------------------------------------------------------------------------- */

/* In i and in no other. If another is disjoint from i, nothing need be subtracted. */
static Shapes only_in(Schema *s, const JsonNode *i, const JsonNode *list, ValueType type)
{
    Shapes own = sub(s, i, false, type);
    SetId  set = set_of(s, i, false, false);
    JSON_NODES (k, list) {
        if (k == i || !own.n || schema_failed(s))
            continue;
        SetId both = set_and(s, set, set_of(s, k, false, false));
        if (set_shapes(s, both, type).n)
            own = shapes_and(s, own, sub(s, k, true, type), type, k);
    }
    return own;
}

static Shapes one_of(Schema *s, const JsonNode *list, ValueType type)
{
    Shapes all = { 0 };
    JSON_NODES (i, list)
        all = shapes_or(s, all, only_in(s, i, list, type), list);
    return all;
}

/* In none of the list, or in two of them. */
static Shapes not_one_of(Schema *s, const JsonNode *list, ValueType type)
{
    Shapes none = everything(s), all = { 0 };
    JSON_NODES (i, list) {
        none = shapes_and(s, none, sub(s, i, true, type), type, list);
        for (const JsonNode *k = i + i->skip; k != node_end(list); k += k->skip)
            all = shapes_or(s, all, shapes_and(s, sub(s, i, false, type), sub(s, k, false, type),
                                               type, list), list);
    }
    return shapes_or(s, none, all, list);
}

/* ---- All keywords ---------------------------------------------------------------------------- */

/* if, then, else: (if and then) or (not if and else), and the complement. */
static Shapes conditions(Schema *s, const JsonNode *schema, bool negated, ValueType type)
{
    const JsonNode *test = keyword(schema, "if"), *then = keyword(schema, "then");
    const JsonNode *otherwise = keyword(schema, "else");
    Shapes          none = { 0 };
    if (!test || (!then && !otherwise))
        return negated ? none : everything(s);
    Shapes other = negated ? none : everything(s);
    Shapes yes = shapes_and(s, sub(s, test, false, type),
                            then ? sub(s, then, negated, type) : other, type, test);
    Shapes no = shapes_and(s, sub(s, test, true, type),
                           otherwise ? sub(s, otherwise, negated, type) : other, type, test);
    return shapes_or(s, yes, no, test);
}

static Shapes combined(Schema *s, const JsonNode *schema, ValueType type, Shapes all)
{
    const JsonNode *any = keyword(schema, "anyOf"), *one = keyword(schema, "oneOf");
    const JsonNode *not = keyword(schema, "not");
    JSON_NODES (i, keyword(schema, "allOf"))
        all = shapes_and(s, all, sub(s, i, false, type), type, i);
    if (any) {
        Shapes some = { 0 };
        JSON_NODES (i, any)
            some = shapes_or(s, some, sub(s, i, false, type), any);
        all = shapes_and(s, all, some, type, any);
    }
    if (one)
        all = shapes_and(s, all, one_of(s, one, type), type, one);
    if (not)
        all = shapes_and(s, all, sub(s, not, true, type), type, not);
    return shapes_and(s, all, conditions(s, schema, false, type), type, schema);
}

static Shapes instances(Schema *s, const JsonNode *schema, ValueType type)
{
    Shapes all = everything(s);
    if (keyword(schema, "$ref")) {
        const JsonNode *target = schema_target(s, schema);
        all = target ? sub(s, target, false, type) : (Shapes){ 0 };
        if (ref_alone(s))
            return all;
    }
    if (!type_allows(schema, type))
        return (Shapes){ 0 };
    all = shapes_and(s, all, direct_shapes(s, schema, type), type, schema);
    all = shapes_and(s, all, values(s, schema, false, type), type, schema);
    return combined(s, schema, type, all);
}

static Shapes others(Schema *s, const JsonNode *schema, ValueType type)
{
    const JsonNode *any = keyword(schema, "anyOf"), *one = keyword(schema, "oneOf");
    const JsonNode *not = keyword(schema, "not");
    Shapes          all = { 0 };
    if (keyword(schema, "$ref")) {
        const JsonNode *target = schema_target(s, schema);
        all = target ? sub(s, target, true, type) : all;
        if (ref_alone(s))
            return all;
    }
    if (!type_allows(schema, type))
        return everything(s);
    all = shapes_or(s, all, direct_opposite(s, schema, type), schema);
    all = shapes_or(s, all, values(s, schema, true, type), schema);
    JSON_NODES (i, keyword(schema, "allOf"))
        all = shapes_or(s, all, sub(s, i, true, type), schema);
    if (any) {
        Shapes none = everything(s);
        JSON_NODES (i, any)
            none = shapes_and(s, none, sub(s, i, true, type), type, any);
        all = shapes_or(s, all, none, any);
    }
    if (one)
        all = shapes_or(s, all, not_one_of(s, one, type), one);
    if (not)
        all = shapes_or(s, all, sub(s, not, false, type), not);
    return shapes_or(s, all, conditions(s, schema, true, type), schema);
}

Shapes shapes_of(Schema *s, SetLiteral l, ValueType type)
{
    const JsonNode *j = literal_node(s, l);
    NodeFacts      *f = &s->fact[l >> 2];
    bool            object = type == IS_OBJECT, negated = l & 1;
    if (l & 2)
        return negated ? value_other(s, j, type) : value_equal(s, j, type);
    if (f->shapes_known[object][negated])
        return f->shapes[object][negated];
    if (f->busy[type] && s->asking >= f->busy[type]) {
        s->unsure = true;
        return (Shapes){ 0 };
    }
    if (f->busy[type]) {
        schema_refuse(s, j, "the schema is defined by itself, without end");
        return (Shapes){ 0 };
    }
    if (!schema_enter(s, j))
        return (Shapes){ 0 };
    f->busy[type] = (uint8_t)(1 + s->asking);
    Shapes all = negated ? others(s, j, type) : instances(s, j, type);
    f->shapes[object][negated] = all;
    f->shapes_known[object][negated] = !s->unsure;
    f->busy[type] = 0;
    schema_leave(s);
    return all;
}
