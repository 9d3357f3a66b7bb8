/* The keywords about the members of objects and arrays: what they allow as one shape, and what they
 * forbid as many. */
#include "constrain/schema_parts.h"

/* ---- Objects --------------------------------------------------------------------------------- */

static Expr name_pattern(Schema *s, const JsonNode *pattern)
{
    return string_pattern(s, pattern, pattern->key, pattern->key_n);
}

/* Adds a class unless no name matches it. */
static void add_class(Schema *s, Shape *o, Expr names, SetId child)
{
    if (!expr_is_nothing(s->g, names))
        o->classes[o->n_classes++] = (NameClass){ names, child };
}

/* Splits all names by the patterns that they match: each class is a list of patterns, one half of
 * each earlier class. The last class matches none. */
static void classes_of_patterns(Schema *s, Shape *o, const JsonNode *patterns)
{
    enum { MOST_CLASSES = 256 };
    Grammar *g = s->g;
    uint32_t n = patterns ? patterns->n : 0, room = 1;
    for (uint32_t i = 0; i < n && room < MOST_CLASSES; i++)
        room *= 2;
    NameClass *before = schema_keep(s, (size_t)room + 2, sizeof *before);
    o->classes = schema_keep(s, (size_t)room * 2 + 2, sizeof *o->classes);
    if (!before || !o->classes)
        return;
    o->classes[o->n_classes++] = (NameClass){ s->all[IS_STRING], SET_ANY };
    JSON_NODES (i, patterns) {
        Expr     names = name_pattern(s, i);
        SetId    child = set_of(s, i, false, false);
        uint32_t k = o->n_classes;
        if (k > room / 2 + 1) {
            schema_refuse(s, patterns, "patternProperties: too many patterns that overlap");
            return;
        }
        memcpy(before, o->classes, k * sizeof *before);
        o->n_classes = 0;
        for (uint32_t c = 0; c < k && !schema_failed(s); c++) {
            add_class(s, o, expr_and(g, before[c].names, names),
                      set_and(s, before[c].child, child));
            if (c + 1 < k)
                add_class(s, o, expr_minus(g, before[c].names, names), before[c].child);
        }
        /* kept even if empty, as the last one */
        o->classes[o->n_classes++] = (NameClass){ expr_minus(g, before[k - 1].names, names),
                                                  before[k - 1].child };
    }
}

static const JsonNode *dependencies(const JsonNode *schema, int which)
{
    static const char *const names[] = { "dependentRequired", "dependentSchemas", "dependencies" };
    return keyword(schema, names[which]);
}

/* Adds every name that the schema spells, in that order, to the named properties. */
static void name_places(Schema *s, Shape *o, const JsonNode *schema)
{
    const JsonNode *properties = keyword(schema, "properties"),
                   *names = keyword(schema, "required");
    size_t          n = (properties ? properties->n : 0) + (names ? names->n : 0);
    o->named = schema_keep(s, n + 1, sizeof *o->named);
    if (!o->named)
        return;
    JSON_NODES (i, properties)
        o->named[o->n_named++] = (Named){ i->key, i->key_n, OPTIONAL, set_of(s, i, false, false) };
    uint32_t spelled = o->n_named;
    JSON_NODES (i, names) {
        Named *found = NULL;
        if (!grammar_work(s->g, o->n_named / 8))
            return;
        for (uint32_t k = 0; k < o->n_named; k++)
            if (o->named[k].n == i->n && memcmp(o->named[k].name, i->text, i->n) == 0)
                found = &o->named[k];
        if (!found) {
            found = &o->named[o->n_named++];
            *found = (Named){ i->text, i->n, REQUIRED, SET_ANY };
        }
        found->presence = REQUIRED;
    }
    /* their constraints by patterns and additionalProperties */
    const Shape classes = { .classes = o->classes, .n_classes = o->n_classes };
    bool        patterns = keyword(schema, "patternProperties") != NULL;
    for (uint32_t k = 0; k < o->n_named && !schema_failed(s); k++) {
        Named *p = &o->named[k];
        if (k >= spelled)
            p->child = shape_child(s, &classes, p->name, p->n);
        else if (patterns)
            p->child = set_and(s, p->child, shape_child(s, &classes, p->name, p->n));
    }
}

/* propertyNames */
static void allow_names(Schema *s, Shape *o, Expr allowed)
{
    for (uint32_t i = 0; i < o->n_classes; i++)
        o->classes[i].names = expr_and(s->g, o->classes[i].names, allowed);
    for (uint32_t i = 0; i < o->n_named; i++)
        if (expr_is_nothing(s->g, expr_and(s->g, allowed,
                                           string_text(s, o->named[i].name, o->named[i].n))))
            o->named[i].child = SET_NONE;
}

static Shape direct_object(Schema *s, const JsonNode *schema)
{
    Shape           o = { .min = schema_count(s, keyword(schema, "minProperties"), 0),
                          .max = schema_count(s, keyword(schema, "maxProperties"),
                                              REPEAT_FOREVER) };
    const JsonNode *additional = keyword(schema, "additionalProperties");
    const JsonNode *names = keyword(schema, "propertyNames");
    classes_of_patterns(s, &o, keyword(schema, "patternProperties"));
    if (schema_failed(s))
        return o;
    /* the last class matches no pattern; names in properties are not additional */
    SetId other = additional ? set_of(s, additional, false, false) : SET_ANY;
    Shape spelled = o;
    name_places(s, &spelled, schema);
    o.classes[o.n_classes - 1].child = other;
    name_places(s, &o, schema);
    if (schema_failed(s))
        return o;
    uint32_t n = keyword(schema, "properties") ? keyword(schema, "properties")->n : 0;
    for (uint32_t i = 0; i < n; i++)
        o.named[i].child = spelled.named[i].child;
    if (names)
        allow_names(s, &o, set_scalar(s, set_of(s, names, false, false), IS_STRING));
    return o;
}

/* A property is absent, or present together with `with`. */
static Shapes depend(Schema *s, const JsonNode *name, Shapes with)
{
    JsonNode key = { .kind = NODE_STRING, .text = name->key, .n = name->key_n };
    Shape    absent = shape_with_name(s, &key, ABSENT, SET_ANY);
    Shape    present = shape_with_name(s, &key, REQUIRED, SET_ANY);
    return shapes_or(s, shapes_one(s, &absent),
                     shapes_and(s, shapes_one(s, &present), with, IS_OBJECT, name), name);
}

static Shapes all_present(Schema *s, const JsonNode *names)
{
    Shape  any = shape_any(s);
    Shapes all = shapes_one(s, &any);
    JSON_NODES (i, names) {
        Shape one = shape_with_name(s, i, REQUIRED, SET_ANY);
        all = shapes_and(s, all, shapes_one(s, &one), IS_OBJECT, names);
    }
    return all;
}

static Shapes objects_of_schema(Schema *s, const JsonNode *schema)
{
    return set_shapes(s, set_of(s, schema, false, false), IS_OBJECT);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Items at fixed indices: prefixItems, or items as a list, followed by additionalItems. */
static void item_schemas(const JsonNode *schema, const JsonNode **prefix, const JsonNode **rest)
{
    const JsonNode *items = keyword(schema, "items");
    bool            list = items && items->kind == NODE_ARRAY;
    *prefix = list ? items : keyword(schema, "prefixItems");
    *rest = list ? keyword(schema, "additionalItems") : items;
}

static Contains contains_of(Schema *s, const JsonNode *schema)
{
    bool counts = s->draft >= DRAFT_2019;
    return (Contains){
        .child = set_of(s, keyword(schema, "contains"), false, false),
        .min = counts ? schema_count(s, keyword(schema, "minContains"), 1) : 1,
        .max = counts ? schema_count(s, keyword(schema, "maxContains"), REPEAT_FOREVER)
                      : REPEAT_FOREVER };
}

static Shape direct_array(Schema *s, const JsonNode *schema)
{
    const JsonNode *prefix, *rest, *unique = keyword(schema, "uniqueItems");
    Shape           a = shape_any(s);
    a.min = schema_count(s, keyword(schema, "minItems"), 0);
    a.max = schema_count(s, keyword(schema, "maxItems"), REPEAT_FOREVER);
    item_schemas(schema, &prefix, &rest);
    a.prefix = schema_keep(s, (prefix ? prefix->n : 0) + 1, sizeof *a.prefix);
    a.contains = schema_keep(s, 1, sizeof *a.contains);
    if (!a.prefix || !a.contains)
        return a;
    JSON_NODES (i, prefix)
        a.prefix[a.n_prefix++] = set_of(s, i, false, false);
    a.rest = rest ? set_of(s, rest, false, false) : SET_ANY;
    if (keyword(schema, "contains"))
        a.contains[a.n_contains++] = contains_of(s, schema);
    a.unique = unique && unique->kind == NODE_TRUE ? node_index(s, unique) : 0;
    return a;
}

Shapes direct_shapes(Schema *s, const JsonNode *schema, ValueType type)
{
    Shape  any = shape_any(s);
    Shape  own = type == IS_OBJECT ? direct_object(s, schema) : direct_array(s, schema);
    Shapes all = shapes_one(s, &any), one = shapes_one(s, &own);
    if (schema_failed(s))
        return (Shapes){ 0 };
    /* twice: drops impossible combinations inside the shape itself */
    all = shapes_and(s, shapes_and(s, one, one, type, schema), all, type, schema);
    for (int which = 0; type == IS_OBJECT && which < 3; which++)
        JSON_NODES (i, dependencies(schema, which)) {
            Shapes with = i->kind == NODE_ARRAY ? all_present(s, i) : objects_of_schema(s, i);
            all = shapes_and(s, all, depend(s, i, with), type, schema);
        }
    return all;
}

/* ---- The complement -------------------------------------------------------------------------- */

static void add(Schema *s, Shapes *all, const Shape *shape, const JsonNode *at)
{
    *all = shapes_or(s, *all, shapes_one(s, shape), at);
}

/* At least one property with such a name and a value of this set. */
static void add_some(Schema *s, Shapes *all, Expr names, SetId child, const JsonNode *at)
{
    Shape      shape = shape_any(s);
    NameClass *some = schema_keep(s, 1, sizeof *some);
    if (!some || child == SET_NONE || expr_is_nothing(s->g, names))
        return;
    *some = (NameClass){ names, child };
    shape.some = some;
    shape.n_some = 1;
    shape.min = 1;
    add(s, all, &shape, at);
}

static void add_size(Schema *s, Shapes *all, const JsonNode *min, const JsonNode *max)
{
    Shape    shape = shape_any(s);
    uint32_t least = schema_count(s, min, 0), most = schema_count(s, max, REPEAT_FOREVER);
    if (least > 0) {
        shape.max = least - 1;
        add(s, all, &shape, min);
    }
    if (most < REPEAT_FOREVER) {
        shape.min = most + 1;
        shape.max = REPEAT_FOREVER;
        add(s, all, &shape, max);
    }
}

static void add_dependencies(Schema *s, Shapes *all, const JsonNode *schema)
{
    for (int which = 0; which < 3; which++)
        JSON_NODES (i, dependencies(schema, which)) {
            JsonNode key = { .kind = NODE_STRING, .text = i->key, .n = i->key_n };
            Shape    present = shape_with_name(s, &key, REQUIRED, SET_ANY);
            Shapes   without = { 0 };
            if (i->kind == NODE_ARRAY) {
                JSON_NODES (k, i) {
                    Shape absent = shape_with_name(s, k, ABSENT, SET_ANY);
                    without = shapes_or(s, without, shapes_one(s, &absent), i);
                }
            } else {
                without = set_shapes(s, set_of(s, i, false, true), IS_OBJECT);
            }
            *all = shapes_or(s, *all, shapes_and(s, shapes_one(s, &present), without, IS_OBJECT, i),
                             i);
        }
}

static Shapes opposite_object(Schema *s, const JsonNode *schema)
{
    Grammar        *g = s->g;
    Shapes          all = { 0 };
    const JsonNode *names = keyword(schema, "propertyNames"),
                   *required = keyword(schema, "required");
    const JsonNode *additional = keyword(schema, "additionalProperties");
    Expr            other = s->all[IS_STRING];
    JSON_NODES (i, required) {
        Shape absent = shape_with_name(s, i, ABSENT, SET_ANY);
        add(s, &all, &absent, i);
    }
    JSON_NODES (i, keyword(schema, "properties")) {
        JsonNode key = { .kind = NODE_STRING, .text = i->key, .n = i->key_n };
        SetId    child = set_of(s, i, false, true);
        Shape    wrong = shape_with_name(s, &key, REQUIRED, child);
        if (child != SET_NONE)
            add(s, &all, &wrong, i);
        other = expr_minus(g, other, string_text(s, i->key, i->key_n));
    }
    JSON_NODES (i, keyword(schema, "patternProperties")) {
        add_some(s, &all, name_pattern(s, i), set_of(s, i, false, true), i);
        other = expr_minus(g, other, name_pattern(s, i));
    }
    if (additional)
        add_some(s, &all, other, set_of(s, additional, false, true), additional);
    if (names)
        add_some(s, &all, set_scalar(s, set_of(s, names, false, true), IS_STRING), SET_ANY, names);
    add_size(s, &all, keyword(schema, "minProperties"), keyword(schema, "maxProperties"));
    add_dependencies(s, &all, schema);
    return all;
}

static void add_contains(Schema *s, Shapes *all, Contains c, const JsonNode *at)
{
    Shape     shape = shape_any(s);
    Contains *copy = schema_keep(s, 1, sizeof *copy);
    if (!copy || (c.min && c.child == SET_NONE))
        return;
    *copy = c;
    shape.contains = copy;
    shape.n_contains = 1;
    add(s, all, &shape, at);
}

static Shapes opposite_array(Schema *s, const JsonNode *schema)
{
    Shapes          all = { 0 };
    const JsonNode *prefix, *rest, *contains = keyword(schema, "contains");
    uint32_t        at = 0;
    item_schemas(schema, &prefix, &rest);
    JSON_NODES (i, prefix) {
        Shape  wrong = shape_any(s);
        SetId *places = schema_keep(s, at + 1, sizeof *places);
        if (!places)
            return all;
        places[at] = set_of(s, i, false, true); /* those before it: SET_ANY */
        wrong.prefix = places;
        wrong.n_prefix = wrong.min = ++at;
        if (places[at - 1] != SET_NONE)
            add(s, &all, &wrong, i);
    }
    if (rest)
        add_contains(s, &all, (Contains){ set_of(s, rest, false, true), 1, REPEAT_FOREVER, at },
                     rest);
    if (contains) {
        Contains c = contains_of(s, schema);
        if (c.min)
            add_contains(s, &all, (Contains){ c.child, 0, c.min - 1, 0 }, contains);
        if (c.max < REPEAT_FOREVER)
            add_contains(s, &all, (Contains){ c.child, c.max + 1, REPEAT_FOREVER, 0 }, contains);
    }
    if (keyword(schema, "uniqueItems") && keyword(schema, "uniqueItems")->kind == NODE_TRUE)
        schema_refuse(s, keyword(schema, "uniqueItems"), "uniqueItems: its opposite is not kept");
    add_size(s, &all, keyword(schema, "minItems"), keyword(schema, "maxItems"));
    return all;
}

Shapes direct_opposite(Schema *s, const JsonNode *schema, ValueType type)
{
    return type == IS_OBJECT ? opposite_object(s, schema) : opposite_array(s, schema);
}
